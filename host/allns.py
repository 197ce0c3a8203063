"""Notifications of the kernel from many network namespaces on one socket: triggers to read again, never truths.

Kernel documents: ``rtnetlink(7)``; NETLINK_LISTEN_ALL_NSID (net/netlink/af_netlink.c, CAP_NET_BROADCAST): a socket
hears of every namespace that has a number (nsid) in its own. Giving one (RTM_NEWNSID, net/core/net_namespace.c) does
not keep a namespace alive, as a socket in it would: its NICs come home when it dies.
"""

from __future__ import annotations

import errno
import select
import struct
from _socket import SOL_SOCKET

from host.errors import HostError
from host.netlink import Request, Route, attributes, blob, u32

__all__ = ["LOST", "AllNamespaces", "number_of"]

LOST = -2
"""Instead of a number: the kernel dropped notifications; read everything again."""

_SOL_NETLINK, _ADD_MEMBERSHIP, _LISTEN_ALL_NSID = 270, 1, 8
_SO_RCVBUFFORCE = 33
_GROUPS = (1, 5, 7, 8, 9, 11, 19)  # RTNLGRP_LINK, IPV4_IFADDR, IPV4_ROUTE, IPV4_RULE, IPV6_IFADDR, _ROUTE, _RULE
_RTM_NEWNSID, _RTM_GETNSID = 88, 90
_NETNSA_NSID, _NETNSA_FD = 1, 3
_ANY = -1
_BUFFER = 1 << 20
_RECEIVE = 1 << 16
_INT = struct.Struct("=i")
_RTGEN = b"\0\0\0\0"  # struct rtgenmsg, padded


class AllNamespaces(Route):
    """A socket of its maker's namespace that hears of those it follows. Not for requests while it listens.

    PermissionError without CAP_NET_BROADCAST.
    """

    every = 60.0
    """Seconds after which a namespace is worth a look though nothing was heard: sysctls have no notification."""
    account = ""

    def __init__(self) -> None:
        super().__init__()
        self._socket.setsockopt(SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        self._socket.setsockopt(_SOL_NETLINK, _LISTEN_ALL_NSID, 1)
        for group in _GROUPS:
            self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)

    def wait(self, seconds: float) -> set[int]:
        """Numbers of the namespaces of which something came within so many seconds; LOST among them for an overflow.

        Of the socket's own namespace nothing is told.
        """
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        found: set[int] = set()
        while poll.poll(0 if found else max(0, int(1000 * seconds))):
            try:
                _, ancillary, _, _ = self._socket.recvmsg(_RECEIVE, 64)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise HostError("listen to", "namespaces", error.errno or 0) from error
                found.add(LOST)
                continue
            numbers = [
                _INT.unpack_from(data)[0]
                for level, kind, data in ancillary
                if (level, kind) == (_SOL_NETLINK, _LISTEN_ALL_NSID)
            ]
            found.update(numbers or [LOST - 1])
        return found - {LOST - 1}


def number_of(connection: Route, fd: int) -> int:
    """The number that a namespace (an open nsfs file) has in the socket's own; it gets one if it has none."""
    body = _RTGEN + u32(_NETNSA_FD, fd)
    give = Request(_RTM_NEWNSID, 0, body + blob(_NETNSA_NSID, _INT.pack(_ANY)), "number", "a namespace")
    error = connection.each([give])[0]
    if error is not None and error.errno != errno.EEXIST:
        raise error
    (answer,) = connection.get(Request(_RTM_GETNSID, 0, body, "ask for the number of", "a namespace"))
    return int(_INT.unpack(attributes(answer, len(_RTGEN))[_NETNSA_NSID])[0])
