"""From measurements to a conclusion: judged against history, located, remembered. Every entrance comes through here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import log
from statistics import median

from conf.fabric import Fabric
from conf.hostlist import expand
from nccltest.causes import Cause, causes
from nccltest.expect import expected_busbw
from nccltest.history import History
from nccltest.judge import judge
from nccltest.judgement import Before, Expected, Judgement, bad
from nccltest.locate.cabling import Cabling, from_fabric
from nccltest.locate.levels import USUAL_NOISE
from nccltest.locate.verdict import Verdict, locate
from nccltest.model import Measurement, write_measurements
from nccltest.paths import with_paths
from nccltest.series import Series, group_key, parted, series_of

__all__ = ["Conclusion", "by_run", "conclude", "line_rate", "settled"]

_APART = 1.06
"""Baselines of two classes of paths that differ by more have levels of their own; healthy paths of one class differ by
up to 5 %."""


@dataclass(frozen=True)
class Conclusion:
    """What one run says."""

    schedule: str
    time: float
    """When its last measurement began, Unix seconds; 0 where none says."""
    measurements: tuple[Measurement, ...]
    judgements: tuple[Judgement, ...]
    verdict: Verdict
    causes: tuple[Cause, ...] = ()
    """What may be behind each suspect, and what NCCL's log objects to."""

    @property
    def healthy(self) -> bool:
        """Nothing regressed, nothing broke, nobody is suspected."""
        return self.verdict.verdict == "healthy" and not bad(self.judgements)


def conclude(
    measurements: Sequence[Measurement], *, history: History | None = None, fabric: Fabric | None = None
) -> Conclusion:
    """Judge one run against ``history`` and locate what is slow. Writes nothing; ``remember`` does."""
    name = _name(measurements)
    cabling = from_fabric(fabric) if fabric else Cabling({})
    measurements = with_paths(measurements, cabling)
    past: Callable[[Series], Before] = (lambda each: history.before(each, name)) if history else lambda _: Before()
    expected = line_rate(fabric) if fabric else lambda _: None
    smallest = fabric.probe.threshold / 100 if fabric else 0.04
    judgements = judge(measurements, past, expected=expected, smallest=smallest)
    evidence = settled(measurements)
    verdict = locate(evidence, cabling, _own_past(evidence, judgements), _noise(judgements))
    began = max((one.time for one in measurements), default=0.0)
    priority = fabric.qos.lossless.priority if fabric else None
    why = causes(verdict, measurements, cabling, priority)
    return Conclusion(name, began, tuple(measurements), judgements, verdict, why)


def by_run(measurements: Sequence[Measurement]) -> list[tuple[Measurement, ...]]:
    """A file may hold several runs: each by itself, oldest first."""
    runs: dict[str, list[Measurement]] = {}
    for one in measurements:
        runs.setdefault(one.schedule, []).append(one)
    return [tuple(run) for run in sorted(runs.values(), key=lambda run: max(one.time for one in run))]


def line_rate(fabric: Fabric) -> Expected:
    """The busbw (GB/s) that the members' NICs allow a Ring; None on one node and for unknown nodes."""
    speeds = {
        node: fabric.node_types[group.type].speed / 8000 for group in fabric.nodes for node in expand(group.match)
    }

    def expected(one: Measurement) -> float | None:
        known = [speeds[node] for node in one.nodes if node in speeds]
        if len(known) != len(one.nodes) or len(known) < 2:
            return None
        rails = 1 if one.rail else len(fabric.rails)
        ranks = max(one.ranks or len(one.members), len(known))
        return expected_busbw(min(known), one.test, ranks, len(known), rails)

    return expected


def _name(measurements: Sequence[Measurement]) -> str:
    """The run's id; a digest where the file gives none, so that the same file is the same run."""
    names = [one.schedule for one in measurements if one.schedule]
    return names[0] if names else sha256(write_measurements(measurements).encode()).hexdigest()[:16]


def settled(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One run's evidence. What was measured again counts once, with the median of the repeats: a stray value blames
    nobody."""
    first, again = parted(measurements)
    made = []
    for one in first:
        repeats = [each.busbw for each in again.get(group_key(one), ()) if each.status == "ok" and each.busbw]
        made.append(replace(one, busbw=median(repeats)) if repeats and one.status == "ok" else one)
    return made


def _noise(judgements: Sequence[Judgement]) -> float:
    """Of one healthy measurement, as the past tells it: four nodes' pairs are too few to tell it themselves."""
    return median([each.noise_pct / 100 for each in judgements if each.noise_pct] or [USUAL_NOISE])


def _own_past(measurements: Sequence[Measurement], judgements: Sequence[Judgement]) -> list[float | None]:
    """For each measurement what its own group used to have.

    Pairs are drawn anew for each run, so theirs is that of their class, and it is asked only where a comparison among
    themselves would hide something: when the whole class moved, or when its paths have a level of their own, which a
    slow uplink could be taken for.
    """
    usual = {each.series: each.baseline for each in judgements if each.baseline}
    moved = {
        series
        for series, before in usual.items()
        if median([log(each.busbw / before) for each in judgements if each.series == series and each.busbw] or [0])
        < -0.04
    }
    asked = moved | _with_levels(measurements, usual)
    return [
        usual.get(series_of(one)) if one.kind in ("whole", "single") or series_of(one) in asked else None
        for one in measurements
    ]


def _with_levels(measurements: Sequence[Measurement], usual: Mapping[Series, float]) -> set[Series]:
    """The series of pairs whose paths (same leaf, across leaves) used to have levels of their own."""
    families: dict[tuple[object, ...], set[Series]] = {}
    for one in measurements:
        if one.path and series_of(one) in usual:
            families.setdefault((one.test, one.size, one.ranks, one.rail), set()).add(series_of(one))
    apart = [
        each
        for each in families.values()
        if max(map(usual.__getitem__, each)) > _APART * min(map(usual.__getitem__, each))
    ]
    return {series for each in apart for series in each}
