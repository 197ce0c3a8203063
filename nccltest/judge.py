"""Each measurement against its series' past: noise, or a regression? Pure.

A *series* is what may be compared: one test, one class of groups, one rail (or all), one size, one fingerprint of
software, firmware and configuration. A new fingerprint starts a new series: a driver update is no regression of the
fabric, and its effect is shown as the difference of two baselines, never as an alarm. The value is log of the busbw at
that size, never nccl-tests' average over sizes. Failed runs, wrong data and one-rank runs are told as what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from math import exp, log
from typing import Any, Literal, NamedTuple

import numpy as np

from nccltest.baseline import WINDOW, Baseline, baseline
from nccltest.cusum import drift
from nccltest.detector import SMALLEST, alarm, confirmed, limit, screened
from nccltest.expect import LOW
from nccltest.fdr import outliers, p_value, survivors
from nccltest.locate.names import fold
from nccltest.model import Fingerprint, Measurement

__all__ = [
    "Before",
    "Judgement",
    "Series",
    "Status",
    "bad",
    "judge",
    "parted",
    "series_of",
    "to_confirm",
    "to_json",
]

Status = Literal[
    "ok", "regressed", "improved", "no-baseline", "failed", "wrong-data", "not-collective", "incomplete", "timeout"
]
_BROKEN: tuple[Status, ...] = ("failed", "wrong-data", "incomplete", "timeout")
_CONFIRM = "confirm"
"""The purpose of measurements that check a suspicion."""


class Series(NamedTuple):
    """What is comparable."""

    test: str
    group: str
    """``pair``; ``pair, 16 ranks``; ``whole of 64 (1f3a…)``, where the digits stand for the members; ``half of 32``;
    ``single gpu-1``."""
    rail: str
    """Empty for all rails at once."""
    size: int
    fingerprint: str


class Before(NamedTuple):
    """A series' past, oldest first; this run is not in it. Values are log(busbw)."""

    values: Sequence[float] = ()
    """Of every group, those that were judged regressed left out: they are no part of what is usual."""
    runs: Sequence[float] = ()
    """The median of each run since the series began, regressed groups left out."""


Past = Callable[[Series], Before]
Expected = Callable[[Measurement], float | None]
"""The busbw (GB/s) that line rate allows a group, None where unknown."""


@dataclass(frozen=True)
class Judgement:
    """One group at one size."""

    series: Series
    members: str
    """Folded names."""
    status: Status
    busbw: float | None
    """Median of this run's repeats, GB/s."""
    baseline: float | None = None
    """Median of the series' past, GB/s."""
    runs: int = 0
    """Past values behind the baseline."""
    change_pct: float | None = None
    z: float | None = None
    noise_pct: float | None = None
    """Standard deviation of one healthy value of the series, percent."""
    limit_pct: float | None = None
    """The loss from which it is an alarm, percent."""
    confirmed: bool = False
    suspected: bool = False
    """Slow enough to be run again at once, and not yet confirmed or cleared."""
    drifting: bool = False
    """The series slid down slowly; this run alone shows nothing."""
    of_line_pct: float | None = None
    """Of what line rate allows."""
    reason: str = ""


def series_of(one: Measurement) -> Series:
    """The series that a measurement belongs to."""
    return Series(one.test, _group_class(one), one.rail or "", one.size, _key(one.fingerprint))


def _group_class(one: Measurement) -> str:
    """With the ranks where there are more than one a node: eight do not do what one does."""
    return f"{_members_class(one)}{f', {one.ranks} ranks' if one.ranks > len(one.members) else ''}"


def _members_class(one: Measurement) -> str:
    if one.kind == "pair":
        return "pair"
    if one.kind == "single":
        return f"single {one.nodes[0]}"
    return f"{one.kind} of {len(one.nodes)}{f' ({_digest(one)})' if one.kind == 'whole' else ''}"


@lru_cache(maxsize=1024)
def _key(fingerprint: Fingerprint) -> str:
    return fingerprint.key


def _digest(one: Measurement) -> str:
    return sha256("\0".join(sorted(one.nodes)).encode()).hexdigest()[:4]


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
    usual = {each: baseline(known.values[-_window(each) :]) for each, known in before.items()}
    made = [
        _one(one, each, again.get(group_key(one), ()), before[each], usual[each], expected, smallest)
        for one, each in zip(first, series, strict=True)
    ]
    return tuple(_drifting(_among_peers(_not_by_chance(made)), before))


def parted(
    measurements: Iterable[Measurement],
) -> tuple[tuple[Measurement, ...], dict[object, tuple[Measurement, ...]]]:
    """A run's own measurements, and those that repeat one of them to confirm it, by :func:`group_key`.

    A repeat of something that the run did not measure stands for itself; what was interrupted is left out.
    """
    told = [one for one in measurements if one.status != "interrupted"]
    plain = [one for one in told if one.purpose != _CONFIRM]
    keys = {group_key(one) for one in plain}
    again: dict[object, list[Measurement]] = {}
    for one in told:
        if one.purpose == _CONFIRM and group_key(one) in keys:
            again.setdefault(group_key(one), []).append(one)
    alone = [one for one in told if one.purpose == _CONFIRM and group_key(one) not in keys]
    return (*plain, *alone), {key: tuple(each) for key, each in again.items()}


def group_key(one: Measurement) -> object:
    """Equal for measurements of the same test on the same members at the same size."""
    return one.test, one.size, one.members, one.ranks


def to_confirm(judgements: Sequence[Judgement], measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """The measurements whose groups should be run again, ``detector.CONFIRMATIONS`` times, at once."""
    wanted = {(each.series, each.members) for each in judgements if each.suspected}
    return tuple(one for one in measurements if one.purpose != _CONFIRM and (series_of(one), _names(one)) in wanted)


def bad(judgements: Iterable[Judgement]) -> tuple[Judgement, ...]:
    """Those that an operator must see: regressions and broken runs."""
    return tuple(each for each in judgements if each.status == "regressed" or each.status in _BROKEN)


def _names(one: Measurement) -> str:
    return fold(one.nodes)


def _one(
    one: Measurement,
    series: Series,
    again: Sequence[Measurement],
    before: Before,
    usual: Baseline | None,
    expected: Expected,
    smallest: float,
) -> Judgement:
    plain = Judgement(series, _names(one), "no-baseline", one.busbw)
    if one.status != "ok" or not one.busbw:
        return _without_value(one, plain)
    value, line = log(one.busbw), expected(one)
    of_line = 100 * one.busbw / line if line else None
    plain = replace(plain, of_line_pct=of_line, runs=len(before.values))
    if usual is None:
        return _without_past(plain)
    judged = replace(
        plain,
        baseline=exp(usual.centre),
        runs=usual.count,
        change_pct=100 * (exp(value - usual.centre) - 1),
        z=usual.z(value),
        noise_pct=100 * usual.sigma,
        limit_pct=100 * (1 - exp(-max(smallest, 4 * usual.sigma))),
    )
    repeats = [log(each.busbw) for each in again if each.status == "ok" and each.busbw]
    return _against(judged, value, repeats, usual, smallest, same_group=one.kind in ("whole", "single"))


def _window(series: Series) -> int:
    """Runs have many pairs: a window of runs is one of many more values."""
    return 8 * WINDOW if series.group.startswith(("pair", "half")) else WINDOW


def _without_value(one: Measurement, plain: Judgement) -> Judgement:
    if one.status == "not-collective" or (one.status == "ok" and len(one.members) == 1):
        reason = "one rank has nobody to talk to: busbw is 0 by definition"
        return replace(plain, status="not-collective", reason=reason)
    status: Any = "failed" if one.status == "ok" else one.status
    return replace(plain, status=status, busbw=None, reason=one.errors[0] if one.errors else "")


def _without_past(plain: Judgement) -> Judgement:
    if plain.of_line_pct is not None and plain.of_line_pct < 100 * LOW:
        reason = f"no history, and {plain.of_line_pct:.0f} % of what line rate allows (healthy: 80 to 97 %)"
        return replace(plain, status="regressed", reason=reason)
    return plain


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


def _among_peers(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Groups without a past against the like groups of their own run."""
    made = list(judgements)
    peers: dict[object, list[int]] = {}
    for index, each in enumerate(made):
        if each.status == "no-baseline" and each.busbw:
            peers.setdefault((each.series.test, each.series.group.split()[0], each.series.size), []).append(index)
    for places in peers.values():
        values = [log(made[index].busbw or 1.0) for index in places]
        for index, slow in zip(places, outliers(values), strict=True):
            if slow:
                usual = exp(float(np.median(values)))
                share = 100 * (exp(values[places.index(index)]) / usual - 1)
                reason = f"no history, and {share:.0f} % against the {len(places)} like groups of this run"
                made[index] = replace(made[index], status="regressed", suspected=True, reason=reason)
    return made


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


def to_json(judgement: Judgement) -> dict[str, Any]:
    """The contract's shape, with what stands behind it. Percent and GB/s are rounded to what means something."""
    series = judgement.series
    return {
        "test": series.test,
        "group": series.group,
        "rail": series.rail or None,
        "size": series.size,
        "fingerprint": series.fingerprint,
        "members": judgement.members,
        "status": judgement.status,
        "change_pct": _rounded(judgement.change_pct, 2),
        "z": _rounded(judgement.z, 2),
        "confirmed": judgement.confirmed,
        "suspected": judgement.suspected,
        "drifting": judgement.drifting,
        "busbw": _rounded(judgement.busbw, 4),
        "baseline": _rounded(judgement.baseline, 4),
        "runs": judgement.runs,
        "noise_pct": _rounded(judgement.noise_pct, 2),
        "limit_pct": _rounded(judgement.limit_pct, 2),
        "of_line_pct": _rounded(judgement.of_line_pct, 1),
        "reason": judgement.reason,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
