"""Recorded logs from public repositories: status, rows and bandwidths of every one, against what was read by eye."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from statistics import mean

import pytest

from nccltest.model import Run, run_to_json
from nccltest.parse import parse_text
from tests.nccltest.parse.expected_logs import EXCERPTS, LOGS
from tests.world import ROOT

FOLDER = ROOT.parent / "shared" / "data" / "nccl-logs"
PAIRS = FOLDER / "pairwise-h100-10node-healthy"
EXPECTED = {key: list(lines) for key, lines in groupby(map(str.split, LOGS.split("\n")[1:-1]), lambda words: words[0])}

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the recorded logs are not on this machine")


def runs_of(number: str) -> tuple[str, tuple[Run, ...]]:
    (path,) = FOLDER.glob(f"{number}-*.txt")
    text = path.read_text(errors="replace")
    return text, parse_text(text, path.name)


def told(run: Run, number: int) -> list[str]:
    last = run.rows[-1] if run.rows else None
    rates = (last.out_of_place.busbw, last.in_place.busbw) if last and last.in_place else (None, None)
    return [
        *(str(number), run.collective or "?", str(run.ranks or "?"), str(run.nodes or "?"), run.status),
        *(str(len(run.rows)), *("-" if rate is None else f"{rate:.2f}" for rate in rates)),
        "-" if run.average is None else f"{run.average:g}",
    ]


@pytest.mark.parametrize("number", EXPECTED)
def test_a_log_says_what_was_read_in_it(number: str) -> None:
    _, runs = runs_of(number)
    assert [told(run, place) for place, run in enumerate(runs, 1)] == [words[1:] for words in EXPECTED[number]]


def test_every_log_has_its_expectation() -> None:
    assert {path.name[:2] for path in FOLDER.glob("[0-9]*.txt")} == set(EXPECTED)


@pytest.mark.parametrize("number", EXPECTED)
def test_no_row_is_lost(number: str) -> None:
    text, runs = runs_of(number)
    lines = re.findall(r"^.*?\d+ +\d+ +(?:float|double) .*$", text, re.MULTILINE)
    assert sum(len(run.rows) for run in runs) == len(lines)


@pytest.mark.parametrize("number", sorted(set(EXPECTED) - EXCERPTS))
def test_the_rows_average_is_the_footers(number: str) -> None:
    for run in runs_of(number)[1]:
        if run.average is not None and run.rows:
            halves = [half.busbw for row in run.rows for half in (row.out_of_place, row.in_place) if half]
            assert mean(rate or 0 for rate in halves) == pytest.approx(run.average, rel=3e-3, abs=6e-3)


@pytest.mark.parametrize("number", EXPECTED)
def test_bandwidths_agree_with_size_and_time(number: str) -> None:
    for run in runs_of(number)[1]:
        for row in run.rows:
            half = row.out_of_place
            assert half.time_us is not None
            assert half.algbw == pytest.approx(row.size / half.time_us / 1e3, rel=0.04, abs=6e-3)


def test_errors_are_told_in_the_logs_own_words() -> None:
    (run,) = runs_of("25")[1]
    assert run.errors == (
        "cnode2-016: Test NCCL failure alltoall.cu:274 'remote process exited or there was a network error / '",
    )
    assert run.hosts == ("cnode2-005", "cnode2-016")
    assert [device.bus_id for device in run.devices] == ["0000:52:00", "0000:43:00"]


def test_the_version_is_that_of_the_library() -> None:
    assert {run.nccl for number in ("09", "11", "36", "42") for run in runs_of(number)[1]} == {
        *("2.22.3+cuda12.2", "2.21.5+cuda12.5", "2.9.9+cuda11.2", "2.23.4+cuda12.6")
    }


@pytest.mark.parametrize("path", sorted(PAIRS.glob("*.log")), ids=lambda path: path.stem)
def test_the_healthy_pairs_are_all_complete(path: Path) -> None:
    (run, *others) = parse_text(path.read_text(errors="replace"), path.name)
    assert not others or all(other.status == "ok" for other in others)
    assert run.status == "ok"
    nodes = re.findall(r"cnode3-\d+", path.stem)
    assert set(run.hosts) == set(nodes)
    assert run.ranks == 2 * int(re.search(r"_G(\d)", path.stem)[1])  # type: ignore[index]  # the name has it
    assert run_to_json(run)["nodes"] == 2
