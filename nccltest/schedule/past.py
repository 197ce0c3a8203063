"""What earlier runs leave to the next: who met whom, who stayed out, what was spent. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from nccltest.model import Measurement
from nccltest.schedule.matchings import edge
from nccltest.series import CONFIRM

__all__ = ["DAY", "Past", "past_of"]

DAY = 86_400.0
"""The budget's day is the 24 hours before now: no two days can be spent around midnight."""


@dataclass(frozen=True)
class Past:
    """What is known when a plan is made."""

    met: Mapping[frozenset[str], int] = field(default_factory=dict)
    """Pair -> rounds in which it was measured, confirmations left out."""
    idle: Mapping[str, int] = field(default_factory=dict)
    """Node -> rounds of pairs in which it had no partner."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """Node -> seconds measured in the last 24 hours."""


def past_of(measurements: Iterable[Measurement], now: float) -> Past:
    """The past that these measurements tell. ``now`` in Unix seconds."""
    met: Counter[frozenset[str]] = Counter()
    spent: Counter[str] = Counter()
    paired: dict[tuple[str, int], set[str]] = {}
    seen: set[tuple[str, int, tuple[object, ...]]] = set()
    longest: dict[tuple[str, int, str], float] = {}
    for each in measurements:
        key = (each.schedule, each.round, each.members)
        if now - each.time < DAY:
            for node in each.nodes:
                # Rails side by side are one stretch of a node's time, not several.
                place = (each.schedule, each.round, node)
                longest[place] = max(longest.get(place, 0.0), each.seconds)
        if key in seen:
            continue  # another size of the same run
        seen.add(key)
        if each.kind == "pair" and each.purpose != CONFIRM:
            met.update(edge(*pair) for pair in combinations(each.nodes, 2))
            paired.setdefault((each.schedule, each.round), set()).update(each.nodes)
    for (_, _, node), seconds in longest.items():
        spent[node] += seconds  # type: ignore[assignment]  # Counter adds floats as well
    everyone = set().union(*paired.values()) if paired else set()
    idle = Counter(node for nodes in paired.values() for node in everyone - nodes)
    return Past(dict(met), dict(idle), dict(spent))
