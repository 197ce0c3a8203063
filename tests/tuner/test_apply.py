"""A run of steps, whatever stops it: the host is as it was, or the journal says what is left to undo.

The hands are a double: what a real step does to a real NIC is tested in the lab.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from host.errors import HostError
from tests.tuner.nics import host, mlx5
from tuner.apply import run
from tuner.session import teller, terminable
from tuner.steps import SetKnob, Step
from tuner.store import Store

STEPS: tuple[Step, ...] = tuple(
    SetKnob(nic="eth2", name=f"param.rp_{name}", seen=0, wanted=1) for name in ("gd", "ai_rate", "hai_rate")
)


class Knobs:
    """Hands for knobs that are a dictionary; ``stop`` is called before the nth step is done, and may raise."""

    def __init__(self, at: int = 0, stop: Callable[[], None] = lambda: None, again: bool = False) -> None:
        self.values: dict[str, int | None] = {}
        self._at, self._stop, self._count, self._again = at, stop, 0, again

    def make(self, step: Any) -> bool:
        self._count += 1
        if self._count == self._at or (self._again and self._count > self._at):
            self._stop()
        changed = bool(self.values.get(step.name, 0) != step.wanted)
        self.values[step.name] = step.wanted
        return changed

    @property
    def left(self) -> list[str]:
        """What is not as it was."""
        return [name for name, value in self.values.items() if value]


def attempt(knobs: Knobs, folder: Path, said: list[str] | None = None) -> Store:
    store = Store(str(folder))
    hands: Any = knobs
    with store.held():
        run(STEPS, host(mlx5()), store, hands, (said if said is not None else []).append)
    return store


def raising(error: BaseException) -> Callable[[], None]:
    def stop() -> None:
        raise error

    return stop


def test_a_run_that_ends_leaves_no_journal(tmp_path: Path) -> None:
    knobs = Knobs()
    assert attempt(knobs, tmp_path).journal() is None
    assert len(knobs.left) == 3


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a bug"), MemoryError(), UnicodeError("x")])
def test_whatever_stops_a_run_puts_everything_back(at: int, error: BaseException, tmp_path: Path) -> None:
    knobs, said = Knobs(at, raising(error)), list[str]()
    with pytest.raises(type(error)):
        attempt(knobs, tmp_path, said)
    assert knobs.left == []
    assert Store(str(tmp_path)).journal() is None
    assert said[-1] == "nothing was changed: everything was put back"


def test_a_refusal_puts_everything_back_and_is_told(tmp_path: Path) -> None:
    knobs, said = Knobs(2, raising(HostError("write", "x", 5))), list[str]()
    attempt(knobs, tmp_path, said)
    assert knobs.left == []
    assert "  failed: eth2: DCQCN rp_ai_rate 0 → 1" in said


def test_ctrl_c_while_everything_is_put_back_waits(tmp_path: Path) -> None:
    def again() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    knobs = Knobs(2, again, again=True)
    with pytest.raises(KeyboardInterrupt):
        attempt(knobs, tmp_path)
    assert knobs.left == []
    assert Store(str(tmp_path)).journal() is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_unit_or_a_closed_terminal_puts_everything_back(number: signal.Signals, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    knobs = Knobs(2, lambda: os.kill(os.getpid(), number))
    with pytest.raises(KeyboardInterrupt), terminable():
        attempt(knobs, tmp_path)
    assert knobs.left == []
    assert signal.getsignal(number) == before


def test_nohup_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminable():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_reader_that_went_away_does_not_stop_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    knobs, store = Knobs(), Store(str(tmp_path))
    hands: Any = knobs
    with os.fdopen(writing, "w") as nobody, store.held():
        monkeypatch.setattr("sys.stdout", nobody)
        run(STEPS, host(mlx5()), store, hands, teller(argparse.Namespace(json=False)))
        monkeypatch.undo()
    assert len(knobs.left) == 3
    assert store.journal() is None
