"""``roceway-probe parse`` as an operator calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nccltest.model import read_measurements
from tests.nccltest.parse.printed import STYLES, printed
from tests.nccltest.parse.test_versions import HOSTS, table
from tests.world import ROOT

STYLE = next(style for style in STYLES if style.name == "2.17.4")


def probe(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "nccltest", "parse", *words], input=stdin, capture_output=True, cwd=ROOT, timeout=60
    )


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.log"
    path.write_text(printed(STYLE, table(STYLE), HOSTS))
    return path


def document(done: subprocess.CompletedProcess[bytes]) -> Any:
    assert done.stderr == b""
    return json.loads(done.stdout)


def test_json_has_the_contracts_shape(good: Path) -> None:
    done = probe(str(good), "--json")
    (run,) = document(done)["runs"]
    assert done.returncode == 0
    assert (run["source"], run["collective"], run["version"]) == (str(good), "all_reduce", "2.17.4")
    assert (run["ranks"], run["nodes"], run["status"], run["errors"]) == (4, 2, "ok", [])
    row = run["rows"][0]
    assert list(row.values())[:5] == [4096, 1024, "float", "sum", -1]
    assert list(row) == ["size", "count", "type", "redop", "root", "out_of_place", "in_place"]
    assert row["out_of_place"] == {"time_us": 10.0, "algbw": 8.0, "busbw": 12.0, "wrong": 0}


def test_a_run_that_is_not_ok_is_exit_1_with_its_reason(good: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.log"
    bad.write_text("ssh: connect to host gpu-2 port 22: No route to host\n")
    done = probe(str(good), str(bad))
    assert done.returncode == 1
    assert b"failed" in done.stdout
    assert b"No route to host" in done.stdout


def test_files_that_cannot_be_read_are_all_named(good: Path, tmp_path: Path) -> None:
    done = probe(str(good), str(tmp_path / "none"), str(tmp_path), "--json")
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"none: cannot be read: No such file" in done.stderr
    assert b"Is a directory" in done.stderr


def test_standard_input_is_a_log_too(good: Path) -> None:
    done = probe("-", "--json", stdin=b"\n\n" + good.read_bytes())
    assert document(done)["runs"][0]["source"] == "stdin"
    assert len(document(done)["runs"][0]["rows"]) == 3


def test_measurements_are_lines_that_locate_reads(good: Path) -> None:
    done = probe(str(good), "--measurements", "--smallest", "8KiB")
    made = read_measurements(done.stdout.decode(), "stdout")
    assert [each.size for each in made] == [8192, 16384]
    assert made[0].nodes == ("node-a", "node-b")
    assert made[0].busbw == pytest.approx(12.75)  # the mean of both halves
    assert probe(str(good), "--measurements", "--smallest", "eight").returncode == 2


def test_a_failed_run_is_a_measurement_without_a_bandwidth(good: Path) -> None:
    text = good.read_text().split("4096")[0] + "node-b: Test NCCL failure a:1 'remote process exited'\n"
    (made,) = read_measurements(probe("-", "--measurements", stdin=text.encode()).stdout.decode(), "x")
    assert (made.busbw, made.status, made.nodes) == (None, "failed", ("node-a", "node-b"))


def test_endless_lines_and_zeros_do_no_harm() -> None:
    done = probe("-", "--json", stdin=b"\0" * 3_000_000 + b"\n" + b"{" * 100 + b"\xff" * 100_000)
    assert done.returncode == 1
    assert document(done)["runs"][0]["status"] == "incomplete"


def test_a_terminal_sees_no_markup_of_the_logs(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("ssh: [red]connect\x1b[31m to host \x1b]0;owned\x07: No route to host\n")
    out = probe(str(path)).stdout
    assert b"[red]" in out
    assert b"\x1b" not in out
