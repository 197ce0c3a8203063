"""``roceway-probe run``: measure, and record what was measured as JSON lines."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric, load
from conf.hostlist import expand
from conf.node import node_names
from conf.probe import Purpose
from nccltest.commands.judge import history_option
from nccltest.conclude import by_run, conclude, settled
from nccltest.detector import CONFIRMATIONS
from nccltest.history import History
from nccltest.judge import to_confirm
from nccltest.launch.backend import backend_of
from nccltest.launch.job import bench_of, environment_hash, fabric_hash
from nccltest.launch.process import Signals
from nccltest.launch.version import library_version
from nccltest.locate.cabling import Cabling, from_fabric
from nccltest.locate.verdict import locate
from nccltest.model import Fingerprint, Measurement, Member, to_json
from nccltest.run_record import Record, recent
from nccltest.run_session import RESERVE, Limits, Session
from nccltest.schedule import Group, Plan, Policy, Round, Suspicion, Timing, cost_of, make_plan, past_of
from nccltest.schedule.plan import PURPOSES
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE, FOUND, REFUSED

__all__ = ["Choice", "choose", "planned", "selection_options"]

_STATE = Path("/var/lib/roceway/probe")
_MICROSECONDS = 1e6
_MEGABITS = 8000.0
"""Mb/s in a GB/s."""
_DAYS = 32
"""Daily files that the next plan looks at."""
_EVIDENCE = 3 * 86_400.0
"""Seconds for which a measurement says something about the fabric as it is."""
_MOST_SUSPECTS = 16
_KINDS = ("node", "nic", "leaf", "uplink", "spine", "global")

_EPILOG = """\
Each round is recorded in --state DIR (one file of JSON lines a day) before the next begins, so that nothing already
measured is lost however the run ends. SIGINT and SIGTERM end all ranks, here and on the members; no process is left.

What looks slow against its past (--history, which judge keeps), against line rate or among its like is measured again
at once, five times, as far as the budget goes: only a confirmed loss is called a regression.

  roceway-probe run -f fabric.yaml                              the routine: what the budget allows
  roceway-probe run -f fabric.yaml --group gpu-001,gpu-002/rail0    one group again
  roceway-probe run -f fabric.yaml --suspect node:gpu-007       its links with partners that nobody suspects

exit codes: 0 every group was measured; 1 a group failed, hung or had wrong data; 2 bad input; 3 nothing could be
launched, or the run was interrupted"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    fabric_options(parser, node=False)
    selection_options(parser)
    parser.add_argument("--no-confirm", action="store_true", help="do not measure again what looks slow")
    history_option(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="append the JSON lines to FILE as well")
    json_option(parser)


def selection_options(parser: argparse.ArgumentParser) -> None:
    """Which nodes, which rounds, at what cost: the same words for plan and run."""
    parser.add_argument(
        "--nodes", metavar="HOSTLIST", help="only these, as gpu-[001-008] (default: all of fabric.yaml)"
    )
    parser.add_argument("--purposes", metavar="KIND,…", help="kinds of rounds (default: probe.purposes)")
    parser.add_argument("--suspect", action="append", default=[], metavar="KIND:ID", help="follow this up first")
    parser.add_argument(
        "--group", action="append", default=[], metavar="NODE,NODE…[/RAIL]", help="only this group; again for more"
    )
    parser.add_argument("--seed", default="", help="of the lottery (default: the time)")
    parser.add_argument("--state", type=Path, default=_STATE, metavar="DIR", help="(default: %(default)s)")
    parser.add_argument("--no-budget", action="store_true", help="measure whatever was spent today")


@dataclass(frozen=True)
class Choice:
    """What is to be planned."""

    nodes: tuple[str, ...]
    cabling: Cabling
    policy: Policy
    timing: Timing
    suspects: tuple[Suspicion, ...]
    groups: tuple[Group, ...]
    """Only these, if any."""
    seed: str
    state: Path


def choose(options: argparse.Namespace, fabric: Fabric) -> Choice:
    """What options and fabric.yaml ask for. ConfigError with every mistake in the options."""
    probe = fabric.probe
    findings: list[Finding] = []
    every = node_names(fabric)
    nodes = _nodes(options.nodes, every, findings)
    rails = tuple(rail.name for rail in fabric.rails)
    suspects = tuple(each for text in options.suspect if (each := _suspicion(text, findings)))
    groups = tuple(group for text in options.group if (group := _group(text, every, rails, findings)))
    purposes = _purposes(options.purposes, findings) or probe.purposes
    if findings:
        raise ConfigError("options", findings)
    speed = min(kind.speed for kind in fabric.node_types.values())
    return Choice(
        nodes=nodes,
        cabling=from_fabric(fabric),
        policy=Policy(
            purposes=purposes,
            matchings=probe.rounds,
            rails=probe.rails,
            budget=1e9 if options.no_budget else float(probe.budget.gpu_seconds_per_day),
            reserve=RESERVE,
        ),
        timing=Timing(
            sizes=probe.sizes,
            repeats=probe.repeats,
            warmups=probe.warmups,
            iterations=probe.iterations,
            nic_rate=speed / _MEGABITS,
            rails=len(rails),
            startup=probe.startup / _MICROSECONDS,
            timeout=probe.timeout / _MICROSECONDS,
            gpus=probe.gpus_per_node or len(rails),
        ),
        suspects=suspects,
        groups=groups,
        seed=options.seed,
        state=options.state,
    )


def _nodes(text: str | None, every: Sequence[str], findings: list[Finding]) -> tuple[str, ...]:
    if text is None:
        return tuple(every)
    try:
        wanted = expand(text)
    except ValueError as error:
        findings.append(Finding("--nodes", str(error)))
        return ()
    known = set(every)
    findings += [Finding("--nodes", f"{node} is no node of fabric.yaml") for node in wanted if node not in known]
    return wanted


def _purposes(text: str | None, findings: list[Finding]) -> tuple[Purpose, ...]:
    words = [word for word in (text or "").split(",") if word]
    known: dict[str, Purpose] = {purpose: purpose for purpose in PURPOSES}
    findings += [
        Finding("--purposes", f"{word} is not one of {', '.join(known)}") for word in words if word not in known
    ]
    return tuple(known[word] for word in words if word in known)


def _suspicion(text: str, findings: list[Finding]) -> Suspicion | None:
    kind, _, name = text.partition(":")
    if kind in _KINDS and name:
        return Suspicion(kind, name)
    findings.append(Finding("--suspect", f"{text} is not KIND:ID, such as node:gpu-007 or nic:gpu-007/rail3"))
    return None


def _group(text: str, every: Sequence[str], rails: Sequence[str], findings: list[Finding]) -> Group | None:
    names, slash, rail = text.partition("/")
    nodes = tuple(names.split(","))
    known = set(every)
    strange = [node for node in nodes if node not in known]
    findings += [Finding("--group", f"{node or 'an empty name'} is no node of fabric.yaml") for node in strange]
    if slash and rail not in rails:
        findings.append(Finding("--group", f"{rail or 'an empty name'} is no rail of fabric.yaml"))
    elif len(set(nodes)) < max(len(nodes), 2):
        findings.append(Finding("--group", f"{text}: a group is two nodes or more, each once"))
    elif not strange:
        members = tuple(Member(node, rail or None) for node in nodes)
        return Group(members, "pair" if len(nodes) == 2 else "whole")
    return None


def planned(choice: Choice, now: float) -> Plan:
    """The plan of a run that begins now, in Unix seconds."""
    if choice.groups:
        rounds = tuple(Round("confirm", (group,)) for group in choice.groups)
        return Plan(rounds, cost_of(rounds, choice.timing), ())
    told = recent(choice.state, _DAYS)
    return make_plan(
        choice.nodes,
        choice.cabling,
        choice.policy,
        choice.timing,
        past=past_of(told, now),
        suspects=choice.suspects or _still_suspected(told, choice, now),
        seed=choice.seed or str(now),
    )


def _still_suspected(told: Sequence[Measurement], choice: Choice, now: float) -> tuple[Suspicion, ...]:
    """What the evidence of the last days points at, taken together."""
    late = [each for each in told if now - each.time < _EVIDENCE]
    fresh = [each for run in by_run(late) for each in settled(run)]
    if "follow-up" not in choice.policy.purposes or not fresh:
        return ()
    verdict = locate(fresh, choice.cabling)
    return tuple(dict.fromkeys(Suspicion(each.kind, each.id) for each in verdict.suspects))[:_MOST_SUSPECTS]


def run(options: argparse.Namespace) -> int:
    """Measure. 1 where a group was not measured well."""
    fabric = load(options.fabric)
    choice = choose(options, fabric)
    backend = backend_of(fabric)
    bench = bench_of(fabric)
    with Record(choice.state, copy=options.output) as record, Signals() as stop:
        now = time.time()
        spent = past_of(recent(choice.state, 2), now).spent
        session = Session(
            bench,
            backend,
            Limits(fabric.probe.repeats, choice.timing.timeout, choice.policy.budget, spent),
            Fingerprint(
                nccl=library_version(backend.name, fabric.probe.benchmark),
                env=environment_hash(bench),
                fabric=fabric_hash(fabric),
            ),
            record,
            _Printed(),
            stop,
            schedule=f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}-{token_hex(3)}",
        )
        plan = planned(choice, now)
        measured = session.run(plan)
        if not options.no_confirm and not choice.groups:
            again = confirmation(_suspected(measured, fabric, options.history), choice.timing)
            measured += session.run(again, first=len(plan.rounds))
        interrupted = stop()
    if options.json:
        print(json.dumps(_document(session.schedule, measured)))
    return _exit_code(measured, interrupted)


def _suspected(measured: Sequence[Measurement], fabric: Fabric, path: Path) -> tuple[Measurement, ...]:
    """What looks slow against its past, against line rate or among its like: to be measured again at once."""
    with ExitStack() as stack:
        history = stack.enter_context(History.open(path)) if path.exists() else None
        conclusion = conclude(measured, history=history, fabric=fabric)
    return to_confirm(conclusion.judgements, conclusion.measurements)


def confirmation(suspected: Sequence[Measurement], timing: Timing) -> Plan:
    """The groups of these measurements again, as often as a confirmation takes, as many at a time as do not meet."""
    waiting = list(dict.fromkeys(Group(each.members, each.kind) for each in suspected))
    rounds: list[Round] = []
    while waiting:
        taken: list[Group] = []
        busy: set[str] = set()
        for group in waiting:
            if not busy & set(group.nodes):
                taken.append(group)
                busy |= set(group.nodes)
        waiting = [group for group in waiting if group not in taken]
        rounds += [Round("confirm", tuple(taken))] * CONFIRMATIONS
    return Plan(tuple(rounds), cost_of(rounds, timing), ())


def _document(schedule: str, measured: Sequence[Measurement]) -> dict[str, Any]:
    return {"schedule": schedule, "measurements": [to_json(each) for each in measured]}


def _exit_code(measured: Sequence[Measurement], interrupted: bool) -> int:
    nothing = all(each.busbw is None and each.status == "failed" for each in measured)
    if interrupted or (measured and nothing):
        return REFUSED
    return DONE if all(each.status == "ok" for each in measured) else FOUND


class _Printed:
    """Progress on stderr: plain lines, one for each group."""

    def begins(self, number: int, of: int, one: Round) -> None:
        """A round begins."""
        self.says(f"round {number + 1} of {of}: {one.purpose}, {len(one.groups)} groups of {len(one.nodes)} nodes")

    def measured(self, measurements: Sequence[Measurement]) -> None:
        """A line for each group and size."""
        for each in measurements:
            who = "+".join(each.nodes) if len(each.nodes) <= 4 else f"{len(each.nodes)} nodes"
            rate = "no bandwidth" if each.busbw is None else f"{each.busbw:.4g} GB/s"
            reasons: list[str] = [each.status] if each.status != "ok" else []
            reasons += [f"{', '.join(each.unreachable)} out of reach"] if each.unreachable else []
            reasons += list(each.errors[:1])
            rail = f"/{each.rail}" if each.rail else ""
            self.says(f"  {who}{rail} {each.size} B: {rate}{''.join(f'; {reason}' for reason in reasons)}")
            for remark in each.remarks:
                self.says(f"    {remark.rule}: {remark.where}: {remark.text}")

    def says(self, text: str) -> None:
        """One line."""
        print(text, file=sys.stderr, flush=True)
