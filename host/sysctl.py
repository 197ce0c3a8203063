"""Kernel settings as files.

Path: ``/proc/sys`` (``Documentation/admin-guide/sysctl/``). What is below ``net/`` belongs to the network namespace
of the reading thread, so callers enter the pod's namespace first (:func:`host.netns.inside`).
"""

from __future__ import annotations

import os

from host.errors import HostError

__all__ = ["net_is_writable", "read", "write"]

_HOSTS = "/host/proc/sys"
"""Where a container may have the host's: its own is read-only. Below net/ it is the thread's namespace there too."""


def _path(root: str, parts: tuple[str, ...]) -> str:
    return os.path.join(root, "proc/sys", *parts)


def read(*parts: str, root: str = "/") -> str:
    """The value of a setting, stripped. ``parts`` are path components: an interface name may contain dots."""
    path = _path(root, parts)
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError as error:
        raise HostError("read", path, error.errno or 0) from error


def write(value: str, *parts: str, root: str = "/") -> None:
    """Set a setting. Nothing is created: a setting that the kernel does not have is an error."""
    path = _path(root, parts)
    if root == "/" and parts[0] == "net" and _is_read_only("/proc/sys") and os.path.isdir(f"{_HOSTS}/net"):
        path = os.path.join(_HOSTS, *parts)
    try:
        with open(path, "r+") as file:
            file.write(value)
    except OSError as error:
        raise HostError(f"write {value!r} to", path, error.errno or 0) from error


def net_is_writable() -> bool:
    """Whether settings of network namespaces can be written here: not in a container that was not given them."""
    return not _is_read_only("/proc/sys") or (os.path.isdir(f"{_HOSTS}/net") and not _is_read_only(f"{_HOSTS}/net"))


def _is_read_only(mount: str) -> bool:
    return bool(os.statvfs(mount).f_flag & os.ST_RDONLY)
