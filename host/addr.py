"""Addresses of devices over rtnetlink: RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR.

Kernel documents: ``rtnetlink(7)``, ``include/uapi/linux/if_addr.h``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from host.inet import family_of, pack, split, unpack
from host.netlink import NLM_F_CREATE, NLM_F_REPLACE, Request, Route, attributes, blob, u32

__all__ = ["Address", "add", "addresses", "delete"]

_RTM_NEWADDR, _RTM_DELADDR, _RTM_GETADDR = 20, 21, 22
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS = 1, 2, 8
_IFA_F_NODAD, _IFA_F_PERMANENT = 0x02, 0x80
_IFA_F_DADFAILED, _IFA_F_TENTATIVE = 0x08, 0x40

# struct ifaddrmsg: family, prefix length, flags, scope, index
_IFADDR = struct.Struct("=BBBBI")


class Address(NamedTuple):
    """One address on one device."""

    ifindex: int
    prefix: str
    """``10.200.0.2/24``."""
    scope: int
    """rt_scope: 0 global, 253 link, 254 host."""
    usable: bool
    """False while duplicate-address detection runs or after it failed."""
    permanent: bool


def addresses(route: Route) -> tuple[Address, ...]:
    """Every address of the socket's namespace, both families."""
    body = _IFADDR.pack(0, 0, 0, 0, 0)
    return tuple(_parse(data) for data in route.dump(Request(_RTM_GETADDR, 0, body, "list", "addresses")))


def _parse(data: bytes) -> Address:
    _, length, flags, scope, index = _IFADDR.unpack_from(data)
    attrs = attributes(data, _IFADDR.size)
    if _IFA_FLAGS in attrs:
        (flags,) = struct.unpack("=I", attrs[_IFA_FLAGS])
    local = attrs.get(_IFA_LOCAL) or attrs[_IFA_ADDRESS]
    return Address(
        ifindex=index,
        prefix=f"{unpack(local)}/{length}",
        scope=scope,
        usable=not flags & (_IFA_F_TENTATIVE | _IFA_F_DADFAILED),
        permanent=bool(flags & _IFA_F_PERMANENT),
    )


def add(index: int, prefix: str, *, target: str = "") -> Request:
    """Add an address, at once usable: IFA_F_NODAD spares IPv6 the 1–2 s of duplicate-address detection."""
    address, length = split(prefix)
    raw = pack(address)
    body = (
        _IFADDR.pack(family_of(address), length, _IFA_F_NODAD, 0, index)
        + blob(_IFA_LOCAL, raw)
        + blob(_IFA_ADDRESS, raw)
        + u32(_IFA_FLAGS, _IFA_F_NODAD | _IFA_F_PERMANENT)
    )
    return Request(_RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, body, f"add address {prefix} to", target or str(index))


def delete(index: int, prefix: str, *, target: str = "") -> Request:
    """Remove an address."""
    address, length = split(prefix)
    body = _IFADDR.pack(family_of(address), length, 0, 0, index) + blob(_IFA_LOCAL, pack(address))
    return Request(_RTM_DELADDR, 0, body, f"remove address {prefix} from", target or str(index))
