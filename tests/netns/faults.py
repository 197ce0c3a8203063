"""Breaking the plugin between any two of its steps: refusals of the kernel, and SIGKILL."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from cni import apply, homecoming
from cni.steps import Step
from cni.store import Store
from host.errors import HostError


def single(steps: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """In the place of cni.apply.batches: every step travels alone."""
    for step in steps:
        yield (step,)


class Tally:
    """Counts calls of what it wraps; ``hit`` says which of them is the one."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0
        self.seen: list[str] = []

    def hit(self, what: str) -> bool:
        """Count one; whether it is the one."""
        self.calls += 1
        self.seen.append(what)
        return self.calls == self.at


@contextmanager
def refusing(at: int, *, undo_too: bool = False) -> Iterator[Tally]:
    """The kernel refuses the ``at``-th step (from 1); with ``undo_too`` also everything after it."""
    tally = Tally(at)
    real = apply.Kernel.run

    def run(kernel: apply.Kernel, batch: Sequence[Step]) -> None:
        text = "; ".join(map(str, batch))
        if tally.hit(text) or (undo_too and tally.calls > at):
            raise HostError("injected", text, errno.EPERM)
        real(kernel, batch)

    with patch.object(apply.Kernel, "run", run), patch.object(apply, "batches", single):
        yield tally


class Point(NamedTuple):
    """Where a call dies: at the n-th call of a function, before it or after it."""

    owner: type
    name: str
    after: bool

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.owner.__name__}.{self.name}"


POINTS_ADD = (
    Point(apply.Kernel, "run", after=False),
    Point(apply.Kernel, "run", after=True),
    Point(Store, "insert", after=True),
    Point(Store, "reach", after=False),
    Point(Store, "set_state", after=False),
    Point(Store, "set_state", after=True),
)
POINTS_RESTORE = (
    Point(Store, "set_state", after=True),
    Point(homecoming.Homecoming, "_bring_home", after=True),
    Point(homecoming.Homecoming, "_out_of_the_way", after=True),
    Point(homecoming.Homecoming, "_put_right", after=False),
    Point(homecoming.Homecoming, "_put_right", after=True),
)
"""What only a DEL that gives NICs back comes to."""

POINTS_DEL = (
    *POINTS_RESTORE,
    Point(apply.Kernel, "run", after=False),
    Point(apply.Kernel, "run", after=True),
    Point(Store, "remove", after=False),
    Point(Store, "remove", after=True),
)


@contextmanager
def killing(point: Point, at: int) -> Iterator[None]:
    """This process kills itself at the ``at``-th call of a point. For use in a forked child."""
    tally = Tally(at)
    real: Callable[..., Any] = getattr(point.owner, point.name)

    def dying(*args: Any, **more: Any) -> Any:
        hit = tally.hit("")
        if hit and not point.after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **more)
        if hit:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    with patch.object(point.owner, point.name, dying), patch.object(apply, "batches", single):
        yield
