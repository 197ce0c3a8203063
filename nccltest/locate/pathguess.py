"""Kinds of path guessed from the pairs themselves: slower than others, and healthy. Pure.

Two patterns betray that groups run at several levels because of what joins them and not because something broke:

- *Slow pairs of nodes that are fast with others.* A slow node or NIC has no fast pair; where many pairs of cleared
  nodes are slow, at one level and on every rail, the paths between them are of another kind.
- *Many nodes that are slow with everybody, all at one level.* So are nodes of another generation, and so are the nodes
  of a slow leaf that serves all their rails: no pair can tell these apart.

A guess is offered as a further hypothesis, at the price of all the sets of pairs that could have been drawn instead,
and weighed against the faults that would explain the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import lgamma, log
from statistics import median

import numpy as np

from nccltest.locate.evidence import DEAD, Evidence, Flags, Floats, Ints
from nccltest.locate.hypotheses import Key

__all__ = ["GENERATION", "PRIOR", "TWO_KINDS", "Guess", "choices", "inferred", "least"]

TWO_KINDS = "between nodes that are fast with others"
GENERATION = "with some nodes, whoever the other is"
_SMALLEST, _LEAST_LEAF = 4, 16
"""NICs that make a leaf: an eighth of the rail's, between these two. Fewer that are slow together are faults of their
own: without a topology three bad cables must not become a switch."""
_BAND = 0.06
"""Half width of one level, log, as in ``levels``."""
_DEEPEST = -1.0
"""No healthy path is slower than this (37 % of the fastest), log."""
_FEWEST = 3
"""Slow pairs of cleared nodes that make a pattern; fewer are strays."""
PRIOR, _PRIOR_TOLD = log(0.1), log(0.02)
"""That there is a second kind of path, of no leaf that a topology tells of; less where one is given."""

Guess = tuple[Key, float, Ints]


def inferred(evidence: Evidence, deviation: Floats, *, told: bool) -> list[Guess]:
    """Further hypotheses (key, log prior, what each touches). ``told``: the topology is given, and tells leaves."""
    pairs = np.array([len(each) == 2 for each in evidence.nodes], dtype=bool)
    pairs &= np.isnan(evidence.expected) & (deviation > DEAD)
    prior = _PRIOR_TOLD if told else PRIOR
    shapes = [pairs & (evidence.shape == shape) for shape in np.unique(evidence.shape[pairs]).tolist()]
    offered: dict[bytes, Guess] = {}
    for of_shape in [pairs, *shapes] if len(shapes) > 1 else shapes:
        index = np.flatnonzero(of_shape)
        if (deviation[index] < -_BAND).sum() >= _FEWEST:
            for name, cost, touched in _of_shape(_Pairs.of(evidence, deviation, index)):
                key = Key("path", f"{name}#{len(offered)}")
                offered.setdefault(touched.tobytes(), (key, prior - cost, touched))
    return list(offered.values())


def _of_shape(pairs: _Pairs) -> Iterator[tuple[str, float, Ints]]:
    slow = pairs.level[(pairs.level < -_BAND) & (pairs.level > _DEEPEST)]
    for quantile in (0.5, 0.85) if len(slow) else ():
        level = float(np.quantile(slow, quantile, method="higher"))
        for name, cost, chosen in _described(pairs, level):
            yield name, cost, pairs.index[chosen[pairs.number]]


@dataclass(frozen=True)
class _Pairs:
    """The pairs of nodes of one shape, or of all: n of them, m measurements."""

    index: Ints
    """m: which measurement."""
    number: Ints
    """m: of which pair."""
    ends: Ints
    """n x 2: nodes by number."""
    level: Floats
    """n: deviation of its best rail and shape, log. What is built so is so on every rail."""

    @classmethod
    def of(cls, evidence: Evidence, deviation: Floats, index: Ints) -> _Pairs:
        """Out of the measurements at ``index``."""
        nodes: dict[str, int] = {}
        numbers: dict[tuple[int, int], int] = {}
        rails: dict[tuple[int, str | None, int], list[float]] = {}
        number = np.empty(len(index), dtype=np.int64)
        for place, (which, value) in enumerate(zip(index.tolist(), deviation[index].tolist(), strict=True)):
            one, other = sorted(nodes.setdefault(node, len(nodes)) for node in evidence.nodes[which])
            pair = numbers.setdefault((one, other), len(numbers))
            number[place] = pair
            rail = evidence.members[which][0].rail
            rails.setdefault((pair, rail, int(evidence.shape[which])), []).append(value)
        level = np.full(len(numbers), -np.inf)
        for (pair, *_), values in rails.items():
            level[pair] = max(level[pair], median(values))
        return cls(index, number, np.array(list(numbers), dtype=np.int64), level)

    @cached_property
    def nodes(self) -> int:
        """How many nodes met somebody."""
        return int(self.ends.max()) + 1


def _described(pairs: _Pairs, level: float) -> Iterator[tuple[str, float, Flags]]:
    """All pairs at about ``level``, with the shortest description that they have; nothing where they have none."""
    fast = pairs.level >= level / 2
    chosen = ~fast & (pairs.level > level - _BAND)
    cleared = np.bincount(pairs.ends[fast].ravel(), minlength=pairs.nodes) > 0
    between = cleared[pairs.ends].all(axis=1)
    costs: list[float] = []
    if _telling(pairs.ends[chosen & between]) or _spread(pairs.ends[chosen]):
        cost, crossing = _parted(pairs, fast, chosen)
        costs = [choices(len(chosen), int(chosen.sum())), cost]
        if (crossing != chosen).any() and cost < costs[0]:
            yield TWO_KINDS, cost, crossing
    strangers = int(_strangers(pairs, cleared).sum())
    if strangers >= max(_FEWEST, min(_LEAST_LEAF, pairs.nodes / 4)):
        drawn = choices(pairs.nodes, int((~cleared).sum()))
        rest = int((chosen & between).sum())
        name = TWO_KINDS if rest > 0.1 * chosen.sum() else GENERATION
        yield name, min([drawn + choices(int(between.sum()), rest), *costs]), chosen
    elif costs:
        yield TWO_KINDS, min(costs), chosen


def _telling(ends: Ints) -> bool:
    """Whether these slow pairs of cleared nodes are a pattern, and not one node that is slow now and then."""
    return len(ends) >= _FEWEST and Counter(ends.ravel().tolist()).most_common(1)[0][1] <= 0.6 * len(ends)


def _spread(ends: Ints) -> bool:
    """Whether no few nodes have part in all of these slow pairs, so that it would take as many faults of one depth."""
    for _ in range(_FEWEST - 1):
        if not len(ends):
            return False
        worst = Counter(ends.ravel().tolist()).most_common(1)[0][0]
        ends = ends[(ends != worst).all(axis=1)]
    return len(ends) > 0


def _strangers(pairs: _Pairs, cleared: Flags) -> Flags:
    """The nodes that were fast with nobody, and not for want of a partner that is fast with others."""
    met = np.bincount(pairs.ends.ravel(), minlength=pairs.nodes)
    met_cleared = np.zeros(pairs.nodes, dtype=bool)
    for one, other in ((0, 1), (1, 0)):
        met_cleared[pairs.ends[cleared[pairs.ends[:, other]], one]] = True
    return np.asarray(~cleared & (met > 1) & met_cleared)


def _parted(pairs: _Pairs, fast: Flags, chosen: Flags) -> tuple[float, Flags]:
    """Nodes in parts, fast pairs inside them: log of the number of ways to part them so, and the pairs between parts.

    Infinite where slow pairs are inside a part as well.
    """
    part = list(range(pairs.nodes))

    def root(node: int) -> int:
        while part[node] != node:
            part[node] = node = part[part[node]]
        return node

    for one, other in pairs.ends[fast].tolist():
        part[root(one)] = root(other)
    of = np.array([root(node) for node in range(pairs.nodes)])
    crossing = of[pairs.ends[:, 0]] != of[pairs.ends[:, 1]]
    if (chosen & ~crossing).any():
        return float("inf"), crossing
    parts = of[np.unique(pairs.ends[fast | chosen])]
    return len(parts) * log(max(2, len(np.unique(parts)))), crossing


def least(nics: int) -> int:
    """How many NICs of a rail, or nodes, can be a leaf."""
    return min(_LEAST_LEAF, max(_SMALLEST, nics // 8))


def choices(count: int, chosen: int) -> float:
    """log of the number of sets of ``chosen`` out of ``count``."""
    return lgamma(count + 1) - lgamma(chosen + 1) - lgamma(count - chosen + 1)
