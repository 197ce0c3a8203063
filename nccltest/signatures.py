"""What is promised of ``locate``, row by row: a kind of fault on a kind of cluster, and how often it is named.

``python -m nccltest.figures locate`` measures every row and prints docs/figures/locate.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from conf.hostlist import expand
from nccltest.locate.cabling import Cabling
from nccltest.locate.verdict import Suspect, Verdict, locate
from nccltest.sim import Build, Cluster, Fault, healthy_rates, measure

__all__ = ["SIGNATURES", "Counted", "Signature", "count", "inject", "trial"]


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
    """Trials are divided by this: large clusters, and rows that resemble others."""


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
    past = healthy_rates(cluster, evidence) if signature.history else None
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


def _built(clusters: Sequence[Cluster], build: Build) -> tuple[Cluster, ...]:
    return tuple(replace(each, build=build) for each in clusters)


_TWO = Build(between_leaves=0.9)
_FULL = Build(between_leaves=0.6, load=0.03)
_PODS = _built((Cluster(128, per_leaf=16, per_pod=4),), Build(between_leaves=0.95, between_pods=0.8))
_OLD = Build(old=0.85, old_nodes=0.4)
_HASHED = Build(hashed=0.9, hashed_pairs=0.4)
_RACKS = _built((Cluster(16, per_leaf=8, layout="rack"), Cluster(64, per_leaf=32, layout="rack")), _TWO)
"""Two leaves and no more."""
_TWO_LEAVES = _built((Cluster(64, per_leaf=32),), _TWO)

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
    # healthy at several levels, and faults on top of them
    Signature("healthy, two levels (90 %), 8-32 nodes", (), _built(_SMALL, _TWO), cost=2),
    Signature("healthy, two levels, 64-128 nodes", (), _built(_MIDDLE, _TWO), cost=2),
    Signature("healthy, two levels, 512-1024 nodes", (), _built(_LARGE, _TWO), cost=20),
    Signature("healthy, two levels, all rails at once", (), _built(_MIDDLE, _TWO), by_rail=False, cost=2),
    Signature(
        "healthy, two levels, 8-32 nodes, no topology", (), _built(_SMALL, _TWO), topology=False, least=None, cost=2
    ),
    Signature("healthy, two levels, 64-128 nodes, no topology", (), _built(_MIDDLE, _TWO), topology=False, cost=2),
    Signature("healthy, oversubscribed spine (60 %), 64-128 nodes", (), _built(_MIDDLE, _FULL), cost=2),
    Signature("healthy, oversubscribed spine, no topology", (), _built(_MIDDLE, _FULL), topology=False, cost=2),
    Signature("healthy, two pods (95 %, 80 %), 128 nodes", (), _PODS, cost=2),
    Signature("healthy, two pods, no topology", (), _PODS, topology=False, least=None, cost=2),
    Signature("healthy, two types of node (85 %), 64-128 nodes", (), _built(_MIDDLE, _OLD), cost=2),
    Signature("healthy, two types of node, no topology", (), _built(_MIDDLE, _OLD), topology=False, least=None, cost=2),
    Signature("healthy, 40 % of pairs on slower paths (90 %)", (), _built(_MIDDLE, _HASHED), cost=2),
    Signature(
        "healthy, 40 % of pairs on slower paths, no topology", (), _built(_MIDDLE, _HASHED), topology=False, cost=2
    ),
    Signature("healthy, two levels, two leaves", (), _RACKS, least=None, cost=2),
    Signature("healthy, two levels, two leaves, history", (), _RACKS, history=True, cost=2),
    Signature(
        "uplink, two levels, two leaves of a rail: the pair", ("uplink",), _TWO_LEAVES, least=0.95, pair=True, cost=2
    ),
    Signature("uplink, two levels, two leaves, history", ("uplink",), _RACKS, history=True, least=None, cost=2),
    Signature("NIC, two levels, 8-32 nodes", ("nic",), _built(_SMALL, _TWO), cost=2),
    Signature("NIC, two levels, 64-128 nodes", ("nic",), _built(_MIDDLE, _TWO), cost=2),
    Signature("NIC, two levels, losses multiply", ("nic",), _built(_MIDDLE, replace(_TWO, compound=True)), cost=2),
    Signature("NIC, two levels, no topology", ("nic",), _built(_MIDDLE, _TWO), topology=False, cost=2),
    Signature("NIC, two types of node", ("nic",), _built(_MIDDLE, _OLD), ratio=0.7, cost=2),
    Signature("node, two levels, 64-128 nodes", ("node",), _built(_MIDDLE, _TWO), cost=2),
    Signature("node, two levels, no topology", ("node",), _built(_MIDDLE, _TWO), topology=False, cost=2),
    Signature("node, slower paths, no topology", ("node",), _built(_MIDDLE, _HASHED), topology=False, cost=2),
    Signature("node, oversubscribed spine", ("node",), _built(_MIDDLE, _FULL), ratio=0.45, cost=2),
    Signature("leaf, two levels, 64-128 nodes", ("leaf",), _built(_MIDDLE, _TWO), least=0.95, cost=2),
    Signature("uplink, two levels, 64-128 nodes", ("uplink",), _built(_MIDDLE, _TWO), least=0.95, cost=2),
    Signature("uplink, oversubscribed spine", ("uplink",), _built(_MIDDLE, _FULL), ratio=0.45, least=0.95, cost=2),
    Signature("one spine of 4, two levels", ("spine",), _built(_MIDDLE, _TWO), ratio=0.7, least=0.95, cost=2),
    Signature("two NICs and a node, two levels", ("nic", "nic", "node"), _built(_LARGE, _TWO), cost=20),
    Signature(
        "NIC, leaf and uplink, two levels, 1 matching inside leaves",
        ("nic", "leaf", "uplink"),
        _built(_LARGE, _TWO),
        inside=1,
        least=0.95,
        cost=20,
    ),
)
"""Every signature of the table that can be seen in bandwidth. A wrong traffic class is seen in counters alone."""
