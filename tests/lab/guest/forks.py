"""Programs as forked children: the guest needs seconds to start an interpreter and import what we already have."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path

_NEWNET, _NEWNS = 0x40000000, 0x00020000
_SLAVES = 1 << 14 | 1 << 19  # MS_REC | MS_SLAVE
_DETACH = 2


class Forked(ForkProcess):
    """``work`` as a process that has begun: its exit code is what ``work`` returns. Output is appended to files.

    With ``ns`` it is in that network namespace, as ``ip netns exec`` would start it.
    """

    def __init__(self, work: Callable[[], int], out: Path, err: Path, ns: str = "") -> None:
        super().__init__()
        self._work, self._files, self._ns = work, {"stdout": out, "stderr": err}, ns
        self.start()

    def run(self) -> None:
        """In the child."""
        for number, (name, path) in enumerate(self._files.items(), start=1):
            file = path.open("a", buffering=1 if name == "stderr" else -1)
            os.dup2(file.fileno(), number)
            setattr(sys, name, file)
        if self._ns:
            _enter(self._ns)
        sys.exit(self._work())

    def end(self, seconds: float) -> int | None:
        """Wait for it; its exit code. None when it had to be killed."""
        self.join(seconds)
        if self.exitcode is None:
            self.kill()
            self.join()
            return None
        return self.exitcode


def _enter(ns: str) -> None:
    """The namespace, for good, with its own view of /sys."""
    libc = ctypes.CDLL(None, use_errno=True)

    def done(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    with open(f"/run/netns/{ns}") as file:
        done(libc.setns(file.fileno(), _NEWNET))
    done(libc.unshare(_NEWNS))
    done(libc.mount(b"none", b"/", None, ctypes.c_ulong(_SLAVES), None))
    done(libc.umount2(b"/sys", _DETACH))
    done(libc.mount(b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(0), None))
