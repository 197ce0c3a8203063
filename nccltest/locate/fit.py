"""Choosing the faults: greedy forward selection with refitting, removal and exchange. Pure.

The model of one measurement's deviation y: a healthy one is normal around 0 with the noise s, with wider tails and a
little of everything else (an outlier explains itself). A fault puts a ceiling mu < 0 on what it touches. A *steady*
fault always does; an *intermittent* one does for a share q of what it touches (one slow cable of a bundle, one spine of
four, a link that flaps). A fault is believed when it makes the evidence so much likelier that its prior and the freedom
of choosing mu and q are paid for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log

import numpy as np

from nccltest.locate.evidence import Flags, Floats, Ints
from nccltest.locate.hypotheses import Hypotheses, Kind

__all__ = ["BELIEF", "Fault", "Model", "Offer"]

BELIEF = 2.0
"""log of the odds (7 to 1) at which a fault is believed, wherever it is."""
_MOST = 64
"""Faults that are looked for; whoever has more needs no localising."""
_PASSES = 5
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.1)
_SHARE_COST: dict[Kind, float] = {"uplink": log(0.3 / 4), "spine": log(1 / 4)}
_RARE_SHARE_COST = log(0.05 / 4)
_STEADY_SPINE_COST = log(0.2)
_TAIL, _STRAY, _STRAY_DENSITY = 0.045, 0.002, 0.3
_RANGE = 1.2
"""Faults leave anything from 30 % up, most of them; dead ones lie outside and pay the same."""
_SPREAD = 0.1
"""A fault's bandwidth varies by about this share of its own depth."""


@dataclass(frozen=True)
class Fault:
    """A candidate with its ceiling (log) and the share of its measurements that it slows."""

    candidate: int
    ceiling: float
    share: float


@dataclass(frozen=True)
class Offer:
    """The best fault for each of some candidates, and by how much (log) it makes the evidence likelier, all paid."""

    candidates: Ints
    gain: Floats
    ceiling: Floats
    share: Floats

    def best(self) -> tuple[float, Fault | None]:
        """The fault that offers most, and log odds that there is one, there or elsewhere."""
        if not len(self.candidates):
            return 0.0, None
        return float(np.logaddexp.reduce(self.gain)), self.fault(int(np.argmax(self.gain)))

    def fault(self, index: int) -> Fault:
        """The fault of one of the candidates."""
        return Fault(int(self.candidates[index]), float(self.ceiling[index]), float(self.share[index]))


class Model:
    """The evidence with all candidates; ``select`` finds the faults."""

    def __init__(
        self, deviation: Floats, weight: Floats, smallest: Floats, noise: float, hypotheses: Hypotheses
    ) -> None:
        self._y = deviation
        self._weight = weight
        self._smallest = smallest
        self._noise = noise
        self._all = hypotheses
        self._prior = np.array(hypotheses.prior)
        self._share_cost = np.array([_SHARE_COST.get(key.kind, _RARE_SHARE_COST) for key in hypotheses.keys])
        self._steady_cost = np.array([_steady_cost(key.kind, key.id) for key in hypotheses.keys])

    def select(self) -> list[Fault]:
        """The faults that the evidence asks for.

        Twice: steady faults first and then any kind, or any kind from the start. The first keeps one vague fault (a
        leaf that is slow now and then) from standing for two plain ones, the second keeps dozens of plain ones from
        standing for a spine. The likelier of both results counts.
        """
        starts = (self._searched(self._grown([], steady=True)), self._searched([]))
        return max(starts, key=self._total)

    def _searched(self, faults: list[Fault]) -> list[Fault]:
        """Add, remove and exchange until nothing changes."""
        for _ in range(_PASSES):
            before = faults
            faults = self._exchanged(self._pruned(self._grown(faults, steady=False)))
            if [each.candidate for each in faults] == [each.candidate for each in before]:
                break
        return faults

    def _grown(self, faults: list[Fault], *, steady: bool) -> list[Fault]:
        while len(faults) < _MOST:
            gain, fault = self.offer(faults, steady=steady).best()
            if fault is None or gain < BELIEF:
                break
            faults = self._settled([*faults, fault])
        return faults

    def offer(self, faults: Iterable[Fault], *, steady: bool = False) -> Offer:
        """What each candidate that touches something unexplained would add to ``faults``; as a steady fault only?"""
        faults = list(faults)
        base, ceiling = self._explained(faults)
        slow = self._y - ceiling < -self._smallest
        entries = self._entries_of_suspects(slow, {each.candidate for each in faults})
        if not len(entries):
            nothing = np.zeros(0)
            return Offer(np.zeros(0, dtype=np.int64), nothing, nothing, nothing)
        return self._scored(entries, base, ceiling, slow, _SHARES[:1] if steady else _SHARES)

    def unexplained(self, faults: Iterable[Fault]) -> Ints:
        """Measurements that are slow although nothing blamed touches them, or slower than it makes them."""
        _, ceiling = self._explained(faults)
        low = np.minimum(ceiling, 0.0)
        return np.flatnonzero(self._y - low < -np.maximum(self._smallest, 4 * _SPREAD * np.abs(low)))

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
        weight = self._weight[touched]
        best = Offer(candidates, np.full(len(first), -np.inf), np.zeros(len(first)), np.ones(len(first)))
        for quantile in (0.5, 0.85):
            mu = _segment_quantile(y, slow[touched], segment, len(first), quantile)
            low = np.minimum(above, mu[segment])
            under = _log_density(y - low, _width(self._noise, low))
            for share in shares:
                with_fault = under if share == 1 else _mixed(under, known, share)
                cost = self._steady_cost[candidates] if share == 1 else self._share_cost[candidates]
                gain = (
                    np.add.reduceat(weight * (with_fault - known), first)
                    + self._prior[candidates]
                    + cost
                    + self._freedom(mu)
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
            ceiling[touched] = np.minimum(ceiling[touched], each.ceiling)
        density = _log_density(self._y - ceiling, _width(self._noise, ceiling))
        for each in (fault for fault in faults if fault.share < 1):
            touched = self._all.touches(each.candidate)
            low = np.minimum(ceiling[touched], each.ceiling)
            under = _log_density(self._y[touched] - low, _width(self._noise, low))
            its = under > density[touched]
            density[touched] = _mixed(under, density[touched], each.share)
            ceiling[touched[its]] = low[its]
        return density, ceiling

    def _freedom(self, ceiling: Floats | np.float64) -> Floats:
        """What choosing a ceiling costs: the share of all ceilings that would have done as well, log."""
        return np.asarray(np.log(2.5 * _width(self._noise, ceiling) / _RANGE))

    def _settled(self, faults: list[Fault]) -> list[Fault]:
        """With every ceiling at the median of what it alone explains."""
        _, ceiling = self._explained(faults)
        return [self._recentred(each, ceiling) for each in faults]

    def _recentred(self, fault: Fault, ceiling: Floats) -> Fault:
        touched = self._all.touches(fault.candidate)
        own = self._y[touched[np.abs(ceiling[touched] - fault.ceiling) < 1e-9]]
        own = own[np.abs(own - fault.ceiling) < 0.5]
        return Fault(fault.candidate, min(float(np.median(own)), 0.0), fault.share) if len(own) else fault

    def _total(self, faults: list[Fault]) -> float:
        density, _ = self._explained(faults)
        cost = sum(
            self._prior[each.candidate]
            + (self._steady_cost if each.share == 1 else self._share_cost)[each.candidate]
            + float(self._freedom(np.float64(each.ceiling)))
            for each in faults
        )
        return float((self._weight * density).sum() + cost)

    def _pruned(self, faults: list[Fault]) -> list[Fault]:
        """Without those that later ones made needless."""
        for each in list(faults):
            fewer = [other for other in faults if other is not each]
            if len(faults) > 1 and self._total(fewer) > self._total(faults) - BELIEF:
                faults = fewer
        return faults

    def _exchanged(self, faults: list[Fault]) -> list[Fault]:
        """Each fault against the best alternative, the others staying."""
        for index in range(len(faults)):
            others = faults[:index] + faults[index + 1 :]
            _, better = self.offer(others).best()
            if better is not None and better.candidate != faults[index].candidate:
                exchanged = self._settled([*others, better])
                if self._total(exchanged) > self._total(faults) + 1e-6:
                    faults = exchanged
        return faults


def _steady_cost(kind: Kind, name: str) -> float:
    """One of several spines slows a part of the traffic; all of it only where there is one spine."""
    return _STEADY_SPINE_COST if kind == "spine" and ("[" in name or "," in name) else 0.0


def _width(noise: float, ceiling: Floats | np.float64) -> Floats:
    return np.asarray(np.hypot(max(noise, 0.01), _SPREAD * np.minimum(np.abs(ceiling), 0.5)))


def _log_density(error: Floats, width: Floats) -> Floats:
    ratio = (error / width) ** 2
    narrow = np.exp(-0.5 * ratio)
    wide = np.exp(ratio * (-0.5 / 4)) / 2
    return np.asarray(
        np.log(((1 - _TAIL - _STRAY) * narrow + _TAIL * wide) * (0.3989 / width) + _STRAY * _STRAY_DENSITY)
    )


def _mixed(under: Floats, without: Floats, share: float) -> Floats:
    return np.asarray(np.logaddexp(under + log(share), without + log(1 - share)))


def _segment_quantile(y: Floats, chosen: Flags, segment: Ints, segments: int, quantile: float) -> Floats:
    """Of the chosen values of each segment: a quantile. Every segment has one value at least."""
    values, owner = y[chosen], segment[chosen]
    order = np.lexsort((values, owner))
    count = np.bincount(owner, minlength=segments)
    start = np.cumsum(count) - count
    place = start + np.floor(quantile * (count - 1)).astype(np.int64)
    return np.asarray(values[order][place])
