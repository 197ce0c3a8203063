"""Clusters, faults and rounds that never were.

The noise is that of real logs: a standard deviation of 1.5 %, a third of the paths 4 % slower than the others, one
result in a thousand far off. So are the healthy differences: pairs of ten recorded H100 nodes run at two levels 10 %
apart, by leaf or by path. ``nccltest.signatures`` counts how often ``locate`` is right on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, prod
from typing import Literal, NamedTuple
from zlib import crc32

import numpy as np

from nccltest.locate.cabling import Cabling
from nccltest.locate.names import fold
from nccltest.model import Measurement, Member

__all__ = ["RATE", "Build", "Cluster", "Fault", "Noise", "healthy_rates", "measure"]

Layout = Literal["rail", "rack"]
RATE = 46.5
"""GB/s that a healthy pair reaches over one 400 Gb/s NIC."""


@dataclass(frozen=True)
class Build:
    """What is slower than the rest although nothing is broken; ratios of the bandwidth inside a leaf."""

    between_leaves: float = 1.0
    between_pods: float = 1.0
    load: float = 0.0
    """Standard deviation that sharing uplinks adds to what crosses leaves, relative."""
    old: float = 1.0
    """Ratio of the nodes of an older type."""
    old_nodes: float = 0.0
    """Share of them, spread over all leaves."""
    hashed: float = 1.0
    """Ratio of the pairs of nodes whose path is slower for good, as ECMP draws it."""
    hashed_pairs: float = 0.0
    compound: bool = False
    """Losses multiply; else the worst one decides."""


@dataclass(frozen=True)
class Cluster:
    """Nodes, rails and leaves. ``rail``: a leaf serves one rail of ``per_leaf`` nodes; ``rack``: all rails of them."""

    nodes: int
    rails: int = 8
    per_leaf: int = 32
    spines: int = 4
    layout: Layout = "rail"
    per_pod: int = 1 << 30
    """Leaves of a rail that make a pod."""
    build: Build = Build()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(f"gpu-{number:04d}" for number in range(1, self.nodes + 1))

    def leaf(self, node: int, rail: int) -> str:
        """The leaf of a NIC."""
        block = node // self.per_leaf
        return f"leaf-{block}" if self.layout == "rack" else f"leaf-r{rail}-{block}"

    @cached_property
    def blocks(self) -> int:
        """Leaves of one rail."""
        return -(-self.nodes // self.per_leaf)

    @cached_property
    def cabling(self) -> Cabling:
        """As fabric.yaml would tell it."""
        leaf = {
            (name, f"rail{rail}"): self.leaf(node, rail)
            for node, name in enumerate(self.names)
            for rail in range(self.rails)
        }
        plane = fold(f"spine-{number}" for number in range(self.spines)) if self.blocks > 1 else ""
        return Cabling(
            leaf,
            plane=dict.fromkeys(leaf.values(), plane),
            pod={name: str(int(name.rpartition("-")[2]) // self.per_pod) for name in leaf.values()},
            node_type={name: "old" if self.is_old(node) else "new" for node, name in enumerate(self.names)},
            line_rate=dict.fromkeys(self.names, 50.0),
            rails=tuple(f"rail{rail}" for rail in range(self.rails)),
        )

    def is_old(self, node: int) -> bool:
        """Whether the node is of the older type."""
        share = self.build.old_nodes
        return int((node + 1) * share) > int(node * share)

    def healthy(self, nodes: Sequence[int]) -> float:
        """The ratio that these nodes reach together when nothing is broken."""
        blocks = {node // self.per_leaf for node in nodes}
        pods = {block // self.per_pod for block in blocks}
        names = " ".join(sorted(self.names[node] for node in nodes))
        ratios = [
            self.build.between_leaves if len(blocks) > 1 else 1.0,
            self.build.between_pods if len(pods) > 1 else 1.0,
            self.build.old if any(self.is_old(node) for node in nodes) else 1.0,
            self.build.hashed if crc32(names.encode()) / (1 << 32) < self.build.hashed_pairs else 1.0,
        ]
        return _together(ratios, self.build)


def _together(ratios: Sequence[float], build: Build) -> float:
    return prod(ratios) if build.compound else min(ratios)


class Fault(NamedTuple):
    """What is wrong, by the names that ``locate`` uses; ``ratio`` is what is left of the bandwidth, 0 for nothing."""

    kind: str
    id: str
    ratio: float = 0.8
    share: float = 1.0
    """Share of what it touches that is slow: one of four spines."""
    from_size: int = 0
    """Slow only from this message size on, bytes."""


@dataclass(frozen=True)
class Noise:
    """What healthy measurements do."""

    sigma: float = 0.015
    path: float = 0.04
    """How much slower the slower paths are."""
    slower_paths: float = 1 / 3
    stray: float = 0.001
    """Share of results that are anything between 30 % and 100 %."""


class _Touch(NamedTuple):
    """What a group of one rail, or of all rails, uses."""

    nodes: tuple[int, ...]
    rails: tuple[int, ...]


def touches(fault: Fault, group: _Touch, cluster: Cluster) -> bool:
    """Whether the group uses what is broken."""
    if fault.kind == "node":
        return any(cluster.names[node] == fault.id for node in group.nodes)
    if fault.kind == "nic":
        return any(f"{cluster.names[node]}/rail{rail}" == fault.id for node in group.nodes for rail in group.rails)
    leaves = {rail: {cluster.leaf(node, rail) for node in group.nodes} for rail in group.rails}
    if fault.kind == "leaf":
        return any(fault.id in each for each in leaves.values())
    if fault.kind == "uplink":
        return any(fault.id in each and len(each) > 1 for each in leaves.values())
    if fault.kind == "spine":
        return any(len(each) > 1 for each in leaves.values())
    return True


def measure(
    cluster: Cluster,
    faults: Sequence[Fault],
    rng: np.random.Generator,
    *,
    rounds: int = 4,
    inside: int = 0,
    sizes: Sequence[int] = (4 << 30,),
    by_rail: bool = True,
    noise: Noise = Noise(),
) -> list[Measurement]:
    """The measurements of ``rounds`` matchings: pairs, each rail on its own or all at once.

    The last ``inside`` of them pair nodes of one leaf, the others are random.
    """
    return [
        one
        for number in range(rounds)
        for pair in _matching(cluster, rng, inside=number >= rounds - inside)
        for group in _groups(pair, cluster, by_rail)
        for one in _measured(group, number, sizes, faults, cluster, rng, noise)
    ]


def _matching(cluster: Cluster, rng: np.random.Generator, *, inside: bool) -> Iterator[tuple[int, int]]:
    step = cluster.per_leaf if inside else cluster.nodes
    for first in range(0, cluster.nodes, step):
        order = (first + rng.permutation(min(step, cluster.nodes - first))).tolist()
        yield from zip(order[0::2], order[1::2], strict=False)  # an odd one rests


def _groups(pair: tuple[int, int], cluster: Cluster, by_rail: bool) -> Iterator[_Touch]:
    rails = tuple(range(cluster.rails))
    return (_Touch(pair, (rail,)) for rail in rails) if by_rail else iter([_Touch(pair, rails)])


def _measured(
    group: _Touch,
    number: int,
    sizes: Sequence[int],
    faults: Sequence[Fault],
    cluster: Cluster,
    rng: np.random.Generator,
    noise: Noise,
) -> Iterator[Measurement]:
    hit = [fault for fault in faults if touches(fault, group, cluster) and rng.random() < fault.share]
    path = 1 - noise.path * float(rng.random() < noise.slower_paths)
    built = cluster.healthy(group.nodes)
    crosses = len({node // cluster.per_leaf for node in group.nodes}) > 1
    load = exp(-abs(rng.normal(0, cluster.build.load))) if crosses and cluster.build.load else 1.0
    rail = f"rail{group.rails[0]}" if len(group.rails) == 1 else None
    members = tuple(Member(cluster.names[node], rail) for node in group.nodes)
    for size in sizes:
        left = _together([fault.ratio for fault in hit if size >= fault.from_size] + [built], cluster.build)
        stray = 0.3 + 0.7 * rng.random() if rng.random() < noise.stray else 1.0
        rate = RATE * len(group.rails) * left * path * load * stray * exp(rng.normal(0, noise.sigma))
        if left == 0:
            yield Measurement("all_reduce", size, members, None, status="timeout", round=number, schedule="sim")
        else:
            yield Measurement("all_reduce", size, members, rate, round=number, schedule="sim")


def healthy_rates(cluster: Cluster, measurements: Sequence[Measurement]) -> list[float | None]:
    """What each group used to have, GB/s: the middle of its noise."""
    number = {name: node for node, name in enumerate(cluster.names)}
    return [
        RATE * 0.987 * (1 if one.rail else cluster.rails) * cluster.healthy([number[node] for node in one.nodes])
        for one in measurements
    ]
