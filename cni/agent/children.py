"""Waiting for child processes without waiting for ever."""

from __future__ import annotations

import os
import time

__all__ = ["reap"]

_POLL = 0.005


def reap(pid: int, wait: float) -> bool:
    """Whether the child has ended within ``wait`` seconds. One that is stuck in the kernel is left to init."""
    deadline = time.monotonic() + wait
    while True:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL)
