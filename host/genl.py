"""Generic netlink: families that the kernel numbers as they are loaded (``ethtool``).

Kernel documents: ``Documentation/networking/generic_netlink.rst``, ``include/uapi/linux/genetlink.h``.
"""

from __future__ import annotations

import errno
import struct

from host.errors import HostError
from host.netlink import Connection, Request, attributes, text

__all__ = ["Generic"]

_ID_CTRL, _GETFAMILY = 0x10, 3
_FAMILY_ID, _FAMILY_NAME = 1, 2
_HEADER = struct.Struct("=BBH")  # struct genlmsghdr: command, version, reserved
_VERSION = 1


class Generic(Connection):
    """A generic netlink socket of one family. HostError where the kernel has no such family."""

    family = (16, "NETLINK_GENERIC")

    def __init__(self, family: str) -> None:
        super().__init__()
        try:
            self._kind = self._find(family)
        except HostError:
            self.close()
            raise

    def _find(self, family: str) -> int:
        body = _HEADER.pack(_GETFAMILY, _VERSION, 0) + text(_FAMILY_NAME, family)
        request = Request(_ID_CTRL, 0, body, "find generic netlink family", family)
        told = (attributes(answer, _HEADER.size).get(_FAMILY_ID, b"") for answer in self.get(request))
        found = next((number for number in told if len(number) == 2), None)
        if found is None:
            raise HostError(request.operation, family, errno.ENOENT)
        (kind,) = struct.unpack("=H", found)
        return int(kind)

    def request(self, command: int, attrs: bytes, operation: str, target: str) -> list[dict[int, bytes]]:
        """Send one request of the family; the attributes of each message of the answer."""
        body = _HEADER.pack(command, _VERSION, 0) + attrs
        answers = self.get(Request(self._kind, 0, body, operation, target))
        return [attributes(answer, _HEADER.size) for answer in answers]
