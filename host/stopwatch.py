"""Where the milliseconds of a call go: time spent at each door, summed.

Off unless somebody wants to know (``restart``), since a plugin that nobody watches need not look at the clock.
One process, one call at a time: a worker of the agent, or the plugin.
"""

from __future__ import annotations

import time
from _thread import get_ident

__all__ = ["at", "restart", "spent"]

_sums: dict[str, float] | None = None
_owner = 0
"""The thread whose time it is; what others do meanwhile is not the call's."""


def restart() -> None:
    """Begin to measure, from zero."""
    global _sums, _owner
    _sums, _owner = {}, get_ident()


def spent() -> dict[str, float]:
    """Seconds by door since :func:`restart`."""
    return dict(_sums or {})


class at:  # noqa: N801 - used as a statement: ``with at("netlink"):``
    """The block counts as time at a door. Doors do not nest."""

    __slots__ = ("_began", "_door")

    def __init__(self, door: str) -> None:
        self._door = door
        self._began = 0.0

    def __enter__(self) -> None:
        if _sums is not None:
            self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if _sums is not None and get_ident() == _owner:
            _sums[self._door] = _sums.get(self._door, 0.0) + time.perf_counter() - self._began
