"""Putting drift right again and again, and knowing when to stop: what ``watch --enforce`` does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

from host.errors import Busy, HostError
from tuner.apply import recover, run
from tuner.gather import Doors
from tuner.hands import Hands
from tuner.plan import plan
from tuner.session import Look
from tuner.store import Store

__all__ = ["Enforcer"]

_TIMES, _WITHIN, _REST = 3, 600.0, 3600.0
"""So many runs in so many seconds, then so many seconds of rest."""


class Enforcer:
    """Puts drift right, and stops where it comes back: then somebody else wants something else."""

    def __init__(self, store: Store, doors: Doors, look_again: Callable[..., Look]) -> None:
        self._store, self._doors, self._look = store, doors, look_again
        self._times: list[float] = []
        self._rest_until = 0.0

    def mend(self) -> None:
        """One run of what the plan says, unless resting. Rails that a pod has stay."""
        if time.monotonic() < self._rest_until or self._tired():
            return
        try:
            with self._store.held():
                self._run()
        except Busy:
            return  # an apply is at work: what it does is its own
        except HostError as error:
            print(f"roceway-tune: {error}", file=sys.stderr)

    def _run(self) -> None:
        hands, here = Hands(self._doors), self._look(in_use=True)
        recover(self._store, hands, here.seen.boot_id, _progress)
        steps = [step for each in plan(here.wanted, here.seen) for step in each.steps]
        if not steps:
            return
        self._times.append(time.monotonic())
        outcome = run(steps, here.seen, self._store, hands, _progress)
        if outcome.cause is not None:
            print(f"roceway-tune: {outcome.cause}; everything was put back", file=sys.stderr)

    def _tired(self) -> bool:
        recent = [at for at in self._times if at > time.monotonic() - _WITHIN]
        if len(recent) < _TIMES:
            return False
        self._rest_until, self._times = time.monotonic() + _REST, []
        sentence = (
            f"drift came back {_TIMES} times in ten minutes: something else on this host sets it; resting an hour"
        )
        print(f"roceway-tune: {sentence}", file=sys.stderr)
        return True


def _progress(line: str) -> None:
    with suppress(OSError):  # a log that is full or closed must not stop a run halfway
        print(f"enforce:{line}", file=sys.stderr, flush=True)
