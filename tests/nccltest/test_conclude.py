"""Judged, measured again and located: what a confirmation cleared, and what a noisy cluster looks like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import exp
from pathlib import Path

import numpy as np
import pytest

from nccltest.conclude import Conclusion, conclude, settled
from nccltest.detector import CONFIRMATIONS
from nccltest.history import History
from nccltest.judge import to_confirm
from nccltest.model import Measurement
from nccltest.remember import remember
from nccltest.sim import Cluster, Fault, Noise, measure

FOUR = Cluster(4, rails=1, per_leaf=4)
EIGHT = Cluster(8, rails=2, per_leaf=4)
LEARNT = 4
"""Days after which pairs of four nodes have a baseline."""


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History.open(tmp_path / "h.db") as made:
        yield made


def day(number: int, cluster: Cluster, history: History, sigma: float, *faults: Fault, seed: int = 1) -> Conclusion:
    """A run with its confirmation, remembered."""
    rng = np.random.default_rng([seed, number])
    noise = Noise(sigma=sigma, slower_paths=0, stray=0.02)
    first = [replace(one, schedule=f"day-{number:02}", time=1.76e9 + 86_400 * number)
             for one in measure(cluster, faults, rng, noise=noise)]  # fmt: skip
    again = [
        replace(one, busbw=_rate(one, faults) * exp(rng.normal(0, sigma)), purpose="confirm", round=100 + number)
        for one in to_confirm(conclude(first, history=history).judgements, first)
        for number in range(CONFIRMATIONS)
    ]
    conclusion = conclude([*first, *again], history=history)
    remember(conclusion, history)
    return conclusion


def _rate(one: Measurement, faults: tuple[Fault, ...]) -> float:
    hit = [fault.ratio for fault in faults if any(f"{m.node}/{m.rail}" == fault.id for m in one.members)]
    return 46.5 * min(hit, default=1.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_noisy_healthy_cluster_is_healthy_once_its_noise_is_known(history: History, seed: int) -> None:
    days = [day(number, FOUR, history, 0.06, seed=seed) for number in range(14)]
    assert [each.verdict.verdict for each in days[LEARNT:]] == ["healthy"] * (14 - LEARNT)


def test_a_fault_is_named_in_that_noise_all_the_same(history: History) -> None:
    for number in range(8):
        day(number, FOUR, history, 0.04)
    fault = Fault("nic", "gpu-0002/rail0", 0.6)
    found = [day(number, FOUR, history, 0.04, fault).verdict for number in range(8, 11)]
    assert {each.id.partition("/")[0] for verdict in found for each in verdict.suspects if each.sure} == {"gpu-0002"}


def test_what_a_confirmation_cleared_is_no_evidence(history: History) -> None:
    for number in range(3):
        day(number, EIGHT, history, 0.01)
    rng = np.random.default_rng(5)
    made = [
        replace(one, schedule="late", time=1.77e9)
        for one in measure(EIGHT, (), rng, noise=Noise(sigma=0.01, slower_paths=0, stray=0))
    ]
    slow = [
        replace(one, busbw=0.7 * (one.busbw or 0)) if "gpu-0003" in one.nodes and one.rail == "rail1" else one
        for one in made
    ]
    before = conclude(slow, history=history)
    assert [each.id for each in before.verdict.suspects] == ["gpu-0003/rail1"]
    again = [replace(one, busbw=46.5, purpose="confirm", round=9) for one in to_confirm(before.judgements, slow)] * 5
    after = conclude([*slow, *again], history=history)
    assert again
    assert after.healthy, after.verdict


def test_a_repeat_stands_in_for_what_it_repeats() -> None:
    one, *_ = measure(EIGHT, (), np.random.default_rng(1))
    (same,) = settled([one])
    assert same == one
    (other,) = settled([one, replace(one, busbw=1.0, purpose="confirm", round=9)])
    assert other.busbw == 1.0
