"""What is normal: a centre for each kind of measurement, and the noise around it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nccltest.locate.evidence import DEAD, Evidence, Flags, Floats

__all__ = ["USUAL_NOISE", "Levels", "levels"]

USUAL_NOISE = 0.015
"""Standard deviation of a healthy measurement where nothing tells it: recorded logs have 0.2 to 1.5 %."""

_FEWEST = 2
"""Different groups of one kind below which they say nothing about what is normal."""
_ENOUGH = 8
"""Values from which a spread can be told."""
_BAND = 0.06
"""Half width of what belongs to the healthy, in log: healthy paths differ by up to 5 %."""
_BLUR = 0.04
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
    evidence: Evidence, before: Levels | None = None, healthy: Flags | None = None, usual: float = USUAL_NOISE
) -> Levels:
    """Centre every kind on its healthy measurements.

    A median would fail once most pairs are slow (a leaf of two, an uplink of two): the search starts at the upper
    quartile over all rails and settles on the median of what is near it. A second time, ``healthy`` are those that no
    assumed fault touches; a kind that has too few of them keeps the centre of ``before``. ``usual``: the noise (log) of
    a run that is too small to tell its own.
    """
    chosen = np.ones(len(evidence), dtype=bool) if healthy is None else healthy
    deviation = np.full(len(evidence), np.nan)
    spreads: dict[int, tuple[int, float]] = {}
    centres: dict[int, float] = {}
    for kind in np.unique(evidence.kind).tolist():
        mine = evidence.kind == kind
        centre, spread, count = _centre(evidence, mine & chosen)
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
    smallest = np.where(own, max(0.04, 4 * noise), max(0.08, 4 * noise))
    return Levels(np.clip(deviation, DEAD, 0.3), noise, smallest, centres)


def _too_noisy(spreads: dict[int, tuple[int, float]]) -> list[int]:
    """Kinds that would only blur the others: small messages, where latency decides and not the network's bandwidth."""
    told = [spread for count, spread in spreads.values() if count >= _ENOUGH]
    limit = max(_BLUR, 4 * min(told, default=np.inf))
    return [kind for kind, (count, spread) in spreads.items() if count >= _ENOUGH and spread > limit]


def _against(evidence: Evidence, mine: Flags, centre: float) -> Floats:
    own = evidence.expected[mine]
    return np.asarray(evidence.log_bandwidth[mine] - np.where(np.isnan(own), centre, own))


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
    centre, spread = float(np.quantile(values, 0.75, method="higher")), 0.01  # one of them, so that some are near
    near = values
    for _ in range(4):
        near = values[np.abs(values - centre) < max(_BAND, 3 * spread)]
        centre = float(np.median(near))
        spread = min(_NOISE[1], 1.4826 * float(np.median(np.abs(near - centre))))
    return centre, spread, len(near)


def _pooled(spreads: list[tuple[int, float]], usual: float) -> float:
    counted = [(count, spread) for count, spread in spreads if count >= _ENOUGH]
    if not counted:
        return float(np.clip(usual, *_NOISE))
    mean = np.sqrt(np.average([s * s for _, s in counted], weights=[c for c, _ in counted]))
    return float(np.clip(mean, *_NOISE))
