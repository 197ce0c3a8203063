"""What the kernel says no to, and what is merely busy."""

from __future__ import annotations

import errno as _errno
import os

__all__ = ["Busy", "HostError"]


class HostError(Exception):
    """The kernel, a driver or a file of the host refused.

    ``operation`` and ``target`` name what was tried on what, ``errno`` is positive (0: none given), ``detail`` is
    the kernel's own sentence (extended ACK) or the read-back that contradicts the request.
    """

    def __init__(self, operation: str, target: str, errno: int = 0, detail: str = "") -> None:
        self.operation = operation
        self.target = target
        self.errno = errno
        self.detail = detail
        super().__init__(operation, target, errno, detail)

    def __str__(self) -> str:
        reason = f": {os.strerror(self.errno)} ({_errno.errorcode.get(self.errno, self.errno)})" if self.errno else ""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.operation} {self.target}{reason}{detail}"


class Busy(Exception):  # noqa: N818 - the design's name; it says a state, not a fault
    """Somebody else holds what is needed: trying again later can succeed."""
