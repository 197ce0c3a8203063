"""Slower paths that are no fault, or may be none: in sentences that say what to do. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from nccltest.locate.evidence import DEAD, Evidence, Ints
from nccltest.locate.hypotheses import BETWEEN_LEAVES, BETWEEN_PODS, OF_TYPE, Key, told
from nccltest.locate.levels import Levels
from nccltest.locate.names import fold
from nccltest.locate.pathguess import GENERATION

__all__ = ["AS_BUILT", "Path", "path_doubt", "path_note"]

AS_BUILT = "as-built"
"""Id of the suspect (kind ``global``) that says: nothing is at fault, the fabric is built so."""
_ENOUGH = 4
"""Groups of a node after which it is strange that none took a fast path."""
_MOST_TESTS = 3
_PAST = "`roceway-probe judge` compares with the past"


@dataclass(frozen=True)
class Path:
    """One class of slower paths."""

    key: Key
    tests: tuple[str, ...]
    """``all_reduce``; with the number of ranks where it was told."""
    slow: int
    """Measurements of the class that are slow."""
    total: int
    """Measurements of the same tests."""
    ratio: float
    """What the class reaches, of the fastest paths."""
    never_fast: tuple[str, ...]
    """Nodes with some groups, none of which was fast."""

    @classmethod
    def of(cls, key: Key, evidence: Evidence, level: Levels, touched: Ints) -> Path:
        """The class ``key`` that touches these measurements."""
        lower = touched[(level.deviation[touched] < -level.smallest[touched] / 2) & (level.deviation[touched] > DEAD)]
        same = np.flatnonzero(np.isin(evidence.shape, np.unique(evidence.shape[lower])))
        middle = float(np.exp(np.median(level.deviation[lower]))) if len(lower) else 1.0
        slow = set(lower.tolist())
        met = Counter(node for index in same.tolist() for node in evidence.nodes[index])
        fast = {node for index in same.tolist() if index not in slow for node in evidence.nodes[index]}
        never = sorted(node for node, count in met.items() if node not in fast and count >= _ENOUGH)
        return cls(key, _tests(evidence, lower), len(lower), len(same), middle, tuple(never))

    @property
    def of_nodes(self) -> bool:
        """Whether it goes with nodes and not with what joins them."""
        return self.key.id.startswith((OF_TYPE, GENERATION))

    @property
    def told(self) -> bool:
        """Whether the topology tells it."""
        return told(self.key)


def _tests(evidence: Evidence, lower: Ints) -> tuple[str, ...]:
    chosen = (evidence.source[index] for index in lower.tolist())
    return tuple(sorted({f"{one.test}, {one.ranks} ranks" if one.ranks else one.test for one in chosen}))


def path_note(path: Path) -> str:
    """For a verdict that takes them for healthy: what was seen, why it is no fault, what would change that."""
    if path.of_nodes and not path.told:
        return f"{_seen(path)}, all with {fold(path.never_fast)}. {_why(path)}. Nobody is blamed: {_PAST}"
    return f"{_seen(path)}. {_why(path)}: no fault, unless it used to be better ({_PAST}).{_strangers(path)}"


def path_doubt(path: Path) -> str:
    """For an ambiguity set: the possibility that nothing is at fault, and what decides."""
    return f"{_seen(path)}. {_why(path)}; {_alike(path)} looks the same. Replace nothing yet: {_decides(path)}"


def _seen(path: Path) -> str:
    tests = "; ".join(path.tests[:_MOST_TESTS]) + (" and more" if len(path.tests) > _MOST_TESTS else "")
    where = f", those {path.key.id}" if path.told else ""
    return f"{path.slow} of {path.total} results ({tests}) run at {path.ratio:.0%} of the fastest{where}"


def _why(path: Path) -> str:
    if path.key == BETWEEN_LEAVES:
        return "Paths between leaves are longer or share uplinks"
    if path.key == BETWEEN_PODS:
        return "Paths between pods take one tier more or share uplinks"
    if path.key.id.startswith(OF_TYPE):
        return "That type of node may do no more"
    if path.of_nodes:
        return "Several nodes equally slow with everybody are another generation, another place, or have the same fault"
    return "Their nodes are fast with other partners: paths are of two kinds, as inside a leaf and between leaves"


def _alike(path: Path) -> str:
    if path.of_nodes:
        return "one slow node" if path.told else "a slow leaf that serves all their rails"
    return "a slow uplink"


def _strangers(path: Path) -> str:
    if path.told or not path.never_fast:
        return ""
    names = fold(path.never_fast)
    word = "was" if len(path.never_fast) == 1 else "were"
    return f" {names} {word} fast with nobody: alone under a leaf, or slow itself; test it against one of its own leaf"


def _decides(path: Path) -> str:
    """What would tell the fabric's own from a fault."""
    asked = "a past run of the same pairs decides (`roceway-probe judge`)"
    if path.key == BETWEEN_LEAVES:
        return f"{asked}; without one, compare both leaves' uplinks (speed, members of the bundle, error counters)"
    if path.of_nodes:
        return f"{asked}; without one, ask whether these nodes are of another type or under one leaf (-f fabric.yaml)"
    return f"{asked}; -f fabric.yaml tells which pairs share a leaf"
