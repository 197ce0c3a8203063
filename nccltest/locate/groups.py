"""Leaves guessed from the pairs themselves, where no topology is given. Pure.

Two patterns betray a group of NICs of one rail: every pair that *touches* the group is slow (their leaf), or every pair
that has *one* end in it (their uplink, an exclusive or). The first is read off the NICs whose every pair is slow; the
second is a two-colouring of the graph of pairs: a fast pair has both ends on one side, a slow one has not. A guess is
offered as a further hypothesis, at the price of all the groups that could have been drawn instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

import numpy as np

from nccltest.locate.evidence import Evidence, Flags, Floats, Ints
from nccltest.locate.hypotheses import Key
from nccltest.locate.names import fold
from nccltest.locate.pathguess import GENERATION, PRIOR, TWO_KINDS, Guess, choices, least

__all__ = ["guesses"]

_ORDERS = 8
"""Orders in which the pairs are tried: a wrong pair early in one of them spoils that colouring alone."""
_CONNECTED = 0.9
"""Share of a rail's NICs that the pairs must join; loose parts could be coloured either way."""
_WORTH = 10.0
"""What explaining one slow pair is worth at most, log: too few of them cannot pay for a group."""
_PRIOR = log(0.01)


def guesses(evidence: Evidence, deviation: Floats, smallest: Floats) -> list[Guess]:
    """Further hypotheses (key, log prior, what each touches), for one rail at a time and for all together."""
    slow = deviation < -smallest
    found: list[Guess] = []
    rails = _pairs_by_rail(evidence)
    for rail, pairs in rails.items():
        if slow[pairs].any():
            drawn = [*_touching(rail, pairs, evidence, slow), *_between(rail, pairs, evidence, slow)]
            found += drawn if rail and len(rails) > 1 else [*drawn, *_as_built(drawn)]
    return found


def _as_built(drawn: Sequence[Guess]) -> Iterator[Guess]:
    """The same groups as kinds of path: what shows on every rail may be no fault."""
    for number, (key, prior, touched) in enumerate(drawn):
        if number == 0 or not np.array_equal(touched, drawn[number - 1][2]):
            name = GENERATION if key.kind == "leaf" else TWO_KINDS
            yield Key("path", f"{name}##{number}"), prior - _PRIOR + PRIOR, touched


def _pairs_by_rail(evidence: Evidence) -> dict[str, Ints]:
    rails: dict[str, list[int]] = {}
    for index, members in enumerate(evidence.members):
        if len(members) == 2 and not evidence.inside[index] and members[0].rail == members[1].rail:
            rails.setdefault(members[0].rail or "", []).append(index)
    if len(rails) > 1:  # a switch of a rack serves all rails of its nodes
        rails[""] = sorted(index for pairs in rails.values() for index in pairs)
    return {rail: np.array(pairs, dtype=np.int64) for rail, pairs in rails.items()}


def _touching(rail: str, pairs: Ints, evidence: Evidence, slow: Flags) -> Iterator[Guess]:
    """The NICs that no fast pair clears, as the NICs of one leaf.

    A NIC that met nobody but these is slow either way: it is left out of the name.
    """
    met: dict[str, set[str]] = {}
    cleared: set[str] = set()
    for index in pairs.tolist():
        one, other = _nodes(evidence, index)
        met.setdefault(one, set()).add(other)
        met.setdefault(other, set()).add(one)
        if not slow[index]:
            cleared |= {one, other}
    group = set(met) - cleared
    certain = {node for node in group if len(met[node]) > 1 and met[node] & cleared}
    if len(certain) >= least(len(met)):
        touched = [index for index in pairs.tolist() if certain & set(_nodes(evidence, index))]
        yield _guess("leaf", rail, certain, choices(len(met), len(group)), touched)


def _between(rail: str, pairs: Ints, evidence: Evidence, slow: Flags) -> Iterator[Guess]:
    """The two-colouring that contradicts the fewest pairs, if it joins the rail."""
    names = sorted({node for index in pairs.tolist() for node in _nodes(evidence, index)})
    cost = log(2.0) * len(names)
    if _WORTH * slow[pairs].sum() < cost:
        return
    number = {name: position for position, name in enumerate(names)}
    edges = np.array([[number[node] for node in _nodes(evidence, index)] for index in pairs.tolist()])
    side, joined = _coloured(len(names), edges, slow[pairs])
    crossing = side[edges[:, 0]] != side[edges[:, 1]]
    ones = int(side.sum())
    if joined < _CONNECTED * len(names) or min(ones, len(names) - ones) < max(
        2, min(least(len(names)), len(names) // 4)
    ):
        return
    inner, outer = sorted(
        ({name for name in names if side[number[name]] == value} for value in (0, 1)), key=lambda each: len(each)
    )
    touched = pairs[crossing].tolist()
    yield _guess("uplink", rail, inner, cost, touched)
    if len(inner) > 0.4 * len(names):  # halves: which side's uplink it is cannot be known
        yield _guess("uplink", rail, outer, cost, touched)


def _guess(kind: str, rail: str, group: set[str], cost: float, touched: Sequence[int]) -> Guess:
    name = f"{fold(group)}/{rail}" if rail else fold(group)
    key = Key("leaf" if kind == "leaf" else "uplink", name)
    return key, _PRIOR - cost, np.array(touched, dtype=np.int64)


def _nodes(evidence: Evidence, index: int) -> tuple[str, str]:
    one, other = evidence.members[index]
    return one.node, other.node


def _coloured(count: int, edges: Ints, slow: Flags) -> tuple[Ints, int]:
    """Sides (0, 1) of all NICs, and the size of the largest joined part.

    The seed is fixed: the same evidence gives the same answer.
    """
    order_of = np.random.default_rng(0)
    walks = (_walked(count, edges, slow, order_of.permutation(len(edges))) for _ in range(_ORDERS))
    return min(walks, key=lambda walk: int(((walk[0][edges[:, 0]] != walk[0][edges[:, 1]]) != slow).sum()))


def _walked(count: int, edges: Ints, slow: Flags, order: Ints) -> tuple[Ints, int]:
    """Every pair that joins two parts decides how they lie to each other; the smaller part is turned to the larger."""
    side = [0] * count
    part = list(range(count))
    members = [[node] for node in range(count)]
    for index in order.tolist():
        one, other = int(edges[index, 0]), int(edges[index, 1])
        small, large = sorted((part[one], part[other]), key=lambda each: len(members[each]))
        if small == large:
            continue
        turn = side[one] ^ side[other] ^ int(slow[index])
        for node in members[small]:
            side[node] ^= turn
            part[node] = large
        members[large] += members[small]
        members[small] = []
    return np.array(side, dtype=np.int64), max(len(each) for each in members)
