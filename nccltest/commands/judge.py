"""``roceway-probe judge``: is it slower than it was?"""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path

from conf.fabric import load
from nccltest.commands.locate import read
from nccltest.conclude import Conclusion, by_run, conclude
from nccltest.history import DEFAULT, History
from nccltest.judgement import to_json as judgement_to_json
from nccltest.locate.verdict import to_json as verdict_to_json
from nccltest.remember import remember
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE, FOUND

_TEXT = """
FILE holds measurements as JSON lines (`run` writes them, `parse` makes them of logs); - is stdin. Each is compared with
the past of its series: same test, class of groups, rail, size, and same NCCL, drivers, firmware, environment and
fabric.yaml. Twelve runs make a baseline. What looks slow should be run again at once, five times (`run` does so):
only then it is called confirmed. docs/figures/judge.md tells how often this is right.

Without a baseline a group is held against line rate (-f fabric.yaml) and against its like in the same run.
The runs are then remembered in --history, each once, however often the same file is judged.
"""


def history_option(parser: argparse.ArgumentParser) -> None:
    """``--history FILE``: the same words wherever the history is used."""
    parser.add_argument(
        "--history",
        type=Path,
        default=DEFAULT,
        metavar="DB",
        help="SQLite file, on a local disk (default: %(default)s)",
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = f"{parser.description}\n{_TEXT}"
    parser.add_argument("file", type=Path, metavar="FILE", help="measurements, JSON lines; - for stdin")
    history_option(parser)
    parser.add_argument("--no-record", action="store_true", help="compare only, remember nothing")
    fabric_options(parser, required=False, node=False)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """0: as it was. 1: something regressed or broke."""
    fabric = load(options.fabric) if options.fabric else None
    runs = by_run(read(options.file))
    made: list[Conclusion] = []
    with ExitStack() as stack:
        history = _history(options)
        if history is not None:
            stack.enter_context(history)
        for each in runs:
            conclusion = conclude(each, history=history, fabric=fabric)
            if history is not None and not options.no_record:
                remember(conclusion, history)
            made.append(conclusion)
        if history is not None and not options.no_record:
            history.prune()
    _print(made, as_json=options.json)
    return DONE if all(each.healthy for each in made) else FOUND


def _history(options: argparse.Namespace) -> History | None:
    """None where nothing may be written and nothing is there to be read."""
    if options.no_record and not options.history.exists():
        return None
    return History.open(options.history)


def _print(made: list[Conclusion], *, as_json: bool) -> None:
    if as_json:
        series = [judgement_to_json(each) for conclusion in made for each in conclusion.judgements]
        verdict = verdict_to_json(made[-1].verdict) if made else None
        print(json.dumps({"series": series, "locate": verdict}, ensure_ascii=False))
        return
    from nccltest.report.terminal import conclusion_table, show

    show(*(conclusion_table(each) for each in made))
