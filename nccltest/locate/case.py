"""One run's evidence with what is normal in it and what could be at fault: what the model is made of. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nccltest.locate.evidence import Evidence, Flags
from nccltest.locate.fit import Model
from nccltest.locate.floors import floors
from nccltest.locate.groups import guesses
from nccltest.locate.hypotheses import BETWEEN_LEAVES, Hypotheses, healthy_mask
from nccltest.locate.levels import SMALLEST, Levels, levels
from nccltest.locate.offer import Fault
from nccltest.locate.pathguess import Guess, inferred

__all__ = ["Case"]

_SAME_LEVEL = 0.04
"""Levels nearer to each other than this are one, log."""


class Case:
    """The evidence, what is normal in it, what could be at fault, and the model of all three."""

    def __init__(
        self,
        evidence: Evidence,
        level: Levels,
        told: Hypotheses,
        *,
        topology: bool,
        healthy: Flags | None = None,
        before: Sequence[Guess] = (),
    ) -> None:
        """``told``: what the topology tells of. ``healthy``: measurements that no assumed fault slows. ``before``: what
        was guessed when less was known; the levels may have moved since."""
        unknown = np.isnan(level.deviation)
        deviation, weight = np.where(unknown, 0.0, level.deviation), np.where(unknown, 0.0, evidence.weight)
        guessed = [*before, *inferred(evidence, deviation, told=topology)]
        if not topology:
            guessed += guesses(evidence, level.deviation, level.smallest)
        guessed = _distinct(guessed)
        self.evidence = evidence
        self.level = level
        self.hypotheses = told.extended(guessed)
        self.known = int((~unknown).sum())
        self._told = told
        self._guessed = guessed
        self._topology = topology
        healthy = ~unknown if healthy is None else healthy & ~unknown
        floor, noise = floors(evidence, deviation, self.hypotheses, healthy)
        noise = np.clip(noise, level.noise, 2 * level.noise)
        smallest = np.where(noise > level.noise, np.maximum(level.smallest, 4 * noise), level.smallest)
        self.model = Model(deviation, weight, smallest, noise, self.hypotheses, floor)

    def is_small(self, fault: Fault) -> bool:
        """Whether it is a class of paths that nobody would call slow."""
        return self.model.is_path(fault) and -fault.ceiling < SMALLEST

    def is_path_like(self, fault: Fault, others: Sequence[Fault]) -> bool:
        """Whether it is a node no slower than kinds of path that were guessed: all of its paths may be of that kind."""
        same = [each for each in others if self.model.is_guessed(each) and each.ceiling < fault.ceiling + _SAME_LEVEL]
        if self.hypotheses.keys[fault.candidate].kind != "node" or not same:
            return False
        shape = self.evidence.shape
        known = np.unique(np.concatenate([shape[self.hypotheses.touches(each.candidate)] for each in same]))
        touched = self.hypotheses.touches(fault.candidate)
        slow = touched[self.level.deviation[touched] < -self.level.smallest[touched]]
        return bool(np.isin(shape[slow], known).all())

    def all_cross(self, measurements: Sequence[int]) -> bool:
        """Whether all of these cross leaves."""
        crossing = [self.hypotheses.touches(i) for i, key in enumerate(self.hypotheses.keys) if key == BETWEEN_LEAVES]
        return bool(crossing) and bool(np.isin(measurements, crossing[0]).all())

    def without(self, faults: Sequence[Fault], noise: float) -> Case:
        """The same once more: the level of the fastest paths, and those of the others, without what is blamed."""
        count = len(self.evidence)
        fastest = healthy_mask(count, self.hypotheses, (each.candidate for each in faults))
        level = levels(self.evidence, self.level, fastest, noise)
        broken = (each.candidate for each in faults if each.share == 1 and not self.model.is_path(each))
        healthy = healthy_mask(count, self.hypotheses, broken)
        return Case(self.evidence, level, self._told, topology=self._topology, healthy=healthy, before=self._guessed)


def _distinct(guessed: Sequence[Guess]) -> list[Guess]:
    """Each class of paths once, at its best price: it must not count twice where it is weighed against a fault."""
    best: dict[object, Guess] = {}
    for each in guessed:
        key, prior, touched = each
        name = touched.tobytes() if key.kind == "path" else key
        if name not in best or best[name][1] < prior:
            best[name] = each
    return list(best.values())
