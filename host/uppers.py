"""Devices whose lower device is in a given other namespace: macvlans and ipvlans of pods, seen from the pod.

Kernel documents: ``include/uapi/linux/net_namespace.h`` (RTM_GETNSID, NETNSA_*), ``include/uapi/linux/if_link.h``
(IFLA_LINK, IFLA_LINK_NETNSID). An index alone says nothing, since every namespace counts its own devices: the id that
the kernel gives with it names the namespace, as this socket's namespace numbers its neighbours.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from host.netlink import Request, Route, attributes, string, u32

__all__ = ["Upper", "nsid", "uppers"]

_RTM_GETLINK, _RTM_GETNSID = 18, 90
_NETNSA_NSID, _NETNSA_FD = 1, 3
_IFLA_IFNAME, _IFLA_LINK, _IFLA_LINKINFO, _IFLA_EXT_MASK, _IFLA_LINK_NETNSID = 3, 5, 18, 29, 37
_IFLA_INFO_KIND = 1
_RTEXT_FILTER_SKIP_STATS = 1 << 3
_IFINFO = struct.Struct("=BxHiII")  # struct ifinfomsg
_NONE = -1


class Upper(NamedTuple):
    """A device on top of one of another namespace."""

    name: str
    kind: str
    """``macvlan``, ``ipvlan``, …"""
    parent: int
    """Index of the lower device, in its own namespace."""


def nsid(route: Route, fd: int) -> int | None:
    """What the socket's namespace calls the namespace behind ``fd``; None where it has never had to name it."""
    body = struct.pack("=Bxxx", 0) + u32(_NETNSA_FD, fd)
    answers = route.get(Request(_RTM_GETNSID, 0, body, "look up", "a network namespace's id"))
    values = [_signed(attributes(answer, 4).get(_NETNSA_NSID)) for answer in answers]
    return next((value for value in values if value not in (None, _NONE)), None)


def _signed(payload: bytes | None) -> int | None:
    return int(struct.unpack("=i", payload)[0]) if payload is not None and len(payload) == 4 else None


def uppers(route: Route, fd: int) -> Iterator[Upper]:
    """Devices of the socket's namespace whose lower device is in the namespace behind ``fd``."""
    home = nsid(route, fd)
    if home is None:
        return
    body = _IFINFO.pack(0, 0, 0, 0, 0) + u32(_IFLA_EXT_MASK, _RTEXT_FILTER_SKIP_STATS)
    for data in route.dump(Request(_RTM_GETLINK, 0, body, "list", "links")):
        attrs = attributes(data, _IFINFO.size)
        parent, there = _signed(attrs.get(_IFLA_LINK)), _signed(attrs.get(_IFLA_LINK_NETNSID))
        if parent and there == home:
            kind = attributes(attrs.get(_IFLA_LINKINFO, b"")).get(_IFLA_INFO_KIND, b"")
            yield Upper(string(attrs.get(_IFLA_IFNAME, b"")), string(kind), parent)
