"""Network namespaces: opening one by path, its identity, being inside it for a moment.

Kernel documents: ``namespaces(7)``, ``setns(2)``, ``ioctl_ns(2)`` (path: any nsfs file, such as ``/run/netns/NAME``).
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from host.errors import HostError

__all__ = ["Identity", "Netns", "found", "identity", "inside", "own"]

_CLONE_NEWNET = 0x40000000
_VAR = "/var"
_NS_GET_NSTYPE = 0xB703  # _IO(NSIO, 3), linux/nsfs.h


class Identity(NamedTuple):
    """What makes a namespace itself, whatever path leads to it: device and inode of its nsfs file."""

    device: int
    inode: int


class Netns(NamedTuple):
    """An open network namespace. The descriptor keeps it alive: close it."""

    path: str
    fd: int
    identity: Identity

    @classmethod
    def open(cls, path: str) -> Netns:
        """Open ``path``. HostError if it is missing or is no network namespace."""
        try:
            fd = os.open(found(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO must not make us wait
        except OSError as error:
            raise HostError("open network namespace", path, error.errno or 0) from error
        try:
            if fcntl.ioctl(fd, _NS_GET_NSTYPE) != _CLONE_NEWNET:
                raise HostError("open network namespace", path, 0, "this is a namespace of another kind")
        except OSError as error:
            os.close(fd)
            raise HostError("open network namespace", path, 0, "this file is not a namespace") from error
        except HostError:
            os.close(fd)
            raise
        status = os.fstat(fd)
        return cls(path, fd, Identity(status.st_dev, status.st_ino))

    def close(self) -> None:
        """Let go of the namespace."""
        os.close(self.fd)


def own() -> Netns:
    """The namespace that the calling thread is in."""
    return Netns.open("/proc/thread-self/ns/net")


def found(path: str) -> str:
    """``path``, or what it is where /var/run is no link to /run: a container's image need not have that link.

    containerd names namespaces as /var/run/netns/NAME. Filesystem Hierarchy Standard 3.0, 5.13: they are the same.
    """
    return path[len(_VAR) :] if path.startswith(f"{_VAR}/run/") and not os.path.exists(path) else path


def identity(path: str) -> Identity | None:
    """Identity of what ``path`` names now; None when nothing is there."""
    try:
        status = os.stat(found(path))
    except (OSError, ValueError):
        return None
    return Identity(status.st_dev, status.st_ino)


if sys.version_info >= (3, 12):

    def _setns(fd: int) -> None:
        os.setns(fd, os.CLONE_NEWNET)

else:

    def _setns(fd: int) -> None:
        # The C half of ctypes: importing the whole costs each start 2.5 ms, this 0.5 ms.
        import _ctypes

        function = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), "setns")  # type: ignore[arg-type]  # None: this process
        if _ctypes.call_function(function, (fd, _CLONE_NEWNET)) != 0:
            raise _refusal(fd)

    def _refusal(fd: int) -> OSError:
        """Asked again through ctypes, which keeps errno."""
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.setns(fd, _CLONE_NEWNET)
        code = ctypes.get_errno()
        return OSError(code, os.strerror(code))


@contextmanager
def inside(netns: Netns) -> Iterator[None]:
    """Run the block with the calling *thread* in ``netns``; it always comes back.

    Sockets opened in the block stay in ``netns`` afterwards, and so does /proc/sys/net while the block runs.
    """
    home = own()
    try:
        _enter(netns)
        try:
            yield
        finally:
            _enter(home)
    finally:
        home.close()


def _enter(netns: Netns) -> None:
    try:
        _setns(netns.fd)
    except OSError as error:
        raise HostError("enter network namespace", netns.path, error.errno or 0) from error
