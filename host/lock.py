"""Locks between processes that leave nothing behind: open-file-description byte-range locks on one file.

``fcntl(2)``, "Open file description locks": held by the descriptor, so threads of one process exclude each other too,
and released by the kernel when their holder dies. A name is hashed to one of 2³² bytes of the file's range, so no file
per name accumulates; two names that share a byte only wait for each other.
"""

from __future__ import annotations

import binascii
import fcntl
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from host.errors import Busy, HostError

__all__ = ["hold"]

_FLOCK = struct.Struct("hhqqi4x")  # l_type, l_whence, l_start, l_len, l_pid
_POLL = 0.02


def _offset(name: str) -> int:
    return binascii.crc32(name.encode())  # importing hashlib would cost every call 2 ms


@contextmanager
def hold(path: str, names: Sequence[str], timeout: float) -> Iterator[None]:
    """Hold every lock of ``names`` for the block.

    Taken in one order whatever the caller's, so two holders cannot wait for each other. Busy after ``timeout``
    seconds, naming the lock that was not to be had.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HostError("open", path, error.errno or 0) from error
    try:
        deadline = time.monotonic() + timeout
        for offset, name in sorted((_offset(name), name) for name in set(names)):
            _take(fd, offset, name, deadline)
        yield
    finally:
        os.close(fd)  # releases all


def _take(fd: int, offset: int, name: str, deadline: float) -> None:
    request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
    while True:
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, request)
        except (BlockingIOError, PermissionError) as error:
            if time.monotonic() >= deadline:
                raise Busy(f"{name} is being worked on by another roceway-cni; try again later") from error
            time.sleep(_POLL)
        else:
            return
