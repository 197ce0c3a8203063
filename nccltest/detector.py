"""Slower than it was? One look at every run, five more at what looks bad. Pure.

A run's value is log of the median of its repeats. The *screen* is wide: two standard deviations, which one healthy run
in thirty fails. What fails it is run again at once, five times; their median decides, without the value that raised
the suspicion. It is noise unless it lies below the baseline by 4 % and by four of its own standard deviations. So a
decision rests on five independent runs where a decision matters, and on one where it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, sqrt

import numpy as np

from nccltest.baseline import Baseline

__all__ = ["CONFIRMATIONS", "SMALLEST", "alarm", "confirmed", "limit", "screened"]

CONFIRMATIONS = 5
"""Runs that confirm a suspicion."""
SMALLEST = 0.04
"""Smallest loss that is called one."""
_SCREEN = 2.0
_SCREEN_FLOOR = 0.02
_ALARM = 4.0


def screened(value: float, past: Baseline) -> bool:
    """Whether a run looks slow enough to be run again."""
    return value - past.centre < -max(_SCREEN_FLOOR, _SCREEN * past.sigma)


def limit(past: Baseline, runs: int, smallest: float = SMALLEST, *, same_group: bool = True) -> float:
    """The loss (positive, log) from which the median of ``runs`` runs is an alarm.

    ``same_group``: the past is that very group's. Otherwise (pairs drawn by chance) a part of the spread is between
    groups, and running one of them again does not average it away.
    """
    own = past.sigma * (_median_error(runs) if same_group else 1.0)
    return max(smallest, _ALARM * hypot(own, past.centre_error))


def alarm(value: float, past: Baseline, smallest: float = SMALLEST) -> bool:
    """Whether one run alone is so slow that chance is no explanation."""
    return value - past.centre < -max(smallest, _ALARM * past.sigma)


def confirmed(values: Sequence[float], past: Baseline, smallest: float = SMALLEST, *, same_group: bool = True) -> bool:
    """Whether the runs that followed a suspicion, at least one, bear it out."""
    return float(np.median(values)) - past.centre < -limit(past, len(values), smallest, same_group=same_group)


def _median_error(runs: int) -> float:
    """Standard deviation of the median of n values, of one value's: 1.2533/sqrt(n), and the mean's up to two."""
    return (1.2533 if runs > 2 else 1.0) / sqrt(runs)
