"""``roceway-probe parse``: recorded logs as runs, or as measurements for ``judge`` and ``locate``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from conf.errors import ConfigError, Finding
from conf.units import parse_bytes
from nccltest.logfile import read_runs
from nccltest.measure import measurements_of, rate_of
from nccltest.model import Run, run_to_json, write_measurements
from tuner.cli import json_option
from tuner.exits import DONE, FOUND

_EPILOG = """\
FILE is the output of nccl-tests of any version (text, or -J JSON), of rccl-tests, or of `roceway-probe`'s own
benchmark; what mpirun, srun, kubectl, SkyPilot and others put around it does not matter. `-` is standard input.

statuses: ok; failed (a launch or NCCL failed); wrong-data (corruption, never a question of speed); not-collective
(one rank: nothing went over a network); incomplete (it ends too early). None means "slow": that is judge's word.

  roceway-probe parse run.log
  roceway-probe parse --measurements pairs/*.log | roceway-probe locate -

exit codes: 0 every run is ok; 1 one is not; 2 a file cannot be read"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("file", nargs="+", type=Path, metavar="FILE", help="a log; - for standard input")
    json_option(parser)
    parser.add_argument("--measurements", action="store_true", help="JSON lines for judge and locate instead")
    parser.add_argument("--smallest", default="0B", metavar="SIZE", help="with --measurements: leave out smaller sizes")


def run(options: argparse.Namespace) -> int:
    """Print the runs. 1 where one is not ok."""
    try:
        smallest = int(parse_bytes(options.smallest))
    except ValueError as error:
        raise ConfigError("--smallest", [Finding("", str(error))]) from None
    runs = _read(options.file)
    if options.measurements:
        sys.stdout.write("".join(write_measurements(measurements_of(each, smallest=smallest)) for each in runs))
    elif options.json:
        print(json.dumps({"runs": [run_to_json(each) for each in runs]}))
    else:
        _show(runs)
    return DONE if all(each.status == "ok" for each in runs) else FOUND


def _read(paths: Sequence[Path]) -> list[Run]:
    """All runs of all files; ConfigError that names every file that cannot be read."""
    runs: list[Run] = []
    findings: list[Finding] = []
    for path in paths:
        try:
            runs += read_runs(path)
        except ConfigError as error:
            findings += [Finding(str(path), finding.message) for finding in error.findings]
    if findings:
        raise ConfigError("logs", findings)
    return runs


def _show(runs: Sequence[Run]) -> None:
    terminal = sys.stdout.isatty()
    table = Table(box=None, pad_edge=False)
    for name in ("run", "collective", "ranks", "nodes", "status", "rows", "largest", "busbw GB/s", "version"):
        table.add_column(
            name, justify="right" if name in ("ranks", "nodes", "rows", "largest", "busbw GB/s") else "left"
        )
    for each in runs:
        table.add_row(*_cells(each), style=None if each.status == "ok" else "red")
    console = Console(width=None if terminal else 200)
    console.print(table)
    for each in runs:
        for error in each.errors:
            console.print(f"{each.source}: {error}", markup=False, highlight=False)


def _cells(run: Run) -> tuple[str, ...]:
    largest = max(run.rows, key=lambda row: row.size, default=None)
    rate = None if largest is None else rate_of(run, largest)
    return (
        run.source,
        run.collective or "?",
        str(run.ranks or "?"),
        str(run.nodes or "?"),
        run.status,
        str(len(run.rows)),
        "-" if largest is None else str(largest.size),
        "-" if rate is None else f"{rate:.4g}",
        run.version or "?",
    )
