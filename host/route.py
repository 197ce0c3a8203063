"""Routes over rtnetlink: RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE.

Kernel documents: ``rtnetlink(7)``, ``include/uapi/linux/rtnetlink.h``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from host.inet import family_of, pack, split, unpack
from host.netlink import NLM_F_CREATE, NLM_F_EXCL, Request, Route, attributes, blob, u32

__all__ = ["MAIN", "OURS", "KernelRoute", "add", "routes"]

_RTM_NEWROUTE, _RTM_GETROUTE = 24, 26
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_PREFSRC, _RTA_MULTIPATH, _RTA_TABLE = 1, 4, 5, 6, 7, 9, 15
_RTN_UNICAST = 1
_SCOPE_UNIVERSE, _SCOPE_LINK = 0, 253
_AF_INET6 = 10

MAIN = 254
OURS = 82
"""Protocol number ("R") that marks roceway's routes and rules; unused in iproute2's rt_protos."""

# struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags
_RTMSG = struct.Struct("=BBBBBBBBI")
# struct rtnexthop: length with its attributes, flags, hops, interface index
_NEXTHOP = struct.Struct("=HBBi")


class KernelRoute(NamedTuple):
    """One route."""

    family: int
    table: int
    destination: str
    """``10.200.0.0/24``; ``default`` for the zero prefix."""
    gateway: str
    device: int
    """Interface index; 0 for none (multipath, blackhole)."""
    legs: tuple[int, ...]
    """Interface indexes of a multipath route."""
    source: str
    """Preferred source address, empty for none."""
    protocol: int
    type: int


def routes(route: Route, family: int) -> tuple[KernelRoute, ...]:
    """Every route of one family in the socket's namespace, all tables."""
    body = _RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)
    return tuple(_parse(data) for data in route.dump(Request(_RTM_GETROUTE, 0, body, "list", "routes")))


def _parse(data: bytes) -> KernelRoute:
    family, length, _, _, table, protocol, _, kind, _ = _RTMSG.unpack_from(data)
    attrs = attributes(data, _RTMSG.size)
    zero = bytes(16 if family == _AF_INET6 else 4)
    if _RTA_TABLE in attrs:
        (table,) = struct.unpack("=I", attrs[_RTA_TABLE])
    (device,) = struct.unpack("=I", attrs[_RTA_OIF]) if _RTA_OIF in attrs else (0,)
    return KernelRoute(
        family=family,
        table=table,
        destination=f"{unpack(attrs.get(_RTA_DST, zero))}/{length}" if length else "default",
        gateway=unpack(attrs[_RTA_GATEWAY]) if _RTA_GATEWAY in attrs else "",
        device=device,
        legs=tuple(_legs(attrs.get(_RTA_MULTIPATH, b""))),
        source=unpack(attrs[_RTA_PREFSRC]) if _RTA_PREFSRC in attrs else "",
        protocol=protocol,
        type=kind,
    )


def _legs(hops: bytes) -> Iterator[int]:
    offset = 0
    while offset + _NEXTHOP.size <= len(hops):
        length, _, _, index = _NEXTHOP.unpack_from(hops, offset)
        if length < _NEXTHOP.size:
            return
        yield index
        offset += (length + 3) & ~3


def add(device: int, destination: str, *, table: int, gateway: str = "", source: str = "", target: str = "") -> Request:
    """Add a unicast route. ``destination`` is a prefix or ``default`` (then ``gateway`` tells the family).

    Refused where the table has one for the same destination: it is somebody else's.
    """
    family = family_of(gateway or destination)
    address, length = ("", 0) if destination == "default" else split(destination)
    body = b"".join(
        [
            _RTMSG.pack(family, length, 0, 0, 0, OURS, _SCOPE_UNIVERSE if gateway else _SCOPE_LINK, _RTN_UNICAST, 0),
            blob(_RTA_DST, pack(address)) if address else b"",
            u32(_RTA_OIF, device),
            u32(_RTA_TABLE, table),
            blob(_RTA_GATEWAY, pack(gateway)) if gateway else b"",
            blob(_RTA_PREFSRC, pack(source)) if source else b"",
        ]
    )
    what = f"add route {destination} in table {table} on"
    return Request(_RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body, what, target or str(device))
