"""Groups without a past: held against line rate, and against the like groups of their own run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log

import numpy as np

from nccltest.expect import LOW
from nccltest.fdr import outliers
from nccltest.judgement import Judgement

__all__ = ["against_line", "among_peers"]


def against_line(judged: Judgement, repeats: Sequence[float]) -> Judgement:
    """Slow on any machine? By the median of ``repeats`` (log busbw) where there are any."""
    if judged.of_line_pct is None or not judged.busbw:
        return judged
    share = judged.of_line_pct * exp(_value(judged, repeats)) / judged.busbw
    if share >= 100 * LOW:
        return judged
    reason = f"no history, and {share:.0f} % of what line rate allows (healthy: 80 to 97 %){_runs(repeats)}"
    return replace(judged, status="regressed", confirmed=bool(repeats), reason=reason)


def among_peers(judgements: Sequence[Judgement], repeats: Sequence[Sequence[float]]) -> list[Judgement]:
    """Which of those without a past are slower than their like; ``repeats`` are each one's log busbw when run again.

    What one run alone shows is suspected. Where half of a class or more lies below line rate, running it again would
    tell nothing new.
    """
    made = list(judgements)
    peers: dict[object, list[int]] = {}
    for index, each in enumerate(made):
        if each.baseline is None and each.busbw and each.status in ("no-baseline", "regressed"):
            peers.setdefault(_class(each), []).append(index)
    for places in peers.values():
        below = [index for index in places if made[index].status == "regressed"]
        if 2 * len(below) < len(places):
            for index in below:
                made[index] = replace(made[index], suspected=not repeats[index])
        _compare(made, [index for index in places if index not in below], repeats)
    return made


def _compare(made: list[Judgement], places: Sequence[int], repeats: Sequence[Sequence[float]]) -> None:
    values = [_value(made[index], repeats[index]) for index in places]
    for index, value, slow in zip(places, values, outliers(values), strict=True):
        if slow:
            change = 100 * (exp(value - float(np.median(values))) - 1)
            runs = _runs(repeats[index])
            reason = f"no history, and {change:.0f} % against the {len(places)} like groups of this run{runs}"
            again = bool(repeats[index])
            made[index] = replace(made[index], status="regressed", suspected=not again, confirmed=again, reason=reason)


def _class(judged: Judgement) -> object:
    """Pairs with pairs of the same kind, on all rails; single nodes with single nodes."""
    series = judged.series
    group = series.group.partition(",")[2] if series.group.startswith("single") else series.group
    return series.test, group, series.size


def _value(judged: Judgement, repeats: Sequence[float]) -> float:
    """log(busbw): the repeats' alone where there are any, as the first value was chosen for being low."""
    return float(np.median(repeats)) if repeats else log(judged.busbw or 1.0)


def _runs(repeats: Sequence[float]) -> str:
    return f": the median of {len(repeats)} runs at once after it" if repeats else ""
