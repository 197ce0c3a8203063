"""What the demo makes of mpirun's output: a rate, a drop, a sentence, a table."""

from __future__ import annotations

import pytest
from rich.console import Console

from nccltest import mpi_allreduce as bench
from tests.demo.allreduce import Measured, parse
from tests.demo.process import CommandError, Done
from tests.demo.table import Line, comparison, dropped, table

LINES = {"rail0": Line("10.200.0.0/24", "nic0", 50e6), "rail1": Line("10.201.0.0/24", "nic1", 50e6)}


def measured(*rates: float) -> list[Measured]:
    """Rail i at rate i, in MB/s."""
    return [Measured(f"rail{number}", rate * 1e6, 0) for number, rate in enumerate(rates)]


def output(row: bench.Row) -> Done:
    """What four ranks print."""
    options = bench.Options(8 << 20, 8 << 20, 1 << 20, 1, 5, 1, 1)
    parts = [bench.header(options, [(1, "pod0")]), bench.line(row, 4), bench.footer([row], 4)]
    return Done(0, "\n".join(parts) + "\n", "[pod0] a warning")


def test_rates_come_from_time_since_the_columns_are_too_coarse() -> None:
    row = bench.Row(2_000_000, bench.Half(0.3, 0), bench.Half(0.2, 3))
    # 8 MB in 300 ms and in 200 ms, 1.5 times over the wire: 40 and 60 MB/s.
    rail, rate, wrong = parse("rail2", output(row), 4)
    assert (rail, round(rate), wrong) == ("rail2", 50_000_000, 3)


@pytest.mark.parametrize("text", ["", "# only a header\n", "mpirun: something else\n"])
def test_output_without_a_table_is_refused_and_shown(text: str) -> None:
    with pytest.raises(CommandError, match="no table in its output") as refusal:
        parse("rail0", Done(0, text, "stderr too"), 4)
    assert "stderr too" in str(refusal.value)


def test_the_rail_that_dropped_is_named_from_the_numbers() -> None:
    before, after = measured(46, 47, 45), measured(46.5, 28.2, 44)
    assert dropped(before, after) == ["rail1"]


def test_no_drop_is_said_plainly() -> None:
    before, after = measured(46, 47), measured(45, 48)
    assert dropped(before, after) == []


def test_when_all_drop_all_are_named() -> None:
    assert dropped(measured(40, 40), measured(20, 30)) == ["rail0", "rail1"]


def shown(made: object) -> list[str]:
    """A table as a pipe gets it."""
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture:
        console.print(made)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_tables_are_plain_text_in_a_pipe() -> None:
    assert shown(table("Now", LINES, measured(46, 25), plain=True)) == [
        "Now",
        "rail   subnet         NIC       busbw  line rate  of line  result",
        "rail0  10.200.0.0/24  nic0  46.0 MB/s  50.0 MB/s      92%  correct",
        "rail1  10.201.0.0/24  nic1  25.0 MB/s  50.0 MB/s      50%  correct",
    ]
    assert shown(comparison("Then", LINES, measured(46, 45), measured(46, 27), plain=True)) == [
        "Then",
        "rail   NIC      before      busbw  of line  change  result",
        "rail0  nic0  46.0 MB/s  46.0 MB/s      92%   +0.0%  correct",
        "rail1  nic1  45.0 MB/s  27.0 MB/s      54%  −40.0%  correct",
    ]


def test_wrong_data_shows_in_the_table() -> None:
    (wrong,) = [Measured("rail0", 46e6, 17)]
    assert shown(table("Now", LINES, [wrong], plain=True))[-1].endswith("17 WRONG ELEMENTS")
