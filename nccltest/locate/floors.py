"""The healthy level of each class of paths: what its groups reach when nothing is broken. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from nccltest.locate.evidence import DEAD, Evidence, Flags, Floats, Ints
from nccltest.locate.hypotheses import OF_TYPE, Hypotheses
from nccltest.locate.levels import upper_mode

__all__ = ["floors"]

_FEWEST = 2
"""Groups of one kind from which a class tells its level."""
_ENOUGH = 4
"""Healthy measurements without which all of them must tell it."""
_ONE_NODE = 0.75
"""Share of them that one node may have part in: beyond, the level is the node's and not the class's."""
_NOTHING = 0.02
"""Levels nearer to normal than this are no levels, log."""


def floors(evidence: Evidence, deviation: Floats, hypotheses: Hypotheses, healthy: Flags) -> tuple[Floats, Floats]:
    """For every entry of ``hypotheses``: the class's level, log, at most 0; NaN for the entries of faults.

    And for every measurement the noise of the noisiest class that it is of, 0 where it is of none that tells: groups
    that share uplinks disturb each other.

    Told by the ``healthy`` measurements of each kind; a kind with too few of them takes the middle of the class's other
    kinds. Measurements that their own past judges have no level.
    """
    made, noise = np.full(len(hypotheses.owner), np.nan), np.zeros(len(evidence))
    usable = np.isnan(evidence.expected) & (deviation > DEAD)
    for candidate, key in enumerate(hypotheses.keys):
        if key.kind != "path":
            continue
        touched = hypotheses.touches(candidate)
        telling = touched[(usable & healthy)[touched]]
        telling = telling if len(telling) >= _ENOUGH else touched[usable[touched]]
        by_kind = dict(_levels(evidence, deviation, telling, typed=key.id.startswith(OF_TYPE)))
        middle = float(np.median([level for level, _ in by_kind.values()])) if by_kind else 0.0
        found = [by_kind.get(kind, (middle, 0.0)) for kind in evidence.kind[touched].tolist()]
        level = np.array([each[0] for each in found])
        noise[touched] = np.maximum(noise[touched], [each[1] for each in found])
        level[~np.isnan(evidence.expected[touched])] = 0.0
        made[hypotheses.start[candidate] : hypotheses.start[candidate + 1]] = np.where(level > -_NOTHING, 0.0, level)
    return made, noise


def _levels(
    evidence: Evidence, deviation: Floats, touched: Ints, *, typed: bool
) -> Iterator[tuple[int, tuple[float, float]]]:
    kinds = evidence.kind[touched]
    for kind in np.unique(kinds).tolist():
        mine = touched[kinds == kind]
        groups = {frozenset(evidence.nodes[index]) for index in mine.tolist()}
        if typed or (len(groups) >= _FEWEST and _shared(groups)):
            level, spread = upper_mode(deviation[mine])
            yield kind, (min(0.0, level), spread)


def _shared(groups: set[frozenset[str]]) -> bool:
    """Whether no single node has part in nearly all groups."""
    part = Counter(node for group in groups for node in group)
    return part.most_common(1)[0][1] <= _ONE_NODE * len(groups)
