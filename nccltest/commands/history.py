"""``roceway-probe history``: what is remembered, and letting a baseline begin anew."""

from __future__ import annotations

import argparse
import json
import time
from math import exp
from statistics import median
from typing import Any

from conf.units import format_bytes
from nccltest.baseline import WINDOW, baseline
from nccltest.commands.judge import history_option
from nccltest.history import History, RunRow
from nccltest.series import Series
from tuner.cli import json_option
from tuner.exits import DONE

_TEXT = """
Without options: the latest runs, then every series with its baseline.
  --accept PATTERN  what is measured from now on is the new normal of matching series: after a change that was meant.
                    PATTERN is compared with "TEST GROUP RAIL"; % stands for anything: "%rail3", "%" for all
  --prune DAYS      forget single points older than that (medians of runs stay)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = f"{parser.description}\n{_TEXT}"
    history_option(parser)
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="runs to list (default: %(default)s)")
    parser.add_argument("--accept", metavar="PATTERN", help="let baselines begin anew")
    parser.add_argument("--prune", type=float, metavar="DAYS", help="forget old points")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """0."""
    with History.open(options.history, create=False) as history:
        if options.accept is not None:
            _told(options.json, {"accepted_series": history.accept(time.time(), options.accept)})
        elif options.prune is not None:
            _told(options.json, {"forgotten_points": history.prune(options.prune)})
        elif options.json:
            runs = [_run_json(each) for each in history.runs(options.runs)]
            print(json.dumps({"runs": runs, "series": [_series_json(history, each) for each in history.series()]}))
        else:
            _show(history, options.runs)
    return DONE


def _told(as_json: bool, result: dict[str, int]) -> None:
    if as_json:
        print(json.dumps(result))
    else:
        print(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in result.items()))


def _run_json(row: RunRow) -> dict[str, Any]:
    return {"schedule": row.schedule, "time": row.time, **row.summary}


def _series_json(history: History, series: Series) -> dict[str, Any]:
    before = history.before(series)
    usual = baseline(before.values[-WINDOW:])
    return {
        **series._asdict(),
        "runs": len(before.runs),
        "latest": exp(before.runs[-1]) if before.runs else None,
        "baseline": exp(usual.centre) if usual else None,
        "sigma_pct": round(100 * usual.sigma, 3) if usual else None,
    }


def _show(history: History, limit: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from nccltest.report.terminal import show

    runs = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("run", "time", "verdict", "suspects"):
        runs.add_column(column, overflow="fold")
    for row in history.runs(limit):
        runs.add_row(*(Text(cell) for cell in _run_cells(row)))
    series = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("series", "rail", "size", "fingerprint"):
        series.add_column(column, overflow="fold")
    for column in ("runs", "GB/s", "usual", "noise"):
        series.add_column(column, justify="right")
    for each in history.series():
        series.add_row(*(Text(cell) for cell in _series_cells(history, each)))
    show(runs, "", series)


def _run_cells(row: RunRow) -> tuple[str, ...]:
    from nccltest.report.terminal import when

    located = row.summary.get("locate", {})
    named = ", ".join(f"{each['kind']} {each['id']}" for each in located.get("suspects", [])[:4])
    return row.schedule, when(row.time), located.get("verdict", ""), named


def _series_cells(history: History, series: Series) -> tuple[str, ...]:
    before = history.before(series)
    usual = baseline(before.values[-WINDOW:])
    latest = f"{exp(median(before.runs[-1:])):.4g}" if before.runs else ""
    learnt = (f"{exp(usual.centre):.4g}", f"{usual.sigma:.1%}") if usual else ("learning", "")
    name = (f"{series.test} {series.group}", series.rail or "all", format_bytes(series.size), series.fingerprint[:8])
    return (*name, str(len(before.runs)), latest, *learnt)
