"""Pairs of nodes: random ones that do not repeat from day to day, pairs under one leaf, pairs across leaves. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

__all__ = ["Pair", "across", "edge", "random_matching", "within"]

Pair = tuple[str, str]

_CANDIDATES = 32


def edge(one: str, other: str) -> frozenset[str]:
    """A pair without its order."""
    return frozenset((one, other))


def random_matching(
    nodes: Sequence[str], rng: Random, met: Mapping[frozenset[str], int], idle: Mapping[str, int]
) -> tuple[Pair, ...]:
    """Every node in one pair; of an odd number the one stays out that did so least often.

    The nodes are seated by a fixed shuffle, and the rounds of a round-robin tournament (circle method) over those seats
    never repeat a pair: taken is a round whose pairs met least often before. N nodes so meet in N−1 rounds.
    """
    playing = list(nodes)
    if len(playing) % 2:
        playing.remove(min(playing, key=lambda node: (idle.get(node, 0), rng.random())))
    if len(playing) < 2:
        return ()
    seats = sorted(playing)
    Random(",".join(seats)).shuffle(seats)  # noqa: S311  # a seating, no secret; the same one every day
    rounds = list(range(len(seats) - 1))
    rng.shuffle(rounds)
    best: tuple[int, tuple[Pair, ...]] | None = None
    for number in _least_played(rounds, seats, met):
        pairs = _circle(seats, number)
        repeats = sum(met.get(edge(*pair), 0) for pair in pairs)
        if best is None or repeats < best[0]:
            best = (repeats, pairs)
        if repeats == 0:
            break
    return best[1] if best else ()


def _least_played(rounds: Sequence[int], seats: Sequence[str], met: Mapping[frozenset[str], int]) -> list[int]:
    """The rounds worth a closer look: those in which the first seat meets whom it met least."""
    first = seats[0]
    order = sorted(rounds, key=lambda number: met.get(edge(first, _opponent(seats, number)), 0))
    return order[:_CANDIDATES]


def _opponent(seats: Sequence[str], number: int) -> str:
    return seats[1 + (number - 1) % (len(seats) - 1)]


def _circle(seats: Sequence[str], number: int) -> tuple[Pair, ...]:
    """Round ``number`` of the tournament: seat 0 stays, the others have moved ``number`` places round the table."""
    others = len(seats) - 1
    moved = [seats[0], *(seats[1 + (place + number) % others] for place in range(others))]
    return tuple((moved[place], moved[-1 - place]) for place in range(len(moved) // 2))


def within(
    nodes: Iterable[str], leaf: Callable[[str], str], rng: Random, met: Mapping[frozenset[str], int]
) -> tuple[Pair, ...]:
    """Pairs whose nodes share a leaf; of a leaf with an odd number one stays out."""
    by_leaf = defaultdict(list)
    for node in nodes:
        by_leaf[leaf(node)].append(node)
    return tuple(pair for name in sorted(by_leaf) for pair in random_matching(by_leaf[name], rng, met, {}))


def across(
    nodes: Iterable[str], leaf: Callable[[str], str], rng: Random, met: Mapping[frozenset[str], int]
) -> tuple[Pair, ...]:
    """As many pairs as there can be whose nodes are on different leaves: always from the two fullest leaves."""
    by_leaf: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        by_leaf[leaf(node)].append(node)
    for members in by_leaf.values():
        rng.shuffle(members)
    pairs: list[Pair] = []
    while True:
        fullest = sorted(by_leaf, key=lambda name: (-len(by_leaf[name]), name))[:2]
        if len(fullest) < 2 or not by_leaf[fullest[1]]:
            return tuple(pairs)
        one = by_leaf[fullest[0]].pop()
        others = by_leaf[fullest[1]]
        other = min(others, key=lambda node: met.get(edge(one, node), 0))
        others.remove(other)
        pairs.append((one, other))
