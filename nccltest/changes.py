"""Where the level of a long series changed: annotations for a reader, never an alarm. Pure.

Binary segmentation on medians: the cut whose two sides differ most, measured in standard errors, is kept when it is
beyond chance and beyond 3 %; then each side by itself. docs/decisions/0027 tells why this and not Apache Otava.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from nccltest.locate.evidence import Floats

__all__ = ["change_points"]

_SHORTEST = 6
"""Runs that make a level."""
_BEYOND = 6.0
"""Standard errors: in 240 healthy runs one series in two hundred shows a change that is none."""
_SMALLEST = 0.03
_MOST = 20


def change_points(values: Sequence[float]) -> list[int]:
    """For log(busbw) values, oldest first: the indices at which a new level begins, ascending."""
    series = np.asarray(values, dtype=float)
    found: list[int] = []
    parts = [(0, len(series))]
    while parts and len(found) < _MOST:
        start, end = parts.pop()
        cut = _best_cut(series[start:end])
        if cut is not None:
            found.append(start + cut)
            parts += [(start, start + cut), (start + cut, end)]
    return sorted(found)


def _best_cut(part: Floats) -> int | None:
    if len(part) < 2 * _SHORTEST:
        return None
    scored = [(_score(part[:cut], part[cut:]), cut) for cut in range(_SHORTEST, len(part) - _SHORTEST + 1)]
    score, cut = max(scored)
    large = abs(float(np.median(part[cut:]) - np.median(part[:cut]))) > _SMALLEST
    return cut if score > _BEYOND and large else None


def _score(before: Floats, after: Floats) -> float:
    """Difference of the medians over its standard error (1.2533 sigma sqrt(1/n + 1/m))."""
    rest = np.concatenate([before - np.median(before), after - np.median(after)])
    sigma = max(0.005, 1.4826 * float(np.median(np.abs(rest))))
    error = 1.2533 * sigma * sqrt(1 / len(before) + 1 / len(after))
    return abs(float(np.median(after) - np.median(before))) / error
