"""RDMA devices over netlink: RDMA_NLDEV_CMD_GET, SET, PORT_GET, SYS_GET, SYS_SET, GET_CHARDEV, STAT_GET.

Kernel documents: ``include/uapi/rdma/rdma_netlink.h``, ``drivers/infiniband/core/nldev.c``; ``rdma(8)`` shows the same.

A socket sees the devices of its own network namespace. In *exclusive* mode each RDMA device is in one namespace and
can be moved; in *shared* mode every namespace sees all devices and the kernel refuses to move any (EOPNOTSUPP).
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from host.errors import HostError
from host.netlink import Connection, Request, attributes, flag8, repeated, string, text, u32

__all__ = [
    "CharDev",
    "Device",
    "Port",
    "Rdma",
    "chardev",
    "chardevs",
    "counters",
    "devices",
    "exclusive",
    "move",
    "parse_chardev",
    "parse_counters",
    "parse_device",
    "parse_exclusive",
    "parse_port",
    "ports",
    "rename",
    "set_exclusive",
]

_NETLINK_RDMA = 20
_NLDEV = 5 << 10  # RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)
_GET, _SET, _PORT_GET, _SYS_GET, _SYS_SET, _GET_CHARDEV, _STAT_GET = 1, 2, 5, 6, 7, 15, 17

# enum rdma_nldev_attr
_DEV_INDEX, _DEV_NAME, _PORT_INDEX, _FW_VERSION, _NODE_GUID, _SYS_IMAGE_GUID = 1, 2, 3, 5, 6, 7
_LID, _PORT_STATE, _PORT_PHYS_STATE = 9, 12, 13
_NDEV_INDEX, _NDEV_NAME = 50, 51
_NETNS_MODE, _DEV_PROTOCOL, _NET_NS_FD = 66, 67, 68
_CHARDEV_TYPE, _CHARDEV_NAME, _CHARDEV_ABI, _CHARDEV = 69, 70, 71, 72
_HWCOUNTERS, _HWCOUNTER, _HWCOUNTER_NAME, _HWCOUNTER_VALUE = 80, 81, 82, 83

_SHARED = 1  # RDMA_NLDEV_SYS_ATTR_NETNS_MODE: 0 exclusive, 1 shared

# enum ib_port_state and ib_port_phys_state, worded as in /sys/class/infiniband
_STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
_PHYS_STATES = (
    "",
    "Sleep",
    "Polling",
    "Disabled",
    "PortConfigurationTraining",
    "LinkUp",
    "LinkErrorRecovery",
    "Phy Test",
)

_PER_DEVICE, _PER_PORT, _GLOBAL = ("uverbs",), ("umad", "issm"), ("rdma_cm",)
# What ib_get_client_nl_info answers where a client is not loaded or does not serve this device or port.
_NO_CHARDEV = frozenset({2, 19, 22, 95})  # ENOENT, ENODEV, EINVAL, EOPNOTSUPP


class Device(NamedTuple):
    """One RDMA device, as its socket's namespace sees it."""

    dev_index: int
    """Identifies the device while it is registered; neither moving nor renaming changes it."""
    name: str
    ports: int
    """How many; they are numbered from 1."""
    node_guid: str
    """As in sysfs: ``b8ce:f603:00d2:3b1a``."""
    sys_image_guid: str
    """Equal for all devices of one card."""
    firmware: str
    """Empty for a device without (rxe)."""
    protocol: str
    """``roce``, ``ib``, ``iw``, ``opa`` or ``usnic``, judged by the first port; empty before kernel 5.1."""


class Port(NamedTuple):
    """One port of an RDMA device."""

    device: int
    """Index of the RDMA device."""
    name: str
    """Name of the RDMA device."""
    number: int
    state: str
    """``ACTIVE``, ``DOWN``, …"""
    phys_state: str
    """``LinkUp``, ``Polling``, ``Disabled``, …"""
    lid: int
    """InfiniBand's local identifier; 0 on RoCE."""
    netdev_index: int
    """Interface index; 0 where there is none, or where it is in another namespace than the socket."""
    netdev: str


class CharDev(NamedTuple):
    """A character device of the RDMA subsystem; its file is ``/dev/infiniband/<name>``."""

    kind: str
    """``uverbs``, ``umad``, ``issm`` or ``rdma_cm``."""
    name: str
    major: int
    minor: int
    abi: int


class Rdma(Connection):
    """A NETLINK_RDMA socket. HostError with errno EPROTONOSUPPORT where the kernel has no RDMA."""

    family = (_NETLINK_RDMA, "NETLINK_RDMA")


def _one(connection: Rdma, request: Request) -> bytes:
    answers = connection.get(request)
    if not answers:
        raise HostError(request.operation, request.target, 0, "the kernel acknowledged and told nothing")
    return answers[0]


def exclusive(connection: Rdma) -> bool:
    """Whether RDMA devices belong to one network namespace each. Detected, never assumed: the default is shared."""
    request = Request(_NLDEV | _SYS_GET, 0, b"", "read", "the RDMA subsystem's namespace mode")
    return parse_exclusive(_one(connection, request))


def parse_exclusive(data: bytes) -> bool:
    """The answer to RDMA_NLDEV_CMD_SYS_GET. HostError where it does not tell (kernels before 5.1 share)."""
    mode = attributes(data).get(_NETNS_MODE, b"")
    if len(mode) != 1:
        raise HostError("read", "the RDMA subsystem's namespace mode", 0, "the kernel's answer does not tell it")
    return mode[0] != _SHARED


def set_exclusive(wanted: bool) -> Request:
    """Switch the whole machine's mode. EBUSY while any further network namespace exists.

    On a node it belongs in ``/etc/modprobe.d``: ``options ib_core netns_mode=0``.
    """
    mode = flag8(_NETNS_MODE, 0 if wanted else _SHARED)
    return Request(_NLDEV | _SYS_SET, 0, mode, "set", f"the RDMA mode {'exclusive' if wanted else 'shared'}")


def devices(connection: Rdma) -> tuple[Device, ...]:
    """Every RDMA device that the socket's namespace sees, by index."""
    found = connection.dump(Request(_NLDEV | _GET, 0, b"", "list", "RDMA devices"))
    return tuple(sorted(parse_device(data) for data in found))


def parse_device(data: bytes) -> Device:
    """One answer to RDMA_NLDEV_CMD_GET. ValueError where it names no device."""
    attrs = attributes(data)
    index, name = _identity(attrs)
    return Device(
        dev_index=index,
        name=name,
        ports=_number(attrs.get(_PORT_INDEX)),
        node_guid=_guid(attrs.get(_NODE_GUID)),
        sys_image_guid=_guid(attrs.get(_SYS_IMAGE_GUID)),
        firmware=string(attrs.get(_FW_VERSION, b"")),
        protocol=string(attrs.get(_DEV_PROTOCOL, b"")),
    )


def ports(connection: Rdma, device: Device) -> tuple[Port, ...]:
    """The ports of one device, by number."""
    request = Request(_NLDEV | _PORT_GET, 0, u32(_DEV_INDEX, device.dev_index), "list the ports of", device.name)
    return tuple(parse_port(data) for data in connection.dump(request))


def parse_port(data: bytes) -> Port:
    """One answer to RDMA_NLDEV_CMD_PORT_GET. ValueError where it names no device."""
    attrs = attributes(data)
    index, name = _identity(attrs)
    return Port(
        device=index,
        name=name,
        number=_number(attrs.get(_PORT_INDEX)),
        state=_word(_STATES, attrs.get(_PORT_STATE)),
        phys_state=_word(_PHYS_STATES, attrs.get(_PORT_PHYS_STATE)),
        lid=_number(attrs.get(_LID)),
        netdev_index=_number(attrs.get(_NDEV_INDEX)),
        netdev=string(attrs.get(_NDEV_NAME, b"")),
    )


def move(index: int, netns_fd: int, *, target: str = "") -> Request:
    """Move an RDMA device into the namespace behind a descriptor. One request: a new name is another (:func:`rename`).

    EOPNOTSUPP in shared mode, and where the driver cannot take its users away (disassociate_ucontext; rxe cannot).
    To bring a device back, use a socket opened in the pod's namespace *and* send while the thread is in it
    (:func:`host.netns.inside`): the kernel finds the device by the socket's namespace, then demands that it is in the
    caller's (rdma_dev_change_netns, else ENODEV).
    """
    body = u32(_DEV_INDEX, index) + u32(_NET_NS_FD, netns_fd)
    return Request(_NLDEV | _SET, 0, body, "move RDMA device", target or str(index))


def rename(index: int, name: str) -> Request:
    """Give an RDMA device another name (under 64 bytes, unique on the machine: EEXIST)."""
    body = u32(_DEV_INDEX, index) + text(_DEV_NAME, name)
    return Request(_NLDEV | _SET, 0, body, "rename RDMA device to", name)


def chardev(connection: Rdma, kind: str, device: Device | None = None, port: int = 0) -> CharDev:
    """One character device: ``rdma_cm`` without a device, ``uverbs`` of a device, ``umad`` and ``issm`` of a port."""
    body = text(_CHARDEV_TYPE, kind)
    if device is not None:
        body += u32(_DEV_INDEX, device.dev_index)
    if port:
        body += u32(_PORT_INDEX, port)
    target = device.name if device else "this machine"
    return parse_chardev(kind, _one(connection, Request(_NLDEV | _GET_CHARDEV, 0, body, f"look up {kind} of", target)))


def parse_chardev(kind: str, data: bytes) -> CharDev:
    """One answer to RDMA_NLDEV_CMD_GET_CHARDEV. ValueError where it names no file."""
    attrs = attributes(data)
    name, number = string(attrs.get(_CHARDEV_NAME, b"")), attrs.get(_CHARDEV, b"")
    if not name or "/" in name or len(number) != 8:
        raise ValueError(f"no {kind} device in the kernel's answer {data.hex()}")
    device = _number(number)
    return CharDev(kind, name, os.major(device), os.minor(device), _number(attrs.get(_CHARDEV_ABI)))


def chardevs(connection: Rdma, device: Device) -> tuple[CharDev, ...]:
    """Every character device that a pod needs for ``device``, rdma_cm included; those that are not there are left out.

    ib_umad and rdma_ucm are modules of their own and may be missing; only ``uverbs`` is essential.
    """
    wanted: list[tuple[str, Device | None, int]] = [(kind, device, 0) for kind in _PER_DEVICE]
    wanted += [(kind, device, port) for port in range(1, device.ports + 1) for kind in _PER_PORT]
    wanted += [(kind, None, 0) for kind in _GLOBAL]
    found = []
    for kind, owner, port in wanted:
        try:
            found.append(chardev(connection, kind, owner, port))
        except HostError as error:
            if error.errno not in _NO_CHARDEV:
                raise
    return tuple(found)


def counters(connection: Rdma, device: Device, port: int = 1) -> dict[str, int]:
    """The driver's counters of one port since it was loaded. HostError (EINVAL) where the driver has none."""
    body = u32(_DEV_INDEX, device.dev_index) + u32(_PORT_INDEX, port)
    request = Request(_NLDEV | _STAT_GET, 0, body, "read the counters of", f"{device.name} port {port}")
    return parse_counters(_one(connection, request))


def parse_counters(data: bytes) -> dict[str, int]:
    """The answer to RDMA_NLDEV_CMD_STAT_GET; counters without a name or a value are left out."""
    found = {}
    for kind, payload in repeated(attributes(data).get(_HWCOUNTERS, b"")):
        attrs = attributes(payload)
        name, value = string(attrs.get(_HWCOUNTER_NAME, b"")), attrs.get(_HWCOUNTER_VALUE, b"")
        if kind == _HWCOUNTER and name and len(value) == 8:
            found[name] = _number(value)
    return found


def _identity(attrs: dict[int, bytes]) -> tuple[int, str]:
    index, name = attrs.get(_DEV_INDEX, b""), string(attrs.get(_DEV_NAME, b""))
    if len(index) != 4 or not name:
        raise ValueError("the kernel's answer names no RDMA device")
    return _number(index), name


def _number(payload: bytes | None) -> int:
    """An unsigned integer of 1, 2, 4 or 8 bytes in host order; 0 for anything else."""
    form = {1: "=B", 2: "=H", 4: "=I", 8: "=Q"}.get(len(payload or b""))
    return int(struct.unpack(form, payload or b"")[0]) if form else 0


def _word(words: tuple[str, ...], payload: bytes | None) -> str:
    number = _number(payload)
    return words[number] if number < len(words) else str(number)


def _guid(payload: bytes | None) -> str:
    """A GUID in host order as sysfs writes it; empty where there is none."""
    if payload is None or len(payload) != 8:
        return ""
    digits = f"{_number(payload):016x}"
    return ":".join(digits[start : start + 4] for start in range(0, 16, 4))
