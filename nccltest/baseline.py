"""What a series usually does: a robust centre and spread of its past, both of log(busbw). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

__all__ = ["ENOUGH", "FLOOR", "WINDOW", "Baseline", "baseline", "lower_level"]

ENOUGH = 12
"""Values that make a baseline. With fewer the spread is not known well enough for one false alarm in 10,000
(docs/figures/judge.md)."""
WINDOW = 60
"""Latest values that count."""
FLOOR = 0.005
"""Smallest spread: healthy series wander by this much over weeks, whatever their last values say."""
_SHARE = 0.05
"""Of all values: what that many have in common is no accident."""
_APART = 0.04
_PAIRWISE = 200
"""Values up to which all pairs of them are compared."""


@dataclass(frozen=True)
class Baseline:
    """Median, standard deviation and number of past values, log scale."""

    centre: float
    sigma: float
    count: int

    @property
    def centre_error(self) -> float:
        """Standard deviation of the centre itself (a median's: 1.2533 sigma / sqrt(n))."""
        return 1.2533 * self.sigma / sqrt(self.count)

    def z(self, value: float) -> float:
        """How many standard deviations a value is from the centre; negative: slower."""
        return (value - self.centre) / self.sigma


def baseline(values: Sequence[float]) -> Baseline | None:
    """The baseline of log(busbw) values, oldest first; None while there are fewer than ENOUGH."""
    if len(values) < ENOUGH:
        return None
    past = np.asarray(values, dtype=float)
    return Baseline(float(np.median(past)), max(FLOOR, _spread(past)), len(past))


def lower_level(values: Sequence[float], usual: Baseline) -> Baseline | None:
    """A second level well below the usual one, where a twentieth of the values (three at least) lie there.

    Groups drawn by chance take paths of more than one kind, and where no topology says which, the slower kind is as
    healthy as the other.
    """
    low = [value for value in values if value < usual.centre - max(_APART, 4 * usual.sigma)]
    if len(low) < max(3, _SHARE * len(values)):
        return None
    return Baseline(float(np.median(low)), usual.sigma, len(low))


def _spread(past: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Qn of Rousseeuw and Croux (1993), as robust as the MAD and twice as precise; the MAD where there are many.

    Their finite-sample factors: n/(n+1.4) for odd n, n/(n+3.8) for even n.
    """
    count = len(past)
    if count > _PAIRWISE:
        return 1.4826 * float(np.median(np.abs(past - np.median(past))))
    one, other = np.triu_indices(count, 1)
    distances = np.abs(past[one] - past[other])
    half = count // 2 + 1
    place = half * (half - 1) // 2 - 1
    factor = count / (count + (1.4 if count % 2 else 3.8))
    return 2.2219 * factor * float(np.partition(distances, place)[place])
