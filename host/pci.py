"""PCI functions and the tree they hang in.

Path: ``/sys/bus/pci/devices`` (``Documentation/ABI/testing/sysfs-bus-pci``, ``Documentation/PCI/sysfs-pci.rst``);
configuration space: the ``config`` file there, laid out as in ``include/uapi/linux/pci_regs.h``.

A function's place in the tree is the target of its symbolic link, so one readlink tells the whole way up:
``../../../devices/pci0000:17/0000:17:01.0/0000:18:00.0`` is a host bridge, a root port and the function. What is in
configuration space costs the hardware a transaction for each word and is read only where asked for (:func:`config`).
"""

from __future__ import annotations

import os
import re
import struct
from typing import NamedTuple

from host.errors import HostError

__all__ = [
    "ACS",
    "Config",
    "Device",
    "Link",
    "addresses",
    "bind",
    "config",
    "devices",
    "order",
    "parse_config",
    "parse_link",
    "parse_path",
    "read",
    "unbind",
]

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_VIRTFN = re.compile(r"virtfn([0-9]+)")

_STATUS, _STATUS_CAP_LIST, _CAPABILITIES, _EXTENDED = 0x06, 0x10, 0x34, 0x100
_CAP_EXPRESS, _EXT_CAP_ACS = 0x10, 0x0D
_EXP_FLAGS, _EXP_DEVCTL, _ACS_CAP, _ACS_CTRL = 0x02, 0x08, 0x04, 0x06
_DEVCTL_RELAXED = 0x0010
_PORT_TYPES = {
    0x0: "endpoint",
    0x1: "legacy endpoint",
    0x4: "root port",
    0x5: "upstream port",
    0x6: "downstream port",
    0x7: "PCIe to PCI bridge",
    0x8: "PCI to PCIe bridge",
    0x9: "integrated endpoint",
    0xA: "event collector",
}

ACS = ("SV", "TB", "RR", "CR", "UF", "EC", "DT")
"""Access Control Services by bit. RR, CR or UF enabled on a switch's port sends what a GPU and a NIC tell each other
through the root complex instead of through the switch."""


class Link(NamedTuple):
    """Speed and width of a PCIe link; zeros where the kernel does not know (an empty slot, a virtual machine)."""

    speed: float
    """GT/s per lane."""
    width: int
    """Lanes."""


class Device(NamedTuple):
    """One PCI function."""

    address: str
    """``0000:18:00.0``, lower case."""
    root: str
    """Host bridge: ``pci0000:17``; empty where the path does not tell."""
    chain: tuple[str, ...]
    """Every function from the root port down to this one, itself last."""
    code: int
    """Class, subclass and programming interface: 0x020000 is an Ethernet controller."""
    vendor: int
    device: int
    driver: str
    """Empty: none is bound."""
    numa_node: int
    """-1: the firmware does not tell."""
    link: Link
    max_link: Link
    total_vfs: int
    """How many virtual functions it can have."""
    num_vfs: int
    vfs: tuple[str, ...]
    """Addresses of its virtual functions by index; empty text for a hole."""
    pf: str
    """Address of its physical function; empty where this is no virtual function (or its PF is outside the machine)."""


class Config(NamedTuple):
    """What configuration space tells. Unprivileged readers get its first 64 bytes: then all is unknown."""

    port_type: str
    """``root port``, ``upstream port``, ``downstream port``, ``endpoint``, …; empty for unknown."""
    max_payload: int
    """Bytes per write; 0 for unknown."""
    max_read_request: int
    """Bytes; 0 for unknown."""
    relaxed_ordering: bool | None
    """Whether the function may set the attribute; None for unknown."""
    acs_capable: tuple[str, ...]
    """Access Control Services (of :data:`ACS`) that the port has; empty also where it has no such capability."""
    acs_enabled: tuple[str, ...]


def order(address: str) -> tuple[int, int, int, int]:
    """Sorts addresses as numbers: domain, bus, device, function. ValueError for what is no PCI address."""
    if not _ADDRESS.fullmatch(address.lower()):
        raise ValueError(f"{address!r} is no PCI address such as 0000:18:00.0")
    domain, bus, slot = address.split(":")
    number, _, function = slot.partition(".")
    return int(domain, 16), int(bus, 16), int(number, 16), int(function)


def addresses(root: str = "/") -> tuple[str, ...]:
    """Every function of the machine, in numeric order; empty where there is no PCI bus."""
    try:
        names = os.listdir(_folder(root))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise HostError("list", _folder(root), error.errno or 0) from error
    return tuple(sorted((name for name in names if _ADDRESS.fullmatch(name)), key=order))


def devices(root: str = "/") -> tuple[Device, ...]:
    """Every function of the machine, in numeric order; one that vanishes meanwhile is left out."""
    found = []
    for address in addresses(root):
        try:
            found.append(read(address, root))
        except HostError:
            if os.path.lexists(_folder(root, address)):
                raise
    return tuple(found)


def read(address: str, root: str = "/") -> Device:
    """One function. HostError where there is none of this address, ValueError for what is no address."""
    order(address)
    folder = _folder(root, address.lower())
    try:
        place = os.readlink(folder)
        names = os.listdir(folder)
    except OSError as error:
        raise HostError("read", folder, error.errno or 0) from error
    bridge, chain = parse_path(place)
    return Device(
        address=address.lower(),
        root=bridge,
        chain=chain or (address.lower(),),
        code=_integer(folder, "class"),
        vendor=_integer(folder, "vendor"),
        device=_integer(folder, "device"),
        driver=_target(folder, "driver"),
        numa_node=_integer(folder, "numa_node", unknown=-1),
        link=parse_link(_text(folder, "current_link_speed"), _text(folder, "current_link_width")),
        max_link=parse_link(_text(folder, "max_link_speed"), _text(folder, "max_link_width")),
        total_vfs=_integer(folder, "sriov_totalvfs"),
        num_vfs=_integer(folder, "sriov_numvfs"),
        vfs=_vfs(folder, names),
        pf=_target(folder, "physfn"),
    )


def bind(address: str, driver: str, root: str = "/") -> None:
    """Bind a function to a driver that is loaded and knows it; returns when the driver has probed it.

    ``driver_override`` stays as it is. HostError when the driver refuses (EBUSY: another has the function).
    """
    _write(address, driver, "bind", root)


def unbind(address: str, driver: str, root: str = "/") -> None:
    """Take a function from its driver: its network and RDMA devices go, in whatever namespace they are.

    HostError (ENODEV) where this driver does not have it.
    """
    _write(address, driver, "unbind", root)


def _write(address: str, driver: str, action: str, root: str) -> None:
    order(address)
    if not driver or "/" in driver or driver.startswith("."):
        raise ValueError(f"{driver!r} is no name of a driver")
    path = os.path.join(root, "sys/bus/pci/drivers", driver, action)
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(address.lower().encode())
    except OSError as error:
        raise HostError(f"{action} driver", f"{driver}, PCI function {address}", error.errno or 0) from error


def parse_path(link: str) -> tuple[str, tuple[str, ...]]:
    """A function's place in ``/sys/devices``: its host bridge and the functions from there down to itself.

    Under a bridge that opens a domain of its own (Intel VMD) the outer host bridge is the one that counts.
    """
    parts = link.split("/")
    bridge = next((part for part in parts if _ROOT.fullmatch(part)), "")
    return bridge, tuple(part for part in parts if _ADDRESS.fullmatch(part))


def parse_link(speed: str, width: str) -> Link:
    """``32.0 GT/s PCIe`` (kernels differ in the wording) and ``16``."""
    number = re.match(r"([0-9]+(?:\.[0-9]+)?) GT/s", speed)
    known = width.isascii() and width.isdigit() and 0 < int(width) <= 32
    return Link(float(number[1]) if number else 0.0, int(width) if known else 0)


def config(address: str, root: str = "/") -> Config:
    """What configuration space tells about one function (root: others see its first 64 bytes)."""
    order(address)
    path = os.path.join(_folder(root, address.lower()), "config")
    try:
        with open(path, "rb", buffering=0) as file:
            return parse_config(file.read(4096) or b"")
    except OSError as error:
        raise HostError("read", path, error.errno or 0) from error


def parse_config(data: bytes) -> Config:
    """Configuration space of 64, 256 or 4096 bytes. What is cut off or makes no sense is unknown; nothing raises."""
    express = _capability(data)
    flags = _word(data, express + _EXP_FLAGS) if express else None
    control = _word(data, express + _EXP_DEVCTL) if express else None
    acs = _extended(data, _EXT_CAP_ACS) if express else 0
    return Config(
        port_type=_PORT_TYPES.get((flags >> 4) & 0xF, "") if flags is not None else "",
        max_payload=_size(control, 5),
        max_read_request=_size(control, 12),
        relaxed_ordering=None if control is None else bool(control & _DEVCTL_RELAXED),
        acs_capable=_services(_word(data, acs + _ACS_CAP) if acs else None),
        acs_enabled=_services(_word(data, acs + _ACS_CTRL) if acs else None),
    )


def _capability(data: bytes) -> int:
    """Offset of the PCI Express capability; 0 for none."""
    status = _word(data, _STATUS)
    if status in (None, 0xFFFF) or not status & _STATUS_CAP_LIST or len(data) <= _CAPABILITIES:
        return 0
    seen = set()
    offset = data[_CAPABILITIES] & 0xFC
    while offset >= 0x40 and offset + 1 < len(data) and offset not in seen:
        if data[offset] == _CAP_EXPRESS:
            return offset
        seen.add(offset)
        offset = data[offset + 1] & 0xFC
    return 0


def _extended(data: bytes, wanted: int) -> int:
    """Offset of an extended capability; 0 for none."""
    seen = set()
    offset = _EXTENDED
    while offset >= _EXTENDED and offset + 4 <= len(data) and offset not in seen:
        (header,) = struct.unpack_from("<I", data, offset)
        if header & 0xFFFF == wanted:
            return offset
        seen.add(offset)
        offset = (header >> 20) & 0xFFC
    return 0


def _word(data: bytes, offset: int) -> int | None:
    return int(struct.unpack_from("<H", data, offset)[0]) if offset + 2 <= len(data) else None


def _size(control: int | None, shift: int) -> int:
    """A size field of Device Control: 128 bytes × 2ⁿ, n up to 5."""
    power = 7 if control is None else (control >> shift) & 0x7
    return 128 << power if power <= 5 else 0


def _services(bits: int | None) -> tuple[str, ...]:
    return tuple(name for bit, name in enumerate(ACS) if bits is not None and bits >> bit & 1)


def _folder(root: str, *parts: str) -> str:
    return os.path.join(root, "sys/bus/pci/devices", *parts)


def _text(folder: str, name: str) -> str:
    """A file's text, stripped; empty where it is missing or refuses to be read (a device that is going away)."""
    try:
        with open(os.path.join(folder, name), errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _integer(folder: str, name: str, unknown: int = 0) -> int:
    try:
        return int(_text(folder, name), 0)
    except ValueError:
        return unknown


def _target(folder: str, name: str) -> str:
    """Last part of a symbolic link; empty where there is none."""
    try:
        return os.path.basename(os.readlink(os.path.join(folder, name)))
    except OSError:
        return ""


def _vfs(folder: str, names: list[str]) -> tuple[str, ...]:
    numbers = sorted(int(found[1]) for name in names if (found := _VIRTFN.fullmatch(name)))
    known = set(numbers)
    return tuple(_target(folder, f"virtfn{n}") if n in known else "" for n in range(numbers[-1] + 1 if numbers else 0))
