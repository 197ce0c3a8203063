"""Notifications of the kernel about links, addresses and DCB: triggers to read again, never truths.

Kernel documents: ``rtnetlink(7)``; RTNLGRP_DCB (23) of ``include/uapi/linux/rtnetlink.h``. dcbnl notifies for every SET
and DEL, *also for those that failed*.
"""

from __future__ import annotations

import errno
import select
import struct
from _socket import AF_NETLINK, SOCK_CLOEXEC, SOCK_RAW, SOL_SOCKET, socket
from typing import NamedTuple

from host.errors import HostError
from host.netlink import attributes, string

__all__ = ["Event", "Events", "parse"]

_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
_SO_RCVBUFFORCE, _SO_RCVBUF = 33, 8
_GROUPS = (1, 5, 9, 23)  # RTNLGRP_LINK, IPV4_IFADDR, IPV6_IFADDR, DCB
_HEADER = struct.Struct("=IHHII")
_NEWLINK, _DELLINK, _NEWADDR, _DELADDR, _GETDCB, _SETDCB = 16, 17, 20, 21, 78, 79
_IFLA_IFNAME, _DCB_IFNAME = 3, 1
_RECEIVE = 1 << 17
_BUFFER = 1 << 20


class Event(NamedTuple):
    """One notification."""

    kind: str
    """``link``, ``link-gone``, ``address`` or ``dcb``; ``lost``: the kernel dropped some, read everything again."""
    device: str = ""
    """Interface name; empty where only the index is told."""
    ifindex: int = 0


def parse(data: bytes) -> tuple[Event, ...]:
    """The notifications in one datagram; other messages are left out."""
    found = []
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, offset)
        if length < _HEADER.size or offset + length > len(data):
            break
        event = _event(kind, data[offset + _HEADER.size : offset + length])
        found += [event] if event else []
        offset += (length + 3) & ~3
    return tuple(found)


def _event(kind: int, body: bytes) -> Event | None:
    if kind in (_NEWLINK, _DELLINK) and len(body) >= 16:
        name = string(attributes(body, 16).get(_IFLA_IFNAME, b""))
        return Event("link" if kind == _NEWLINK else "link-gone", name, struct.unpack_from("=i", body, 4)[0])
    if kind in (_NEWADDR, _DELADDR) and len(body) >= 8:
        return Event("address", "", struct.unpack_from("=I", body, 4)[0])
    if kind in (_GETDCB, _SETDCB) and len(body) >= 4:
        return Event("dcb", string(attributes(body, 4).get(_DCB_IFNAME, b"")))
    return None


class Events:
    """A socket that hears them, of the network namespace that its maker was in."""

    def __init__(self) -> None:
        self._socket = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))
        for group in _GROUPS:
            self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
        self._grow()

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor, for select."""
        return self._socket.fileno()

    def _grow(self) -> None:
        """A storm of link events must not be lost while a read-back runs."""
        try:
            self._socket.setsockopt(SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        except OSError:
            self._socket.setsockopt(SOL_SOCKET, _SO_RCVBUF, _BUFFER)

    def wait(self, seconds: float) -> tuple[Event, ...]:
        """What has come, or comes within ``seconds``; empty for nothing."""
        ready, _, _ = select.select([self], [], [], max(0.0, seconds))
        if not ready:
            return ()
        try:
            return parse(self._socket.recv(_RECEIVE))
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return (Event("lost"),)
            raise HostError("receive", "notifications", error.errno or 0) from error
