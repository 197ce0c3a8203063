"""From what a group's launches printed to its measurements. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from nccltest.launch.backend import Result
from nccltest.launch.job import Job
from nccltest.measure import rate_of
from nccltest.model import Delta, Fingerprint, Measurement, Outcome, Remark
from nccltest.parse import parse_text
from nccltest.schedule import Group

__all__ = ["Context", "Tally", "collect"]

_WRONG_DATA = 7
_ORDER: tuple[Outcome, ...] = (
    "wrong-data",
    "timeout",
    "failed",
    "incomplete",
    "not-collective",
    "interrupted",
    "ok",
)
"""What counts for a group of which each repeat ended differently."""
_MOST_ERRORS = 8


@dataclass
class Tally:
    """What is known of one group so far."""

    group: Group
    samples: dict[int, list[float]] = field(default_factory=dict)
    """Size -> bus bandwidth of each repeat."""
    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    collective: str = ""
    ranks: int = 0
    nccl: str = ""
    seconds: float = 0.0
    texts: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        """Launches that did not end well."""
        return sum(outcome != "ok" for outcome in self.outcomes)

    def add(self, job: Job, result: Result) -> None:
        """One launch more."""
        self.seconds += result.ended.seconds
        self.texts.append(result.ended.text)
        runs = parse_text(result.ended.text, "output")
        for run in runs:
            self.collective = self.collective or run.collective
            self.ranks = max(self.ranks, run.ranks)
            self.nccl = self.nccl or run.nccl
            for row in run.rows:
                rate = rate_of(run, row)
                if row.size in job.sizes and rate is not None and run.status in ("ok", "incomplete", "failed"):
                    self.samples.setdefault(row.size, []).append(rate)
        statuses: list[Outcome] = [run.status for run in runs]
        outcome = _outcome(result, statuses)
        self.outcomes.append(outcome)
        if outcome != "ok":
            self._tell(result, [error for run in runs for error in run.errors])

    def _tell(self, result: Result, errors: Sequence[str]) -> None:
        told = list(errors) if errors else [f"exit code {result.ended.code}"]
        if result.ended.how != "ended":
            told = [f"{result.ended.how} after {result.ended.seconds:.0f} s", *errors]
        if result.left:
            told.append(f"what it may have left could not be ended on {', '.join(result.left)}")
        self.errors += [each for each in told if each not in self.errors]
        self.unreachable += [node for node in result.unreachable if node not in self.unreachable]


def _outcome(result: Result, statuses: Sequence[Outcome]) -> Outcome:
    how = result.ended.how
    if how == "timeout":
        return "timeout"
    if how == "interrupted":
        return "interrupted"
    worst = _worst(statuses, "failed")
    if result.ended.code == _WRONG_DATA:
        return "wrong-data"
    if how != "ended" or (result.ended.code and worst in ("ok", "incomplete")):
        return "failed"
    return worst


def _worst(outcomes: Sequence[Outcome], none: Outcome) -> Outcome:
    return next((each for each in _ORDER if each in outcomes), none)


@dataclass(frozen=True)
class Context:
    """What all measurements of a round have in common."""

    schedule: str
    round: int
    purpose: str
    time: float
    test: str
    sizes: tuple[int, ...]
    fingerprint: Fingerprint


def collect(
    tally: Tally, context: Context, counters: Iterable[Delta], versions: Mapping[str, str]
) -> tuple[Measurement, ...]:
    """The group's measurements, one for each size; at least one, also where nothing was measured."""
    outcome = _worst(tally.outcomes, "interrupted")
    sizes = [size for size in context.sizes if tally.samples.get(size)] or list(context.sizes[-1:])
    print_ = context.fingerprint
    fingerprint = Fingerprint(
        tally.nccl or print_.nccl, versions.get("driver", ""), versions.get("firmware", ""), print_.env, print_.fabric
    )
    moved = tuple(counters)
    made = []
    for size in sizes:
        samples = tuple(tally.samples.get(size, ()))
        made.append(
            Measurement(
                test=tally.collective or context.test,
                size=size,
                members=tally.group.members,
                busbw=median(samples) if samples else None,
                weight=float(max(len(samples), 1)),
                status=outcome if samples or outcome != "ok" else "incomplete",
                errors=tuple(tally.errors[:_MOST_ERRORS]),
                unreachable=tuple(tally.unreachable),
                kind=tally.group.kind,
                samples=samples,
                ranks=tally.ranks,
                schedule=context.schedule,
                round=context.round,
                purpose=context.purpose,
                time=context.time,
                seconds=tally.seconds,
                fingerprint=fingerprint,
                counters=moved,
                remarks=tuple(tally.remarks),
            )
        )
    return tuple(made)
