"""The published rates of ``locate`` with fewer trials: a rate is refuted when chance alone gives such a count once in
ten thousand runs."""

from __future__ import annotations

import time

import numpy as np
import pytest

from nccltest.figures import at_least, at_most, calibration
from nccltest.locate.verdict import locate
from nccltest.signatures import SIGNATURES, Signature, count
from nccltest.sim import Build, Cluster, Fault, measure

REFUTED = 1e-4
PROMISED = [each for each in SIGNATURES if each.least is not None and each.cost < 100]


@pytest.mark.parametrize("signature", PROMISED, ids=[each.name for each in PROMISED])
def test_a_promised_rate_holds(signature: Signature) -> None:
    several_levels = any(cluster.build != Build() for cluster in signature.clusters)
    counted = count(signature, max(1, (12 if several_levels else 24) // signature.cost), seed=7)
    assert signature.least is not None
    assert at_least(counted.right, counted.trials, signature.least) > REFUTED, counted
    assert at_most(counted.wrong, counted.trials, 0.005) > REFUTED, counted


def test_the_bounds_can_fail() -> None:
    assert at_least(34, 40, 0.99) < REFUTED
    assert at_most(5, 40, 0.005) < REFUTED
    assert at_least(40, 40, 0.99) == pytest.approx(1)


def test_a_fault_that_is_not_there_is_not_right() -> None:
    """The counting itself: a cluster whose fault is too small to be seen counts as unsure, never as right."""
    tiny = Signature("NIC of 1 %", ("nic",), (Cluster(32, per_leaf=8),), ratio=0.99)
    assert count(tiny, 10).unsure == 10


def test_stated_confidence_is_near_the_truth() -> None:
    for low, _, number, mean, share in calibration(20, seed=3):
        if low >= 0.95 and number >= 20:
            wrong = number - round(share * number)
            assert at_most(wrong, number, max(0.01, 2 * (1 - mean))) > REFUTED, (low, number, mean, share)


@pytest.mark.parametrize("build", [Build(), Build(between_leaves=0.9)], ids=["one level", "two levels"])
def test_4096_nodes_of_8_rails_are_located_in_ten_seconds(build: Build) -> None:
    cluster = Cluster(4096, per_leaf=64, build=build)
    faults = [Fault("nic", "gpu-0100/rail3"), Fault("node", "gpu-3000"), Fault("uplink", "leaf-r5-7")]
    made = measure(cluster, faults, np.random.default_rng(5))
    cabling = cluster.cabling
    began = time.process_time()
    verdict = locate(made, cabling)
    assert time.process_time() - began < 10
    assert {(each.kind, each.id) for each in verdict.suspects} == {(each.kind, each.id) for each in faults}
