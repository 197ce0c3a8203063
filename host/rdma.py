"""RDMA devices, their ports, GID tables and counters as sysfs shows them.

Path: ``/sys/class/infiniband`` (``Documentation/ABI/stable/sysfs-class-infiniband``,
``drivers/infiniband/core/sysfs.c``).

A mount of sysfs shows the devices of the network namespace that it was made in, whatever namespace its reader is in
(in shared mode every mount shows all). So these functions take the place of a mount: ``/sys`` is the host's,
:func:`sysfs_of` gives a pod's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from host import inet, netns
from host.errors import HostError

__all__ = [
    "ROCE_V2",
    "Device",
    "Gid",
    "Port",
    "beside",
    "counters",
    "devices",
    "find_gid",
    "gid",
    "gids",
    "hw_counters",
    "mtu_for",
    "node_guid",
    "parse_gid",
    "parse_rate",
    "parse_state",
    "read",
    "sysfs_of",
]

ROCE_V2 = "RoCE v2"
"""A GID's type in ``gid_attrs/types``; the other one is ``IB/RoCE v1``."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) Gb/sec")
_MTUS = (4096, 2048, 1024, 512, 256)
_GID_LENGTH = 39  # eight groups of four digits
_EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"

# asm-generic/unistd.h: the same numbers on every architecture
_SYS_FSOPEN, _SYS_FSCONFIG, _SYS_FSMOUNT = 430, 431, 432
_CLOEXEC, _FSCONFIG_CMD_CREATE, _MOUNT_ATTR_RDONLY = 1, 6, 1


class Port(NamedTuple):
    """One port of an RDMA device."""

    number: int
    state: str
    """``ACTIVE``, ``DOWN``, ``INIT``, ``ARMED``, …"""
    phys_state: str
    """``LinkUp``, ``Polling``, ``Disabled``, …"""
    link_layer: str
    """``Ethernet`` (RoCE) or ``InfiniBand``."""
    rate: float
    """Gb/s; 0 for unknown."""
    lid: int
    """InfiniBand's local identifier; 0 on RoCE."""
    active_mtu: int | None
    """Bytes. Mainline kernels have no such file: None (:func:`mtu_for` reckons it from the netdev's MTU)."""
    netdev: str
    """The port's own network device, which holds GID 0; empty on InfiniBand or where it is in another namespace."""


class Device(NamedTuple):
    """One RDMA device."""

    name: str
    node_guid: str
    """``b8ce:f603:00d2:3b1a``."""
    firmware: str
    node_type: str
    """``CA``, ``RNIC``, ``switch``, …"""
    pci: str
    """PCI address; empty for a software device."""
    netdevs: tuple[str, ...]
    """Network devices of the same PCI function (of the lower device of rxe and siw), as this mount shows them."""
    ports: tuple[Port, ...]


class Gid(NamedTuple):
    """One entry of a port's GID table."""

    slot: int
    """Its index in the table, which differs from pod to pod: never configure it."""
    gid: str
    """``0000:0000:0000:0000:0000:ffff:0ac8:0002``."""
    type: str
    """``RoCE v2`` or ``IB/RoCE v1``; empty where the kernel does not tell."""
    netdev: str
    """The network device whose address it is (a macvlan's, a VLAN's); empty on InfiniBand."""

    @property
    def address(self) -> str:
        """The IP address that it stands for: an IPv4 one where it is mapped."""
        return parse_gid(self.gid)


def devices(*, sysfs: str = "/sys") -> tuple[Device, ...]:
    """Every RDMA device that the mount shows, by name; empty where the kernel has no RDMA."""
    found = []
    for name in sorted(_names(_folder(sysfs))):
        try:
            found.append(read(name, sysfs=sysfs))
        except HostError:
            if os.path.lexists(_folder(sysfs, name)):
                raise
    return tuple(found)


def read(name: str, *, sysfs: str = "/sys") -> Device:
    """One RDMA device with its ports. HostError where there is none of this name."""
    folder = _folder(sysfs, name)
    if not name or "/" in name or not os.path.isdir(folder):
        raise HostError("read", f"RDMA device {name}", 2, f"not in {_folder(sysfs)}")
    place = os.path.basename(os.path.realpath(os.path.join(folder, "device")))
    lower = _text(folder, "parent")  # rxe and siw: the netdev that they were made on
    beside = _names(os.path.join(folder, "device/net"))
    numbers = sorted(int(number) for number in _names(os.path.join(folder, "ports")) if _is_number(number))
    return Device(
        name=name,
        node_guid=_text(folder, "node_guid"),
        firmware=_text(folder, "fw_ver"),
        node_type=parse_state(_text(folder, "node_type")),
        pci=place if _ADDRESS.fullmatch(place) else "",
        netdevs=tuple(sorted(beside)) or ((lower,) if lower else ()),
        ports=tuple(_port(_folder(sysfs, name, "ports", str(number)), number) for number in numbers),
    )


def beside(pci: str, *, sysfs: str = "/sys") -> tuple[str, ...]:
    """Names of the RDMA devices of a PCI function that the mount shows; not those that software made (rxe, siw)."""
    names = _names(os.path.join(sysfs, "bus/pci/devices", pci, "infiniband"))
    return tuple(sorted(name for name in names if not _text(_folder(sysfs, name), "parent")))


def node_guid(name: str, *, sysfs: str = "/sys") -> str:
    """A device's node GUID, ``b8ce:f603:00d2:3b1a``; empty where there is no such device."""
    return _text(_folder(sysfs, name), "node_guid")


def _port(folder: str, number: int) -> Port:
    mtu, lid = _text(folder, "active_mtu"), _text(folder, "lid")
    return Port(
        number=number,
        state=parse_state(_text(folder, "state")),
        phys_state=parse_state(_text(folder, "phys_state")),
        link_layer=_text(folder, "link_layer"),
        rate=parse_rate(_text(folder, "rate")),
        lid=int(lid, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", lid) else 0,
        active_mtu=int(mtu) if _is_number(mtu) else None,
        netdev=_text(folder, "gid_attrs/ndevs/0"),
    )


def parse_state(text: str) -> str:
    """``4: ACTIVE`` to ``ACTIVE``; anything else as it is."""
    number, colon, word = text.partition(": ")
    return word if colon and number.isdigit() else text


def parse_rate(text: str) -> float:
    """``400 Gb/sec (4X NDR)`` to 400.0; 0.0 for anything else."""
    found = _RATE.match(text)
    return float(found[1]) if found else 0.0


def gids(name: str, port: int = 1, *, sysfs: str = "/sys") -> tuple[Gid, ...]:
    """The entries in use, by index. Some NICs have 256: :func:`find_gid` stops at the one that is looked for."""
    return tuple(_gids(name, port, sysfs))


def find_gid(
    name: str, address: str, port: int = 1, *, type: str = ROCE_V2, netdev: str = "", sysfs: str = "/sys"
) -> Gid | None:
    """The first entry for an IP address of this type (and of this network device, if one is named).

    ValueError for what is no IP address.
    """
    wanted = inet.unpack(inet.pack(address))
    for each in _gids(name, port, sysfs):
        if each.type == type and each.address == wanted and netdev in ("", each.netdev):
            return each
    return None


def gid(name: str, index: int, port: int = 1, *, sysfs: str = "/sys") -> Gid | None:
    """One entry; None for an empty or missing one."""
    folder = _folder(sysfs, name, "ports", str(port))
    text = _text(folder, f"gids/{index}")
    if len(text) != _GID_LENGTH or text == _EMPTY:
        return None
    return Gid(index, text, _text(folder, f"gid_attrs/types/{index}"), _text(folder, f"gid_attrs/ndevs/{index}"))


def _gids(name: str, port: int, sysfs: str) -> Iterator[Gid]:
    folder = _folder(sysfs, name, "ports", str(port), "gids")
    try:
        numbers = sorted(int(each) for each in os.listdir(folder) if _is_number(each))
    except OSError as error:
        raise HostError("read the GID table of", f"{name} port {port}", error.errno or 0) from error
    for number in numbers:
        found = gid(name, number, port, sysfs=sysfs)
        if found is not None:
            yield found


def parse_gid(text: str) -> str:
    """A GID as an IP address, IPv4 where it is mapped (::ffff:0:0/96); empty for what is no GID."""
    try:
        data = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        return ""
    if len(data) != 16:
        return ""
    return inet.unpack(data[12:] if data.startswith(b"\0" * 10 + b"\xff\xff") else data)


def mtu_for(netdev_mtu: int) -> int:
    """The RoCE path MTU, in bytes, of a port whose network device has this MTU; 0 where not even 256 fits.

    As the kernel reckons (``iboe_get_mtu``, include/rdma/ib_addr.h): less 96 bytes of GRH 40, UDP 8, BTH 12, XRC 4,
    atomic 28 and ICRC 4, rounded down to a power of two from 256 to 4096. Drivers may give more than that.
    """
    return next((mtu for mtu in _MTUS if netdev_mtu - 96 >= mtu), 0)


def counters(name: str, port: int = 1, *, sysfs: str = "/sys") -> dict[str, int]:
    """The port's standard counters (``port_xmit_data`` counts words of four bytes); empty where it has none."""
    return _counters(_folder(sysfs, name, "ports", str(port), "counters"))


def hw_counters(name: str, port: int = 1, *, sysfs: str = "/sys") -> dict[str, int]:
    """The driver's counters of a port; ``lifespan`` (ms that the kernel caches them) is left out."""
    found = _counters(_folder(sysfs, name, "ports", str(port), "hw_counters"))
    found.pop("lifespan", None)
    return found


def _counters(folder: str) -> dict[str, int]:
    texts = {name: _text(folder, name) for name in sorted(_names(folder))}
    return {name: int(text) for name, text in texts.items() if _is_number(text)}  # "N/A (no PMA)" is none


@contextmanager
def sysfs_of(pod: netns.Netns) -> Iterator[str]:
    """A mount of sysfs as ``pod``'s namespace sees it, attached nowhere: it vanishes with the block.

    ``Documentation/filesystems/mount_api.rst``; kernel 5.2 and later, CAP_SYS_ADMIN.
    """
    with netns.inside(pod):  # sysfs shows the namespace that its mount was configured in
        descriptor = _mount_sysfs()
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _mount_sysfs() -> int:
    import ctypes  # 2.5 ms: only where a pod's own devices are looked at

    libc = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *arguments: object) -> int:
        result = int(libc.syscall(number, *arguments))
        if result < 0:
            raise HostError("mount", "sysfs of a network namespace", ctypes.get_errno())
        return result

    context = call(_SYS_FSOPEN, b"sysfs", _CLOEXEC)
    try:
        call(_SYS_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return call(_SYS_FSMOUNT, context, _CLOEXEC, _MOUNT_ATTR_RDONLY)
    finally:
        os.close(context)


def _folder(sysfs: str, *parts: str) -> str:
    return os.path.join(sysfs, "class/infiniband", *parts)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _text(folder: str, name: str) -> str:
    """A file's text, stripped; empty where it is missing or refuses (an empty GID's type answers EINVAL)."""
    try:
        with open(os.path.join(folder, name), errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
