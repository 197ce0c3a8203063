"""The past of each class of paths decides what two leaves alone cannot: a slow uplink, or a fabric that is built so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conf.fabric import Fabric, parse
from nccltest.conclude import Conclusion, conclude
from nccltest.history import History
from nccltest.locate.pathstory import AS_BUILT
from nccltest.remember import remember
from nccltest.sim import Build, Cluster, Fault, Noise, measure

BUILT = Cluster(16, rails=1, per_leaf=8, layout="rack", build=Build(between_leaves=0.88))
EVEN = replace(BUILT, build=Build())
FABRIC = """\
apiVersion: roceway/v1
kind: Fabric
metadata: {name: lab}
rails: [{name: rail0, subnet: 10.10.0.0/16, nodeBlock: 28}]
nodeTypes: {plain: {speed: 400G, mode: macvlan, rails: {rail0: p0}}}
nodes: [{match: "gpu-[0001-0016]", type: plain}]
switches:
  - {name: leaf-0, platform: sonic, role: leaf, ports: {"p[1-8]": "gpu-[0001-0008]/rail0"}}
  - {name: leaf-1, platform: sonic, role: leaf, ports: {"p[1-8]": "gpu-[0009-0016]/rail0"}}
  - {name: spine-0, platform: sonic, role: spine}
links: [{from: "leaf-0:u[1-2]", to: "spine-0:d[1-2]"}, {from: "leaf-1:u[1-2]", to: "spine-0:d[3-4]"}]
"""
DAYS = 12


@pytest.fixture
def fabric() -> Fabric:
    return parse(FABRIC)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History.open(tmp_path / "h.db") as made:
        yield made


def day(number: int, cluster: Cluster, fabric: Fabric, history: History, *faults: Fault) -> Conclusion:
    noise = Noise(sigma=0.008, slower_paths=0, stray=0)
    made = measure(cluster, faults, np.random.default_rng([7, number]), rounds=6, noise=noise)
    run = [replace(one, schedule=f"day-{number:02}", time=1.76e9 + 86_400 * number) for one in made]
    conclusion = conclude(run, history=history, fabric=fabric)
    remember(conclusion, history)
    return conclusion


def named(conclusion: Conclusion) -> set[tuple[str, str]]:
    return {(each.kind, each.id) for each in conclusion.verdict.suspects}


def test_a_level_that_paths_always_had_is_healthy_once_it_is_known(fabric: Fabric, history: History) -> None:
    days = [day(number, BUILT, fabric, history) for number in range(DAYS)]
    assert ("global", AS_BUILT) in named(days[0])
    assert {each.verdict.verdict for each in days[4:]} == {"healthy"}


@pytest.mark.parametrize("before", [BUILT, EVEN], ids=["two levels", "one level"])
def test_an_uplink_that_became_slow_is_no_way_of_building(before: Cluster, fabric: Fabric, history: History) -> None:
    for number in range(DAYS):
        day(number, before, fabric, history)
    late = named(day(DAYS, before, fabric, history, Fault("uplink", "leaf-1", 0.75)))
    assert late >= {("uplink", "leaf-0"), ("uplink", "leaf-1")}
    assert ("global", AS_BUILT) not in late
