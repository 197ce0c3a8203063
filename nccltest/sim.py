"""Clusters, faults and rounds that never were: how often ``locate`` is right, and how often it blames the wrong one.

``python -m nccltest.sim`` measures every signature and prints docs/figures/locate.md. The noise is that of real logs: a
standard deviation of 1.5 %, a third of the paths 4 % slower than the others, one result in a thousand far off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import Literal, NamedTuple

import numpy as np

from conf.hostlist import expand
from nccltest.locate.cabling import Cabling
from nccltest.locate.names import fold
from nccltest.locate.verdict import Suspect, Verdict, locate
from nccltest.model import Measurement, Member

__all__ = ["SIGNATURES", "Cluster", "Counted", "Fault", "Noise", "Signature", "count", "inject", "measure", "trial"]

Layout = Literal["rail", "rack"]
_RATE = 46.5
"""GB/s that a healthy pair reaches over one 400 Gb/s NIC."""


@dataclass(frozen=True)
class Cluster:
    """Nodes, rails and leaves. ``rail``: a leaf serves one rail of ``per_leaf`` nodes; ``rack``: all rails of them."""

    nodes: int
    rails: int = 8
    per_leaf: int = 32
    spines: int = 4
    layout: Layout = "rail"

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
        rails = tuple(f"rail{rail}" for rail in range(self.rails))
        return Cabling(leaf, dict.fromkeys(leaf.values(), plane), dict.fromkeys(self.names, 50.0), {}, rails)


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
    rail = f"rail{group.rails[0]}" if len(group.rails) == 1 else None
    members = tuple(Member(cluster.names[node], rail) for node in group.nodes)
    for size in sizes:
        ceiling = min((fault.ratio for fault in hit if size >= fault.from_size), default=1.0)
        stray = 0.3 + 0.7 * rng.random() if rng.random() < noise.stray else 1.0
        rate = _RATE * len(group.rails) * ceiling * path * stray * exp(rng.normal(0, noise.sigma))
        if ceiling == 0:
            yield Measurement("all_reduce", size, members, None, status="timeout", round=number, schedule="sim")
        else:
            yield Measurement("all_reduce", size, members, rate, round=number, schedule="sim")


# what is measured


@dataclass(frozen=True)
class Signature:
    """One row of the table: a kind of fault on a kind of cluster."""

    name: str
    kinds: tuple[str, ...]
    """Kinds of the faults that are injected, one fault each."""
    clusters: tuple[Cluster, ...]
    rounds: int = 4
    inside: int = 0
    """How many of the matchings stay inside leaves."""
    ratio: float = 0.8
    share: float = 1.0
    from_size: int = 0
    sizes: tuple[int, ...] = (4 << 30,)
    by_rail: bool = True
    topology: bool = True
    history: bool = False
    """Whether each group's own earlier bandwidth is known."""
    least: float | None = 0.99
    """Share of right unique verdicts that is promised; None: the table only tells."""
    pair: bool = False
    """Two leaves: right is the pair of uplinks."""
    cost: int = 1
    """Trials are divided by this: large clusters."""


@dataclass(frozen=True)
class Counted:
    """What came of some trials."""

    trials: int
    right: int
    """Every fault found, alone and with the right name, and nothing else blamed (with two leaves: the pair)."""
    unsure: int
    """Not right, and nobody wrongly blamed: ambiguity sets, or faults not found."""
    wrong: int
    """Somebody innocent was blamed alone."""


def inject(signature: Signature, cluster: Cluster, rng: np.random.Generator) -> list[Fault]:
    """Faults in places drawn by chance, none behind another: a slow NIC on a slow leaf cannot be seen."""
    faults: list[Fault] = []
    for kind in signature.kinds:
        fault = _somewhere(kind, signature, cluster, rng)
        while any(_overlap(fault, other, cluster) for other in faults):
            fault = _somewhere(kind, signature, cluster, rng)
        faults.append(fault)
    return faults


def _overlap(one: Fault, other: Fault, cluster: Cluster) -> bool:
    if one.kind in ("leaf", "uplink") or other.kind in ("leaf", "uplink"):
        return bool(_leaves(one, cluster) & _leaves(other, cluster))
    return one.id.split("/")[0] == other.id.split("/")[0]


def _leaves(fault: Fault, cluster: Cluster) -> set[str]:
    node, _, rail = fault.id.partition("/")
    if fault.kind in ("leaf", "uplink"):
        return {fault.id}
    return {leaf for (name, on), leaf in cluster.cabling.leaf.items() if name == node and rail in ("", on)}


def _somewhere(kind: str, signature: Signature, cluster: Cluster, rng: np.random.Generator) -> Fault:
    node, rail = int(rng.integers(cluster.nodes)), int(rng.integers(cluster.rails))
    name = {
        "nic": f"{cluster.names[node]}/rail{rail}",
        "node": cluster.names[node],
        "leaf": cluster.leaf(node, rail),
        "uplink": cluster.leaf(node, rail),
        "spine": cluster.cabling.plane[cluster.leaf(node, rail)],
        "global": "fabric",
    }[kind]
    share = signature.share if kind != "spine" else 1 / cluster.spines
    return Fault(kind, name, signature.ratio, share, signature.from_size)


def trial(signature: Signature, cluster: Cluster, rng: np.random.Generator) -> tuple[list[Fault], Verdict]:
    """One cluster with its faults, measured and located."""
    faults = inject(signature, cluster, rng)
    evidence = measure(
        cluster,
        faults,
        rng,
        rounds=signature.rounds,
        inside=signature.inside,
        sizes=signature.sizes,
        by_rail=signature.by_rail,
    )
    usual = _RATE * (1 if signature.by_rail else cluster.rails) * 0.987
    past = [usual] * len(evidence) if signature.history else None
    return faults, locate(evidence, cluster.cabling if signature.topology else Cabling({}), past)


def count(signature: Signature, trials: int, seed: int = 0) -> Counted:
    """So many trials, spread over the signature's clusters. The same seed gives the same counts."""
    rng = np.random.default_rng([seed, len(signature.name), *signature.name.encode()])
    outcomes = []
    for number in range(trials):
        cluster = signature.clusters[number % len(signature.clusters)]
        faults, verdict = trial(signature, cluster, rng)
        outcomes.append(_outcome(faults, verdict, signature, cluster))
    return Counted(trials, outcomes.count("right"), outcomes.count("unsure"), outcomes.count("wrong"))


def _outcome(faults: Sequence[Fault], verdict: Verdict, signature: Signature, cluster: Cluster) -> str:
    truth = {(fault.kind, fault.id) for fault in faults}
    sure = {_true_name(each, faults, cluster) for each in verdict.suspects if each.sure}
    if sure - truth:
        return "wrong"
    if signature.pair:
        (fault,) = faults
        truth.add((fault.kind, fault.id[:-1] + ("1" if fault.id[-1] == "0" else "0")))
        return "right" if {(each.kind, each.id) for each in verdict.suspects} == truth else "unsure"
    return "right" if sure == truth and all(each.sure for each in verdict.suspects) else "unsure"


def _true_name(suspect: Suspect, faults: Sequence[Fault], cluster: Cluster) -> tuple[str, str]:
    """Without a topology a leaf is called by its members: with four fifths of them right it is that leaf."""
    for fault in faults:
        if suspect.kind == fault.kind in ("leaf", "uplink") and not suspect.id.startswith("leaf-"):
            nodes, _, rail = suspect.id.partition("/")
            rails = [rail] if rail else cluster.cabling.rails
            named = {f"{node}/{each}" for node in expand(nodes) for each in rails}
            true = {f"{node}/{rail}" for (node, rail), leaf in cluster.cabling.leaf.items() if leaf == fault.id}
            if len(named & true) >= 0.8 * len(named | true):
                return fault.kind, fault.id
    return suspect.kind, suspect.id


_SMALL = (Cluster(8, per_leaf=4), Cluster(16, per_leaf=8), Cluster(32, per_leaf=8))
_MIDDLE = (Cluster(64, per_leaf=16), Cluster(64, per_leaf=16, layout="rack"), Cluster(128, per_leaf=32))
_LARGE = (Cluster(512, per_leaf=32), Cluster(1024, per_leaf=64))
_HUGE = (Cluster(4096, per_leaf=64),)
_GIB = 1 << 30

SIGNATURES: tuple[Signature, ...] = (
    Signature("healthy, 8-32 nodes", (), _SMALL),
    Signature("healthy, 64-128 nodes", (), _MIDDLE),
    Signature("healthy, 512-1024 nodes", (), _LARGE, cost=20),
    Signature("healthy, 4096 nodes", (), _HUGE, cost=100),
    Signature("NIC, 8-32 nodes", ("nic",), _SMALL),
    Signature("NIC, 64-128 nodes", ("nic",), _MIDDLE),
    Signature("NIC, 64-128 nodes, 2 matchings", ("nic",), _MIDDLE, rounds=2, least=None),
    Signature("NIC, 512-1024 nodes", ("nic",), _LARGE, cost=20),
    Signature("NIC, 4096 nodes", ("nic",), _HUGE, cost=100),
    Signature("NIC dead, 8-32 nodes", ("nic",), _SMALL, ratio=0),
    Signature("NIC, 64-128 nodes, no topology", ("nic",), _MIDDLE, topology=False),
    Signature("node, 8-32 nodes", ("node",), _SMALL),
    Signature("node, 64-128 nodes", ("node",), _MIDDLE),
    Signature("node, 512-1024 nodes", ("node",), _LARGE, cost=20),
    Signature("node, 4096 nodes", ("node",), _HUGE, cost=100),
    Signature("node dead, 8-32 nodes", ("node",), _SMALL, ratio=0),
    Signature("node, all rails at once", ("node",), _MIDDLE, by_rail=False),
    Signature("lost rail (7/8), all rails at once", ("node",), _MIDDLE, by_rail=False, ratio=7 / 8),
    Signature("socket fallback on one node (1/8)", ("node",), _MIDDLE, ratio=1 / 8),
    Signature("leaf, 64-128 nodes", ("leaf",), _MIDDLE, least=0.95),
    Signature("leaf, 512-1024 nodes", ("leaf",), _LARGE, least=None, cost=20),
    Signature("leaf, 512-1024 nodes, 1 matching inside leaves", ("leaf",), _LARGE, inside=1, least=0.95, cost=20),
    Signature("leaf, 64-128 nodes, no topology", ("leaf",), _MIDDLE, topology=False, least=None),
    Signature(
        "not lossless on one leaf (from 4 GiB)",
        ("leaf",),
        _MIDDLE,
        ratio=0.3,
        from_size=4 * _GIB,
        sizes=(_GIB, 4 * _GIB, 8 * _GIB),
        least=0.95,
    ),
    Signature("uplink, 64-128 nodes", ("uplink",), _MIDDLE, least=0.95),
    Signature("uplink, 512-1024 nodes", ("uplink",), _LARGE, least=None, cost=20),
    Signature("uplink, 512-1024 nodes, 1 matching inside leaves", ("uplink",), _LARGE, inside=1, least=0.95, cost=20),
    Signature("uplink, 4096 nodes, 1 matching inside leaves", ("uplink",), _HUGE, inside=1, least=0.95, cost=100),
    Signature("uplink of two leaves: the pair", ("uplink",), (Cluster(64, per_leaf=32),), least=0.95, pair=True),
    Signature("one of 4 uplink cables", ("uplink",), _MIDDLE, share=0.25, least=None),
    Signature("uplink, 64-128 nodes, no topology", ("uplink",), _MIDDLE, topology=False, least=None),
    Signature("one spine of 4, 64-128 nodes", ("spine",), _MIDDLE, least=0.95),
    Signature("everything, against history", ("global",), _MIDDLE, history=True),
    Signature("two NICs", ("nic", "nic"), _MIDDLE),
    Signature("NIC and node", ("nic", "node"), _MIDDLE),
    Signature("three NICs, 8-32 nodes", ("nic", "nic", "nic"), _SMALL, least=None),
    Signature("two NICs and a node, 512-1024 nodes", ("nic", "nic", "node"), _LARGE, cost=20),
    Signature("NIC, leaf and uplink, 64-128 nodes", ("nic", "leaf", "uplink"), _MIDDLE, least=None),
    Signature(
        "NIC, leaf and uplink, 512-1024 nodes, 1 matching inside leaves",
        ("nic", "leaf", "uplink"),
        _LARGE,
        inside=1,
        least=0.95,
        cost=20,
    ),
)
"""Every signature of the table that can be seen in bandwidth. A wrong traffic class is seen in counters alone."""
