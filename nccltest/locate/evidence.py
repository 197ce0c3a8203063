"""Measurements as arrays: what each group reached, and what kind of test it was. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nccltest.locate.cabling import Cabling
from nccltest.model import Measurement, Member

__all__ = ["DEAD", "Evidence", "gather"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

DEAD = -3.0
"""log(ratio) that stands for "no bandwidth at all", and the slowest that is told apart (5 %)."""
_NO_EVIDENCE = ("interrupted", "not-collective")


@dataclass(frozen=True)
class Evidence:
    """n measurements. A failed one has the bandwidth NaN."""

    members: tuple[tuple[Member, ...], ...]
    nodes: tuple[tuple[str, ...], ...]
    """The members' nodes, each once."""
    inside: Flags
    """All members are on one node: the network was not used."""
    log_bandwidth: Floats
    """log of busbw, over the line rate of the slowest member's NIC where the cabling tells it."""
    expected: Floats
    """log of the bandwidth that this very group used to have, on the same scale; NaN where unknown."""
    weight: Floats
    """Repeats of one group share their fate, and so do sizes measured one after the other: together they count 1."""
    kind: Ints
    """Only measurements of one kind (test, size, number of members, nodes and ranks, one rail or all) compare."""
    shape: Ints
    """Kinds that differ in size alone have one shape: they take the same paths."""
    size: Ints
    source: tuple[Measurement, ...]

    def __len__(self) -> int:
        return len(self.members)


def gather(
    measurements: Sequence[Measurement], cabling: Cabling, expected: Sequence[float | None] | None = None
) -> Evidence:
    """The arrays. ``expected``: for each measurement its group's own earlier bandwidth, GB/s, None where unknown."""
    wanted = list(expected) if expected is not None else [None] * len(measurements)
    used = [(one, want) for one, want in zip(measurements, wanted, strict=True) if _counts(one)]
    source = tuple(one for one, _ in used)
    nodes = tuple(one.nodes for one in source)
    scale = np.array([_line_rate(one, cabling) for one in source], dtype=float)
    bandwidth = np.array([one.busbw if one.status == "ok" and one.busbw else np.nan for one in source], dtype=float)
    known = np.array([want or np.nan for _, want in used], dtype=float)
    shapes = [_shape(one, len(each), want) for (one, want), each in zip(used, nodes, strict=True)]
    return Evidence(
        members=tuple(one.members for one in source),
        nodes=nodes,
        inside=np.array([len(each) == 1 for each in nodes], dtype=bool),
        log_bandwidth=np.log(bandwidth / scale),
        expected=np.log(known / scale),
        weight=_weights(source),
        kind=_numbered((key, one.size) for key, one in zip(shapes, source, strict=True)),
        shape=_numbered(shapes),
        size=np.array([one.size for one in source], dtype=np.int64),
        source=source,
    )


def _counts(one: Measurement) -> bool:
    """One rank alone prints 0: that is no collective, and no failure."""
    return one.status not in _NO_EVIDENCE and not (one.status == "ok" and not one.busbw and len(one.members) == 1)


def _line_rate(one: Measurement, cabling: Cabling) -> float:
    rates = [cabling.line_rate[node] for node in one.nodes if node in cabling.line_rate]
    return min(rates, default=1.0)


def _weights(source: Sequence[Measurement]) -> Floats:
    keys = [(one.test, one.members, one.ranks, one.schedule, one.round) for one in source]
    sizes = Counter(key for key, _ in {(key, one.size) for key, one in zip(keys, source, strict=True)})
    words = (2.0 if one.unreachable else min(one.weight, 1.0) for one in source)  # who was lost is told, not inferred
    return np.array([word / sizes[key] for key, word in zip(keys, words, strict=True)], dtype=float)


def _shape(one: Measurement, nodes: int, want: float | None) -> Hashable:
    """What two measurements must share to be compared, but for the size."""
    return one.test, len(one.members), nodes, one.ranks, one.members[0].rail is None, not want


def _numbered(keys: Iterable[Hashable]) -> Ints:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
