"""Choosing the faults: greedy forward selection with refitting, removal and exchange. Pure.

The model of one measurement's deviation y: a healthy one is normal around 0 with the noise s, with wider tails and a
little of everything else (an outlier explains itself). A fault puts a ceiling mu < 0 on what it touches. A *steady*
fault always does; an *intermittent* one does for a share q of what it touches (one slow cable of a bundle, one spine of
four, a link that flaps). A fault is believed when it makes the evidence so much likelier that its prior and the freedom
of choosing mu and q are paid for. A class of paths is a candidate like any other, always steady, whose level is known
but for a little: taking it costs less than taking faults, and what is slower than it needs a fault all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log

import numpy as np

from nccltest.locate.density import SPREAD, STRAY_DEPTH, log_density, mixed, segment_quantile, width
from nccltest.locate.evidence import Flags, Floats, Ints
from nccltest.locate.hypotheses import Hypotheses, Kind, told
from nccltest.locate.offer import Fault, Offer

__all__ = ["BELIEF", "Model"]

BELIEF = 2.0
"""log of the odds (7 to 1) at which a fault is believed, wherever it is."""
_MOST = 64
"""Faults that are looked for; whoever has more needs no localising."""
_PASSES = 5
_FEWEST_STRAYS, _STRAYS, _MOST_STRAYS = 3, 0.05, 0.5
"""Slow results, by number and share, from which they may be a trait of the run; and their share at most."""
_WITNESSES = 4
"""Tests, all of them slow, that need no other explanation."""
_NOISY_COST = log(0.05)
"""Odds that a run was measured on busy hosts, and of their share."""
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.1)
_SHARE_COST: dict[Kind, float] = {"uplink": log(0.3 / 4), "spine": log(1 / 4)}
_RARE_SHARE_COST = log(0.05 / 4)
_USUAL_LOSS, _LOSS_DECAY = 0.35, 0.15
"""Healthy classes of paths are up to 30 % slower than the fastest (log 0.35); much more is ever less likely."""
_STEADY_SPINE_COST = log(0.2)
_RANGE = 1.2
"""Faults leave anything from 30 % up, most of them; dead ones lie outside and pay the same."""
_LEEWAY = 0.02
"""How far the level of a class of paths may lie from what its groups tell, log."""


class Model:
    """The evidence with all candidates; ``select`` finds the faults."""

    def __init__(
        self,
        deviation: Floats,
        weight: Floats,
        smallest: Floats,
        noise: Floats,
        hypotheses: Hypotheses,
        floor: Floats | None = None,
    ) -> None:
        """``floor``: for each entry of a class of paths its healthy level, log, 0 for none; NaN for those of faults."""
        self._y = deviation
        self._weight = weight
        self._smallest = smallest
        self._noise = noise
        self.strays = 0.0
        """Share of results that are slow without a pattern, where it is so large that faults must be told from them."""
        self._usual = float(noise.min()) if len(noise) else 0.0
        self._all = hypotheses
        floor = np.full(len(hypotheses.owner), np.nan) if floor is None else floor
        self._middle = _middles(floor, hypotheses)
        shape = np.where(floor < 0, floor - self._middle[hypotheses.owner], np.inf)
        self._shape = np.where(np.isnan(floor), 0.0, shape)
        """How far each entry's level lies above its class's middle one: levels differ by kind, but move together."""
        self._prior = np.array(hypotheses.prior)
        self._path = np.array([key.kind == "path" for key in hypotheses.keys], dtype=bool)
        self._guessed = np.array([key.kind == "path" and not told(key) for key in hypotheses.keys], dtype=bool)
        self._share_cost = np.array([_share_cost(key.kind) for key in hypotheses.keys])
        self._steady_cost = np.array([_steady_cost(key.kind, key.id) for key in hypotheses.keys])

    def select(self) -> list[Fault]:
        """The faults that the evidence asks for.

        Busy hosts and other traffic make results slow without a pattern, and a few of those share a node by chance:
        that a share of all results is slow for no reason of the fabric's is weighed against faults, as one of them.
        """
        best = self._selected()
        most, chosen = self._total(best), 0.0
        for strays in self._stray_shares(best):
            self.strays = strays
            faults = self._selected()
            total = self._total(faults) + _NOISY_COST
            if total > most:
                best, most, chosen = faults, total, strays
        self.strays = chosen
        return best

    def _stray_shares(self, faults: Sequence[Fault]) -> list[float]:
        """Shares worth a try: of what is slow, where steady faults with several witnesses do not explain it all."""
        slow = (self._y < -self._smallest) & (self._y > -STRAY_DEPTH) & (self._weight > 0)
        share = float(slow.sum()) / max(int((self._weight > 0).sum()), 1)
        solid = [each for each in faults if each.share == 1 and len(self._all.touches(each.candidate)) >= _WITNESSES]
        explained = len(solid) == len(faults) and not self._loose(slow, solid)
        if slow.sum() < _FEWEST_STRAYS or share < _STRAYS or explained:
            return []
        return [share / 3, min(share, _MOST_STRAYS)]

    def _loose(self, slow: Flags, solid: Sequence[Fault]) -> bool:
        """Whether several slow results are none of these faults'."""
        left = slow.copy()
        for each in solid:
            left[self._all.touches(each.candidate)] = False
        return int(left.sum()) >= _FEWEST_STRAYS

    def _selected(self) -> list[Fault]:
        """The faults for the present share of strays.

        Twice: steady faults first and then any kind, or any kind from the start. The first keeps one vague fault (a
        leaf that is slow now and then) from standing for two plain ones, the second keeps dozens of plain ones from
        standing for a spine. Once more with the classes of paths that were guessed, first of all: else dozens of faults
        could stand for one of them, and it for a few. The likeliest result counts.
        """
        known = ~self._guessed
        starts = [self._searched(self._grown([], known, steady=True), known), self._searched([], known)]
        if self._guessed.any():
            every = np.ones_like(known)
            paths = self._grown([], self._path, steady=True)
            starts.append(self._searched(self._grown(paths, every, steady=True), every))
        return max(starts, key=self._total)

    def _searched(self, faults: list[Fault], among: Flags) -> list[Fault]:
        """Add, remove and exchange until nothing changes; candidates are those ``among``."""
        for _ in range(_PASSES):
            before = faults
            faults = self._exchanged(self._pruned(self._grown(faults, among, steady=False)), among)
            if [each.candidate for each in faults] == [each.candidate for each in before]:
                break
        return faults

    def _grown(self, faults: list[Fault], among: Flags, *, steady: bool) -> list[Fault]:
        while sum(not self.is_path(each) for each in faults) < _MOST:
            gain, fault = self.offer(faults, among, steady=steady).best()
            if fault is None or gain < BELIEF:
                break
            faults = self._settled([*faults, fault])
        return faults

    def offer(self, faults: Iterable[Fault], among: Flags | None = None, *, steady: bool = False) -> Offer:
        """What each candidate (``among`` some) that touches something unexplained would add to ``faults``.

        As a steady fault only?
        """
        faults = list(faults)
        base, ceiling = self._explained(faults)
        slow = self._y - ceiling < -self._smallest
        entries = self._entries_of_suspects(slow, {each.candidate for each in faults})
        entries = entries if among is None else entries[among[self._all.owner[entries]]]
        if not len(entries):
            nothing = np.zeros(0)
            return Offer(np.zeros(0, dtype=np.int64), nothing, nothing, nothing)
        return self._scored(entries, base, ceiling, slow, _SHARES[:1] if steady else _SHARES)

    def is_path(self, fault: Fault) -> bool:
        """Whether it is no fault but a class of paths that is slower in health."""
        return bool(self._path[fault.candidate])

    def is_guessed(self, fault: Fault) -> bool:
        """Whether it is such a class that no topology tells of."""
        return bool(self._guessed[fault.candidate])

    def unexplained(self, faults: Iterable[Fault]) -> Ints:
        """Measurements that are slow although nothing blamed touches them, or slower than it makes them."""
        _, ceiling = self._explained(faults)
        low = np.minimum(ceiling, 0.0)
        return np.flatnonzero(self._y - low < -np.maximum(self._smallest, 4 * SPREAD * np.abs(low)))

    def _entries_of_suspects(self, slow: Flags, blamed: set[int]) -> Ints:
        hits = np.bincount(self._all.owner[slow[self._all.touched]], minlength=len(self._all.keys))
        hits[list(blamed)] = 0
        return np.flatnonzero(hits[self._all.owner] > 0)

    def _scored(self, entries: Ints, base: Floats, ceiling: Floats, slow: Flags, shares: tuple[float, ...]) -> Offer:
        owner, touched = self._all.owner[entries], self._all.touched[entries]
        first = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        segment = np.cumsum(np.r_[False, owner[1:] != owner[:-1]])
        candidates = owner[first]
        y, known, above = self._y[touched], base[touched], ceiling[touched]
        weight, shape, noise = self._weight[touched], self._shape[entries], self._noise[touched]
        best = Offer(candidates, np.full(len(first), -np.inf), np.zeros(len(first)), np.ones(len(first)))
        for quantile in (0.5, 0.85):
            mu = self._bounded(candidates, segment_quantile(y, slow[touched], segment, len(first), quantile))
            low = np.minimum(above, mu[segment] + shape)
            under = log_density(y - low, width(noise, low), self.strays)
            for share in shares:
                with_fault = under if share == 1 else mixed(under, known, share)
                cost = self._steady_cost[candidates] if share == 1 else self._share_cost[candidates]
                gain = (
                    np.add.reduceat(weight * (with_fault - known), first)
                    + self._prior[candidates]
                    + cost
                    + self._freedom(candidates, mu)
                )
                better = gain > best.gain
                best = Offer(
                    candidates,
                    np.where(better, gain, best.gain),
                    np.where(better, mu, best.ceiling),
                    np.where(better, share, best.share),
                )
        return best

    def _explained(self, faults: Iterable[Fault]) -> tuple[Floats, Floats]:
        """Log density and ceiling of every measurement under the faults; steady ones first."""
        ceiling = np.zeros(len(self._y))
        faults = sorted(faults, key=lambda each: (each.share < 1, each.candidate))
        for each in (fault for fault in faults if fault.share == 1):
            touched = self._all.touches(each.candidate)
            ceiling[touched] = np.minimum(ceiling[touched], self._level(each))
        density = log_density(self._y - ceiling, width(self._noise, ceiling), self.strays)
        for each in (fault for fault in faults if fault.share < 1):
            touched = self._all.touches(each.candidate)
            low = np.minimum(ceiling[touched], each.ceiling)
            under = log_density(self._y[touched] - low, width(self._noise[touched], low), self.strays)
            its = under > density[touched]
            density[touched] = mixed(under, density[touched], each.share)
            ceiling[touched[its]] = low[its]
        return density, ceiling

    def _level(self, fault: Fault) -> Floats:
        """What a steady fault leaves of each measurement that it touches."""
        return fault.ceiling + self._shape[self._all.start[fault.candidate] : self._all.start[fault.candidate + 1]]

    def _bounded(self, candidates: Ints, ceiling: Floats) -> Floats:
        """Ceilings of faults as they are; the levels of classes of paths near what their groups tell."""
        middle = self._middle[candidates]
        return np.where(np.isnan(middle), ceiling, np.clip(ceiling, middle - _LEEWAY, middle + _LEEWAY))

    def _freedom(self, candidates: Ints, ceiling: Floats) -> Floats:
        """What choosing ceilings costs: the share of all ceilings that would have done as well, log."""
        unusual = np.maximum(0.0, -ceiling - _USUAL_LOSS) / _LOSS_DECAY
        return np.asarray(np.log(2.5 * width(self._usual, ceiling) / _RANGE) - self._path[candidates] * unusual)

    def _settled(self, faults: list[Fault]) -> list[Fault]:
        """With every ceiling at the median of what it alone explains."""
        _, ceiling = self._explained(faults)
        return [self._recentred(each, ceiling) for each in faults]

    def _recentred(self, fault: Fault, ceiling: Floats) -> Fault:
        touched, level = self._all.touches(fault.candidate), self._level(fault)
        its = np.abs(ceiling[touched] - level) < 1e-9
        own = (self._y[touched] - level)[its] + fault.ceiling
        own = own[np.abs(own - fault.ceiling) < 0.5]
        if not len(own):
            return fault
        middle = self._bounded(np.array([fault.candidate]), np.array([min(float(np.median(own)), 0.0)]))
        return Fault(fault.candidate, float(middle[0]), fault.share)

    def _total(self, faults: list[Fault]) -> float:
        density, _ = self._explained(faults)
        cost = sum(self._cost(each) for each in faults)
        return float((self._weight * density).sum() + cost)

    def _cost(self, fault: Fault) -> float:
        one = np.array([fault.candidate])
        kind = (self._steady_cost if fault.share == 1 else self._share_cost)[one]
        return float((self._prior[one] + kind + self._freedom(one, np.array([fault.ceiling])))[0])

    def _pruned(self, faults: list[Fault]) -> list[Fault]:
        """Without those that later ones made needless."""
        for each in list(faults):
            fewer = [other for other in faults if other is not each]
            if len(faults) > 1 and self._total(fewer) > self._total(faults) - BELIEF:
                faults = fewer
        return faults

    def _exchanged(self, faults: list[Fault], among: Flags) -> list[Fault]:
        """Each fault against the best alternative, the others staying."""
        for index in range(len(faults)):
            others = faults[:index] + faults[index + 1 :]
            _, better = self.offer(others, among).best()
            if better is not None and better.candidate != faults[index].candidate:
                exchanged = self._settled([*others, better])
                if self._total(exchanged) > self._total(faults) + 1e-6:
                    faults = exchanged
        return faults


def _middles(floor: Floats, hypotheses: Hypotheses) -> Floats:
    """For every candidate the middle level of its entries, log: 0 for a class of paths without one, NaN for a fault."""
    made = np.full(len(hypotheses.keys), np.nan)
    for candidate, key in enumerate(hypotheses.keys):
        if key.kind == "path":
            levels = floor[hypotheses.start[candidate] : hypotheses.start[candidate + 1]]
            made[candidate] = np.median(levels[levels < 0]) if (levels < 0).any() else 0.0
    return made


def _share_cost(kind: Kind) -> float:
    return -np.inf if kind == "path" else _SHARE_COST.get(kind, _RARE_SHARE_COST)


def _steady_cost(kind: Kind, name: str) -> float:
    """One of several spines slows a part of the traffic; all of it only where there is one spine."""
    return _STEADY_SPINE_COST if kind == "spine" and ("[" in name or "," in name) else 0.0
