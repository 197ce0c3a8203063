"""``roceway-probe plan``: the rounds of the next run and what they cost, before anything runs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from secrets import token_hex
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from conf.fabric import Fabric, load
from host.errors import HostError
from nccltest.commands.run import choose, planned, selection_options
from nccltest.launch.job import job_of, launches
from nccltest.launch.manifests import bench_in_pods, documents, objections, priority_class
from nccltest.schedule import Plan, Timing, group_seconds
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE

_EPILOG = """\
kinds of rounds, in fabric.yaml's probe.purposes or with --purposes:
  follow-up   suspects (--suspect nic:gpu-007/rail3) with partners that nobody suspects
  random      pairs of a round-robin tournament: nobody meets the same partner twice before everybody met everybody
  cross-leaf  pairs on different leaves; same-leaf: pairs under one
  whole       all nodes in one group; rail: the same, each rail by itself
  bisect      halves: log2 N rounds spell the number of one faulty node

The budget (probe.budget.gpuSecondsPerDay) is counted over the 24 hours before now, from the folder of --state.

exit codes: 0 printed, also when the budget allows nothing; 2 bad input"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    fabric_options(parser, node=False)
    selection_options(parser)
    parser.add_argument("--manifests", type=Path, metavar="DIR", help="write a Kubernetes manifest for each group")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Print the plan."""
    fabric = load(options.fabric)
    choice = choose(options, fabric)
    plan = planned(choice, time.time())
    if options.manifests is not None:
        _write(fabric, plan, options.manifests)
    if options.json:
        print(json.dumps(_document(plan, choice.timing)))
    else:
        _show(plan, choice.timing)
    return DONE


def _write(fabric: Fabric, plan: Plan, folder: Path) -> None:
    """``ROUND-GROUP.yaml`` for each group, and the priority class. HostError where the folder refuses."""
    objections(fabric)
    bench = bench_in_pods(fabric)
    kubernetes = fabric.probe.kubernetes
    texts = {"priority-class.yaml": [priority_class(kubernetes)]}
    for number, one in enumerate(plan.rounds):
        for place, group in enumerate(one.groups):
            walk = launches(bench.sizes)[0]
            job = job_of(bench, group, token_hex(4), walk, fabric.probe.timeout / 1e6)
            texts[f"round-{number:02}-group-{place:04}.yaml"] = list(documents(job, kubernetes))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, made in texts.items():
            (folder / name).write_text(yaml.safe_dump_all(made, sort_keys=False))
    except OSError as error:
        raise HostError("write to", str(folder), error.errno or 0) from error


def _document(plan: Plan, timing: Timing) -> dict[str, Any]:
    return {
        "rounds": [
            {
                "purpose": one.purpose,
                "seconds": round(max(group_seconds(group, timing) for group in one.groups), 1),
                "groups": [
                    {"kind": group.kind, "rail": group.rail, "nodes": list(group.nodes)} for group in one.groups
                ],
            }
            for one in plan.rounds
        ],
        "minutes": round(plan.cost.minutes, 2),
        "gpu_minutes": round(plan.cost.gpu_minutes, 2),
        "busiest_seconds": round(plan.cost.busiest_seconds, 1),
        "dropped": list(plan.dropped),
    }


_SHOWN = 4


def _show(plan: Plan, timing: Timing) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("round", "purpose", "groups", "seconds", "who"):
        table.add_column(name, justify="right" if name in ("round", "groups", "seconds") else "left")
    for number, one in enumerate(plan.rounds):
        who = [_named(group.nodes, group.rail) for group in one.groups[:_SHOWN]]
        more = f" … {len(one.groups) - _SHOWN} more" if len(one.groups) > _SHOWN else ""
        seconds = max(group_seconds(group, timing) for group in one.groups)
        table.add_row(str(number), one.purpose, str(len(one.groups)), f"{seconds:.0f}", "  ".join(who) + more)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    cost = plan.cost
    console.print(
        f"{cost.rounds} rounds, {cost.minutes:.1f} minutes, {cost.gpu_minutes:.1f} GPU-minutes; "
        f"the busiest node {cost.busiest_seconds:.0f} s",
        highlight=False,
    )
    for text in plan.dropped:
        console.print(f"left out: {text}", highlight=False)


def _named(nodes: tuple[str, ...], rail: str | None) -> str:
    who = "+".join(nodes) if len(nodes) <= 2 else f"{len(nodes)} nodes"
    return f"{who}/{rail}" if rail else who
