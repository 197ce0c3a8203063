"""How likely a measurement is under what is assumed of it. Pure.

A normal with the noise of the run, wider tails, and a little of everything else: an outlier explains itself.
"""

from __future__ import annotations

from math import log

import numpy as np

from nccltest.locate.evidence import Flags, Floats, Ints

__all__ = ["SPREAD", "STRAY_DEPTH", "log_density", "mixed", "segment_quantile", "width"]

_TAIL, _STRAY, _STRAY_DENSITY = 0.045, 0.002, 0.3
STRAY_DEPTH = 0.3
"""How slow busy hosts make a result, log."""
SPREAD = 0.1
"""A fault's bandwidth varies by about this share of its own depth."""


def width(noise: Floats | float, ceiling: Floats | np.float64) -> Floats:
    """Standard deviation around a ceiling, log: the noise, and more the deeper the fault."""
    return np.asarray(np.hypot(np.maximum(noise, 0.01), SPREAD * np.minimum(np.abs(ceiling), 0.5)))


def log_density(error: Floats, width: Floats, strays: float = 0.0) -> Floats:
    """Log density of deviations from what is assumed, log. ``strays``: the share of results that are slow for no reason
    that would show again."""
    ratio = (error / width) ** 2
    narrow = np.exp(-0.5 * ratio)
    wide = np.exp(ratio * (-0.5 / 4)) / 2
    return np.asarray(
        np.log(
            ((1 - _TAIL - _STRAY - strays) * narrow + _TAIL * wide) * (0.3989 / width)
            + _STRAY * _STRAY_DENSITY
            + strays / STRAY_DEPTH * ((error < 0) & (error > -STRAY_DEPTH))
        )
    )


def mixed(under: Floats, without: Floats, share: float) -> Floats:
    """Log density where a fault slows that share of what it touches."""
    return np.asarray(np.logaddexp(under + log(share), without + log(1 - share)))


def segment_quantile(y: Floats, chosen: Flags, segment: Ints, segments: int, quantile: float) -> Floats:
    """Of the chosen values of each segment: a quantile. Every segment has one value at least."""
    values, owner = y[chosen], segment[chosen]
    order = np.lexsort((values, owner))
    count = np.bincount(owner, minlength=segments)
    start = np.cumsum(count) - count
    place = start + np.floor(quantile * (count - 1)).astype(np.int64)
    return np.asarray(values[order][place])
