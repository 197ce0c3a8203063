"""A plan carried out: round after round, each recorded before the next, within the budget whatever hangs."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Protocol

from nccltest import counters
from nccltest.launch.backend import Result
from nccltest.launch.job import Bench, Job, job_of, launches
from nccltest.launch.process import GRACE
from nccltest.launch.remote import Answer
from nccltest.model import Delta, Fingerprint, Measurement
from nccltest.nccllog import Intended, check
from nccltest.run_collect import Context, Tally, collect
from nccltest.schedule import Group, Plan, Round

__all__ = ["RESERVE", "Limits", "Progress", "Session"]

_READING = 30.0
"""Seconds for a host to tell its counters."""
_LEAST = 2.0
"""Seconds below which nothing is started any more."""
RESERVE = 2 * GRACE
"""Seconds of the budget that are kept for ending what hangs."""
_BAD = 2
"""Launches that may fail before a group's further repeats are given up: one may be a flap."""


class Hosts(Protocol):
    """Small commands on the members."""

    def everywhere(self, commands: Mapping[str, str], timeout: float, stop: Callable[[], bool]) -> dict[str, Answer]:
        """Each host's answer."""


class Launcher(Protocol):
    """What runs a round's jobs."""

    @property
    def shell(self) -> Hosts | None:
        """None where hosts cannot be asked."""

    def run(self, jobs: Sequence[Job], stop: Callable[[], bool]) -> list[Result]:
        """Each job's result."""


class Keeper(Protocol):
    """Who keeps what was measured."""

    def append(self, measurements: Sequence[Measurement]) -> object:
        """A round's measurements, onto the disk."""

    def keep_output(self, name: str, text: str) -> None:
        """What a group printed that did not end well."""


class Progress(Protocol):
    """Who is told."""

    def begins(self, number: int, of: int, one: Round) -> None:
        """A round begins."""

    def measured(self, measurements: Sequence[Measurement]) -> None:
        """A round has been measured and recorded."""

    def says(self, text: str) -> None:
        """Something that the operator should know."""


@dataclass(frozen=True)
class Limits:
    """How often, and how long at most."""

    repeats: int
    timeout: float
    """Seconds of a round."""
    budget: float
    """Seconds of each node in 24 hours."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """What each node has spent of them before this run."""


class Session:
    """One run."""

    def __init__(
        self,
        bench: Bench,
        launcher: Launcher,
        limits: Limits,
        fingerprint: Fingerprint,
        record: Keeper,
        progress: Progress,
        stop: Callable[[], bool],
        *,
        schedule: str,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.bench = bench
        self.launcher = launcher
        self.limits = limits
        self.fingerprint = fingerprint
        self.record = record
        self.progress = progress
        self.stop = stop
        self.schedule = schedule
        self.spent: Counter[str] = Counter()
        self._clock = clock
        self._now = now

    def run(self, plan: Plan, first: int = 0) -> list[Measurement]:
        """Carry the plan out; everything that was measured. What is stopped ends with a record that says so.

        ``first`` is the number of its first round.
        """
        made: list[Measurement] = []
        for number, one in enumerate(plan.rounds, first):
            if self.stop():
                break
            affordable = self._affordable(one)
            if affordable.groups:
                self.progress.begins(number, first + len(plan.rounds), affordable)
                measured = self._round(number, affordable)
                self.record.append(measured)
                self.progress.measured(measured)
                made += measured
        return made

    def left(self, node: str) -> float:
        """Seconds that a node may still spend, less what ending a hung job takes."""
        used = self.limits.spent.get(node, 0.0) + self.spent[node]
        return self.limits.budget - used - RESERVE

    def _affordable(self, one: Round) -> Round:
        groups = tuple(group for group in one.groups if all(self.left(node) >= _LEAST for node in group.nodes))
        if len(groups) < len(one.groups):
            self.progress.says(f"{one.purpose}: {len(one.groups) - len(groups)} groups have no budget left")
        return Round(one.purpose, groups)

    def _round(self, number: int, one: Round) -> list[Measurement]:
        began = self._now()
        before = self._read(one)
        tallies = {group: Tally(group) for group in one.groups}
        deadline = self._clock() + min(self.limits.timeout, *(self.left(node) for node in one.nodes))
        for _ in range(self.limits.repeats):
            for walk in launches(self.bench.sizes):
                self._launch(tallies, walk, deadline)
        self._spend(tallies)
        after = {} if self.stop() else self._read(one)
        context = Context(
            self.schedule,
            number,
            one.purpose,
            began,
            "all_reduce",
            tuple(sorted(set(self.bench.sizes))),
            self.fingerprint,
        )
        return [each for tally in tallies.values() for each in self._collected(tally, context, before, after)]

    def _launch(self, tallies: Mapping[Group, Tally], walk: tuple[int, int, int], deadline: float) -> None:
        seconds = deadline - self._clock()
        if seconds < _LEAST or self.stop():
            return
        going = [tally for tally in tallies.values() if tally.bad < _BAD and "timeout" not in tally.outcomes]
        jobs = [job_of(self.bench, tally.group, token_hex(8), walk, seconds) for tally in going]
        if jobs:
            for tally, job, result in zip(going, jobs, self.launcher.run(jobs, self.stop), strict=True):
                tally.add(job, result)

    def _spend(self, tallies: Mapping[Group, Tally]) -> None:
        busy: dict[str, float] = {}
        for tally in tallies.values():
            for node in tally.group.nodes:
                busy[node] = max(busy.get(node, 0.0), tally.seconds)
        for node, seconds in busy.items():
            self.spent[node] += seconds  # type: ignore[assignment]  # a Counter adds floats as well

    def _read(self, one: Round) -> dict[tuple[str, str], counters.Reading]:
        """(node, rail) -> its NIC now, of every NIC that takes part and that fabric.yaml names."""
        if self.launcher.shell is None:
            return {}
        nics: dict[str, dict[str, str]] = {}
        for node, rail in self._members(one):
            nic = self.bench.nics.get((node, rail))
            if nic is not None:
                nics.setdefault(node, {})[nic] = rail
        commands = {node: shlex.join(counters.command(names)) for node, names in nics.items()}
        answers = self.launcher.shell.everywhere(commands, _READING, self.stop)
        return {
            (node, nics[node][nic]): reading
            for node, answer in answers.items()
            for nic, reading in counters.parse(answer.text).items()
            if nic in nics[node]
        }

    def _members(self, one: Round) -> Iterator[tuple[str, str]]:
        for group in one.groups:
            for member in group.members:
                rails = self.bench.rails if member.rail is None else (member.rail,)
                yield from ((member.node, rail) for rail in rails)

    def _collected(
        self,
        tally: Tally,
        context: Context,
        before: Mapping[tuple[str, str], counters.Reading],
        after: Mapping[tuple[str, str], counters.Reading],
    ) -> tuple[Measurement, ...]:
        places = list(self._members(Round("", (tally.group,))))
        moved: list[Delta] = []
        for node, rail in places:
            if (node, rail) in before and (node, rail) in after:
                moved += counters.deltas(node, rail, before[node, rail], after[node, rail])
        seen = [before[place] for place in places if place in before]
        versions = {
            "driver": ", ".join(sorted({each.driver for each in seen if each.driver})),
            "firmware": ", ".join(sorted({each.firmware for each in seen if each.firmware})),
        }
        if tally.bad:
            place = "+".join(tally.group.nodes[:2]) + (f"-{tally.group.rail}" if tally.group.rail else "")
            self.record.keep_output(f"{self.schedule}-{context.round:03}-{place}", "\n".join(tally.texts))
        tally.remarks += check("\n".join(tally.texts), self._intended(tally.group))
        return collect(tally, context, moved, versions)

    def _intended(self, group: Group) -> Intended:
        rails = self.bench.rails if group.rail is None else (group.rail,)
        return Intended(
            rails, {rail: self.bench.hcas[rail] for rail in rails if rail in self.bench.hcas}, self.bench.traffic_class
        )
