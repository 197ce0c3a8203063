"""Series that never were: how often ``judge`` cries wolf, and how often it sees the wolf. Uses the detector itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nccltest.baseline import baseline
from nccltest.cusum import ANCHOR, H, K, sums
from nccltest.detector import CONFIRMATIONS, confirmed, screened
from nccltest.locate.evidence import Floats

__all__ = ["Detected", "detection", "drifts"]

_STRAY = 0.002
_RUNS = 240


class Detected(NamedTuple):
    """What became of some runs, each against a baseline of its own."""

    runs: int
    screened: int
    """Looked slow and were run again."""
    confirmed: int


def _values(shape: tuple[int, ...], sigma: float, rng: np.random.Generator) -> Floats:
    """log(busbw) of healthy runs: normal noise, and now and then anything from 30 % to 100 %."""
    stray = rng.random(shape) < _STRAY
    return np.where(stray, np.log(0.3 + 0.7 * rng.random(shape)), rng.normal(0, sigma, shape))


def detection(sigma: float, count: int, drop: float, runs: int, seed: int = 0) -> Detected:
    """``runs`` runs that lost ``drop`` (0.1: 10 %) after ``count`` healthy ones; ``sigma``: relative noise of a run."""
    rng = np.random.default_rng([seed, count, round(1e4 * sigma), round(1e4 * drop)])
    shift = float(np.log1p(-drop))
    looked = decided = 0
    for _ in range(runs):
        values = _values((count + 1 + CONFIRMATIONS,), sigma, rng)
        usual = baseline(values[:count].tolist())
        if usual is not None and screened(float(values[count]) + shift, usual):
            looked += 1
            decided += confirmed((values[count + 1 :] + shift).tolist(), usual)
    return Detected(runs, looked, decided)


def drifts(loss: float, series: int, k: float = K, h: float = H, sigma: float = 0.02, seed: int = 0) -> float:
    """Share of series called drifting that lose ``loss`` evenly over 240 runs after the first ones."""
    rng = np.random.default_rng([seed, round(1e4 * loss)])
    slope = np.concatenate([np.zeros(ANCHOR), np.log1p(-loss * np.arange(1, _RUNS + 1) / _RUNS)])
    found = 0
    for _ in range(series):
        values = _values((ANCHOR + _RUNS,), sigma, rng) + slope
        found += _ever(values.tolist(), k, h)
    return found / series


def _ever(values: list[float], k: float, h: float) -> bool:
    """An alarm after any of the runs."""
    reference = baseline(values[:ANCHOR])
    return reference is not None and any(total > h for total in sums(values[ANCHOR:], reference, k, h))
