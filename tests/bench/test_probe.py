"""pytest-benchmark: what the probe reckons with, at the size of the largest clusters."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest

from nccltest.judge import judge
from nccltest.judgement import Before
from nccltest.locate.cabling import Cabling
from nccltest.locate.verdict import locate
from nccltest.sim import Cluster, Fault, measure

pytestmark = pytest.mark.bench

CLUSTER = Cluster(4096, per_leaf=64)
FAULTS = (Fault("nic", "gpu-0100/rail3"), Fault("node", "gpu-3000"), Fault("uplink", "leaf-r5-7"))


@pytest.mark.parametrize("topology", [True, False], ids=["with a topology", "without"])
def test_locating_three_faults_among_4096_nodes_of_8_rails(benchmark: Any, topology: bool) -> None:
    made = measure(CLUSTER, FAULTS, np.random.default_rng(1))
    cabling = CLUSTER.cabling if topology else Cabling({})
    verdict = benchmark.pedantic(locate, (made, cabling), rounds=3)
    assert {("nic", "gpu-0100/rail3"), ("node", "gpu-3000")} <= {(each.kind, each.id) for each in verdict.suspects}


def test_judging_a_run_of_65536_groups(benchmark: Any) -> None:
    made = measure(CLUSTER, (), np.random.default_rng(1))
    values = (log(46) + np.random.default_rng(2).normal(0, 0.02, 480)).tolist()
    past = Before(values, values[:120])
    assert len(benchmark.pedantic(judge, (made, lambda _: past), rounds=2)) == len(made)
