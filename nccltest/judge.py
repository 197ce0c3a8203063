"""Each measurement against its series' past: noise, or a regression? Pure.

A *series* is what may be compared: one test, one class of groups, one rail (or all), one size, one fingerprint of
software, firmware and configuration. A new fingerprint starts a new series: a driver update is no regression of the
fabric, and its effect is shown as the difference of two baselines, never as an alarm. The value is log of the busbw at
that size, never nccl-tests' average over sizes. Failed runs, wrong data and one-rank runs are told as what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np

from nccltest.baseline import WINDOW, Baseline, baseline, lower_level
from nccltest.cusum import drift
from nccltest.detector import SMALLEST, alarm, confirmed, limit, screened
from nccltest.fdr import p_value, survivors
from nccltest.judgement import Before, Expected, Judgement, Past, Status
from nccltest.locate.names import fold
from nccltest.model import Measurement
from nccltest.newcomers import against_line, among_peers
from nccltest.series import CONFIRM, Series, group_key, parted, series_of

__all__ = ["judge", "to_confirm"]


def judge(
    measurements: Iterable[Measurement],
    past: Past,
    *,
    expected: Expected = lambda _: None,
    smallest: float = SMALLEST,
) -> tuple[Judgement, ...]:
    """One judgement for each group and size. Measurements with the purpose ``confirm`` decide what they repeat.

    ``smallest``: the least relative loss that is called one (fabric.yaml: probe.threshold).
    """
    first, again = parted(measurements)
    series = [series_of(one) for one in first]
    before = {each: past(each) for each in dict.fromkeys(series)}
    usual = {each: _levels(each, known.values[-_window(each) :]) for each, known in before.items()}
    repeats = [_values(again.get(group_key(one), ())) for one in first]
    made = [
        _one(one, each, values, before[each], usual[each], expected, smallest)
        for one, each, values in zip(first, series, repeats, strict=True)
    ]
    return tuple(_drifting(among_peers(_not_by_chance(made), repeats), before))


def to_confirm(judgements: Sequence[Judgement], measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """The measurements whose groups should be run again, ``detector.CONFIRMATIONS`` times, at once."""
    wanted = {(each.series, each.members) for each in judgements if each.suspected}
    return tuple(one for one in measurements if one.purpose != CONFIRM and (series_of(one), _names(one)) in wanted)


def _names(one: Measurement) -> str:
    return fold(one.nodes)


def _one(
    one: Measurement,
    series: Series,
    repeats: Sequence[float],
    before: Before,
    levels: Sequence[Baseline],
    expected: Expected,
    smallest: float,
) -> Judgement:
    plain = Judgement(series, _names(one), "no-baseline", one.busbw)
    if one.status != "ok" or not one.busbw:
        return _without_value(one, plain)
    value, line = log(one.busbw), expected(one)
    of_line = 100 * one.busbw / line if line else None
    plain = replace(plain, of_line_pct=of_line, runs=len(before.values))
    if not levels:
        return against_line(plain, repeats)
    usual = min(levels, key=lambda level: abs(value - level.centre))
    judged = replace(
        plain,
        baseline=exp(usual.centre),
        runs=usual.count,
        change_pct=100 * (exp(value - usual.centre) - 1),
        z=usual.z(value),
        noise_pct=100 * usual.sigma,
        limit_pct=100 * (1 - exp(-max(smallest, 4 * usual.sigma))),
    )
    return _against(judged, value, repeats, usual, smallest, same_group=one.kind in ("whole", "single"))


def _values(measurements: Iterable[Measurement]) -> list[float]:
    return [log(each.busbw) for each in measurements if each.status == "ok" and each.busbw]


def _levels(series: Series, values: Sequence[float]) -> list[Baseline]:
    """What is usual: one level, two where groups are drawn; none while there is too little past."""
    usual = baseline(values)
    if usual is None or series.one_group:
        return [usual] if usual else []
    lower = lower_level(values, usual)
    return [usual, lower] if lower else [usual]


def _window(series: Series) -> int:
    """Runs have many pairs: a window of runs is one of many more values."""
    return WINDOW if series.one_group else 8 * WINDOW


def _without_value(one: Measurement, plain: Judgement) -> Judgement:
    if one.status == "not-collective" or (one.status == "ok" and len(one.members) == 1):
        reason = "one rank has nobody to talk to: busbw is 0 by definition"
        return replace(plain, status="not-collective", reason=reason)
    status: Any = "failed" if one.status == "ok" else one.status
    return replace(plain, status=status, busbw=None, reason=one.errors[0] if one.errors else "")


def _against(
    judged: Judgement, value: float, repeats: Sequence[float], usual: Baseline, smallest: float, *, same_group: bool
) -> Judgement:
    if value - usual.centre > max(smallest, 4 * usual.sigma):
        return replace(judged, status="improved")
    if not screened(value, usual):
        return replace(judged, status="ok")
    if not repeats:
        status: Status = "regressed" if alarm(value, usual, smallest) else "ok"
        return replace(judged, status=status, suspected=True)
    return _decided(judged, repeats, usual, smallest, same_group=same_group)


def _decided(
    judged: Judgement, repeats: Sequence[float], usual: Baseline, smallest: float, *, same_group: bool
) -> Judgement:
    """By the repeats alone: the first value was chosen for being low."""
    middle = float(np.median(repeats))
    slow = confirmed(repeats, usual, smallest, same_group=same_group)
    margin = limit(usual, len(repeats), smallest, same_group=same_group)
    runs = "1 run" if len(repeats) == 1 else f"{len(repeats)} runs"
    return replace(
        judged,
        status="regressed" if slow else "ok",
        confirmed=slow,
        change_pct=100 * (exp(middle - usual.centre) - 1),
        limit_pct=100 * (1 - exp(-margin)),
        reason=f"the median of {runs} at once after it is {exp(middle):.4g} GB/s",
    )


def _not_by_chance(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Of many groups some are always slowest: unconfirmed alarms must survive the false discovery rate of the run."""
    scores = [each.z if each.z is not None else 0.0 for each in judgements]
    kept = survivors([p_value(z) for z in scores])
    return [
        replace(each, status="ok") if each.suspected and each.status == "regressed" and not keep else each
        for each, keep in zip(judgements, kept, strict=True)
    ]


def _drifting(judgements: Sequence[Judgement], past: Mapping[Series, Before]) -> list[Judgement]:
    """Series whose runs, this one included, slid down slowly; told of the first of their groups that looks healthy."""
    made = list(judgements)
    groups: dict[Series, list[int]] = {}
    for index, each in enumerate(made):
        if each.busbw and each.status != "regressed":
            groups.setdefault(each.series, []).append(index)
    for series, places in groups.items():
        history = [*past[series].runs, float(np.median([log(made[index].busbw or 1.0) for index in places]))]
        slid, usual = drift(history)
        if slid and usual is not None:
            loss = 100 * (exp(float(np.median(history[-10:])) - usual.centre) - 1)
            reason = f"slow drift: the last runs are {loss:+.1f} % against the first {usual.count} of the series"
            first = made[places[0]]
            made[places[0]] = replace(
                first, status="regressed", confirmed=True, suspected=False, drifting=True, reason=reason
            )
    return made
