"""Many series at once: which of the small p-values are not just the smallest of many. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, log, sqrt

import numpy as np

__all__ = ["LEVEL", "outliers", "p_value", "survivors"]

LEVEL = 0.01
"""Share of false ones among those called slow."""
_MODIFIED_Z = -3.5
"""Iglewicz and Hoaglin (1993)."""
_LOSS = log(1 - 0.05)
_FEWEST = 5


def p_value(z: float) -> float:
    """Probability that a healthy normal value lies that low."""
    return 0.5 * erfc(-z / sqrt(2))


def survivors(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Benjamini and Hochberg (1995): for each p-value whether it stays below the false discovery rate."""
    count = len(p_values)
    order = np.argsort(p_values)
    ranked = np.asarray(p_values, dtype=float)[order]
    below = np.flatnonzero(ranked <= level * np.arange(1, count + 1) / count) if count else np.zeros(0, dtype=int)
    kept = np.zeros(count, dtype=bool)
    if len(below):
        kept[order[: below[-1] + 1]] = True
    return [bool(each) for each in kept]


def outliers(values: Sequence[float]) -> list[bool]:
    """For log(busbw) of like groups of one run: which are slower than their peers (modified z below -3.5, and 5 %)."""
    if len(values) < _FEWEST:
        return [False] * len(values)
    all_ = np.asarray(values, dtype=float)
    away = all_ - np.median(all_)
    spread = max(0.005 / 1.4826, float(np.median(np.abs(away))))
    z = 0.6745 * away / spread
    small = survivors([p_value(float(each)) for each in z])
    return [bool(s and each < _MODIFIED_Z and a < _LOSS) for s, each, a in zip(small, z, away, strict=True)]
