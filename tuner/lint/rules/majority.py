"""Who differs from the others. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Odd", "odd"]

Who = TypeVar("Who")


class Odd(NamedTuple, Generic[Who]):
    """Somebody whose value is not the usual one."""

    who: Who
    own: Hashable
    usual: Hashable
    """None where no value is the most frequent one: then everybody is odd."""
    agree: int
    """How many have the usual value."""


def odd(values: Sequence[tuple[Who, Hashable]]) -> Iterator[Odd[Who]]:
    """Those that differ from most, in the order given; of equal camps, everybody. None is unknown: it never differs."""
    known = Counter(value for _, value in values if value is not None)
    first = known.most_common(2)
    if len(first) < 2:
        return
    tie = first[0][1] == first[1][1]
    usual, agree = (None, 0) if tie else first[0]
    for who, value in values:
        if value is not None and value != usual:
            yield Odd(who, value, usual, agree)
