"""Enforcing stops where drift comes back, and lets an apply at work alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tuner.nics import fabric, host, mlx5
from tuner import enforce
from tuner.apply import Outcome
from tuner.desired import desired
from tuner.session import Look
from tuner.store import Store


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each run was given; nothing is done."""
    found: list[int] = []

    def run(steps: Any, *_: Any) -> Outcome:
        found.append(len(steps))
        return Outcome()

    monkeypatch.setattr(enforce, "run", run)
    return found


def enforcer(folder: Path) -> enforce.Enforcer:
    seen = host(mlx5(), mlx5("eth3"))
    wanted = desired(fabric(), "n0", {"rail0": "eth2", "rail1": "eth3"})
    look = Look(fabric=fabric(), wanted=wanted, seen=seen)
    nothing: Any = None
    return enforce.Enforcer(Store(str(folder)), nothing, lambda **_: look)


def test_drift_that_keeps_coming_back_is_left_after_three_times(
    tmp_path: Path, runs: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    mender = enforcer(tmp_path)
    for _ in range(10):
        mender.mend()
    assert runs == [12, 12, 12]
    assert capsys.readouterr().err.count("something else on this host sets it; resting an hour") == 1


def test_after_the_rest_it_tries_again(tmp_path: Path, runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("tuner.enforce.time.monotonic", lambda: clock[0])
    mender = enforcer(tmp_path)
    for _ in range(5):
        mender.mend()
    clock[0] += 3599
    mender.mend()
    assert len(runs) == 3
    clock[0] += 2
    mender.mend()
    assert len(runs) == 4


def test_an_apply_at_work_is_let_alone(tmp_path: Path, runs: list[int]) -> None:
    mender = enforcer(tmp_path)
    with Store(str(tmp_path)).held():
        mender.mend()
    assert runs == []
