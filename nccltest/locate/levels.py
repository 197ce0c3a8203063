"""What is normal: a centre for each kind of measurement, and the noise around it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nccltest.locate.evidence import DEAD, Evidence, Flags, Floats, Ints

__all__ = ["SMALLEST", "USUAL_NOISE", "Levels", "levels", "upper_mode"]

USUAL_NOISE = 0.015
"""Standard deviation of a healthy measurement where nothing tells it: recorded logs have 0.2 to 1.5 %."""

SMALLEST = 0.08
"""The smallest loss that counts where it is seen against others, log; healthy paths of one kind differ by up to 5 %."""
_FEWEST = 2
"""Different groups of one kind below which they say nothing about what is normal."""
_ENOUGH = 8
"""Values from which a spread can be told."""
_BAND = 0.06
"""Half width of what belongs to the healthy, in log: healthy paths differ by up to 5 %."""
_BLUR = 0.04
_KERNEL, _APART = 0.02, 0.07
"""Half width of a level where levels are told apart, and how far apart two are at least, log."""
_VALLEY = 0.5
"""How empty it is between two levels, of the thinner one."""
_UPPER_SHARE = 0.2
"""Share of the values that makes the upper level what is normal; fewer are groups with a better path than usual."""
_NOISE = (0.005, 0.08)
"""Bounds of the noise: below the first, drift between rounds decides; above the second nothing can be said."""


@dataclass(frozen=True)
class Levels:
    """How far each measurement is from normal."""

    deviation: Floats
    """log(busbw / normal), at least DEAD, which also stands for a failed one; NaN where normal is unknown."""
    noise: float
    """Standard deviation of one healthy measurement, log."""
    smallest: Floats
    """The smallest loss that counts as one, log, for each measurement: less where its own past is known."""
    centre: dict[int, float]
    """Kind -> normal level, as log_bandwidth; NaN where nothing tells it."""


def levels(
    evidence: Evidence,
    before: Levels | None = None,
    healthy: Flags | None = None,
    usual: float = USUAL_NOISE,
    paths: Ints | None = None,
) -> Levels:
    """Centre every kind on its healthy measurements.

    A median would fail once most pairs are slow (a leaf of two, an uplink of two): the search starts at the upper
    quartile over all rails and settles on the median of what is near it. A second time, ``healthy`` are those that no
    assumed fault touches; a kind that has too few of them keeps the centre of ``before``. ``usual``: the noise (log) of
    a run that is too small to tell its own. ``paths``: classes of paths by number; the fastest one is what is normal,
    however few groups took it.
    """
    chosen = np.ones(len(evidence), dtype=bool) if healthy is None else healthy
    deviation = np.full(len(evidence), np.nan)
    spreads: dict[int, tuple[int, float]] = {}
    centres: dict[int, float] = {}
    for kind in np.unique(evidence.kind).tolist():
        mine = evidence.kind == kind
        centre, spread, count = _fastest(evidence, mine & chosen, paths)
        if np.isnan(centre) and before is not None:
            centre = before.centre[kind]
        centres[kind] = centre
        deviation[mine] = _against(evidence, mine, centre)
        spreads[kind] = (count, spread)
    for kind in _too_noisy(spreads):
        deviation[evidence.kind == kind] = np.nan
        del spreads[kind]
    deviation[np.isnan(evidence.log_bandwidth)] = DEAD
    noise = _pooled(list(spreads.values()), usual)
    own = ~np.isnan(evidence.expected)
    smallest = np.where(own, max(0.04, 4 * noise), max(SMALLEST, 4 * noise))
    return Levels(np.clip(deviation, DEAD, 0.3), noise, smallest, centres)


def _too_noisy(spreads: dict[int, tuple[int, float]]) -> list[int]:
    """Kinds that would only blur the others: small messages, where latency decides and not the network's bandwidth."""
    told = [spread for count, spread in spreads.values() if count >= _ENOUGH]
    limit = max(_BLUR, 4 * min(told, default=np.inf))
    return [kind for kind, (count, spread) in spreads.items() if count >= _ENOUGH and spread > limit]


def _against(evidence: Evidence, mine: Flags, centre: float) -> Floats:
    own = evidence.expected[mine]
    return np.asarray(evidence.log_bandwidth[mine] - np.where(np.isnan(own), centre, own))


def _fastest(evidence: Evidence, chosen: Flags, paths: Ints | None) -> tuple[float, float, int]:
    """The centre of all, or of the class of paths that has the highest one."""
    found = [_centre(evidence, chosen)]
    for number in np.unique(paths[chosen]).tolist() if paths is not None else ():
        apart = _centre(evidence, chosen & (paths == number))
        if apart[2] >= _ENOUGH and apart[0] > found[0][0] + _KERNEL:
            found.append(apart)
    return max(found, key=lambda each: np.nan_to_num(each[0], nan=-np.inf))


def upper_mode(values: Floats) -> tuple[float, float]:
    """The level of the upper half of what is not slow, and the spread around it; NaN for fewer than two values.

    Fewer than eight tell no spread: 0.
    """
    centre, spread, count = _upper_mode(values[~np.isnan(values)])
    return centre, spread if count >= _ENOUGH else 0.0


def _centre(evidence: Evidence, chosen: Flags) -> tuple[float, float, int]:
    """Centre, spread and number of values behind them. A centre of NaN: nothing to compare with."""
    values, own = evidence.log_bandwidth[chosen], evidence.expected[chosen]
    if len(own) and not np.isnan(own).any():
        near = np.abs(values - own)
        near = near[near < _BAND]
        return 0.0, 1.4826 * float(np.median(near)) if len(near) else np.nan, len(near)
    groups = {evidence.members[index] for index in np.flatnonzero(chosen).tolist()}
    return _upper_mode(values[~np.isnan(values)]) if len(groups) >= _FEWEST else (np.nan, np.nan, 0)


def _upper_mode(values: Floats) -> tuple[float, float, int]:
    if len(values) < _FEWEST:
        return np.nan, np.nan, 0
    values = _upper_level(values)
    centre, spread = float(np.quantile(values, 0.75, method="higher")), 0.01  # one of them, so that some are near
    near = values
    for _ in range(4):
        near = values[np.abs(values - centre) < max(_BAND, 3 * spread)]
        centre = float(np.median(near))
        spread = min(_NOISE[1], 1.4826 * float(np.median(np.abs(near - centre))))
    return centre, spread, len(near)


def _upper_level(values: Floats) -> Floats:
    """Where values lie at several levels: those of the highest one that a fifth of them reach."""
    values = np.sort(values)
    count = len(values)
    if count < _ENOUGH:
        return values
    near = np.searchsorted(values, values + _KERNEL, "right") - np.searchsorted(values, values - _KERNEL)
    below, above = _peaks(near), count - 1 - _peaks(near[::-1])[::-1]
    valley = near <= _VALLEY * np.minimum(near[below], near[above])
    valley &= (values[above] - values[below] > _APART) & (np.arange(count) <= (1 - _UPPER_SHARE) * count)
    return values[np.flatnonzero(valley)[-1] :] if valley.any() else values


def _peaks(height: Ints) -> Ints:
    """For every place where the highest of those before it, itself included, is."""
    new = np.r_[True, height[1:] > np.maximum.accumulate(height)[:-1]]
    return np.asarray(np.maximum.accumulate(np.where(new, np.arange(len(height)), 0)))


def _pooled(spreads: list[tuple[int, float]], usual: float) -> float:
    counted = [(count, spread) for count, spread in spreads if count >= _ENOUGH]
    if not counted:
        return float(np.clip(usual, *_NOISE))
    mean = np.sqrt(np.average([s * s for _, s in counted], weights=[c for c, _ in counted]))
    return float(np.clip(mean, *_NOISE))
