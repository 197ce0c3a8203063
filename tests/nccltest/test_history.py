"""The database: concurrent writers, kills, damage, other layouts, retention."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from host.errors import HostError
from nccltest.history import History
from nccltest.model import Measurement, Member
from nccltest.series import Series, series_of

ROOT = Path(__file__).parents[2]
PAIR = (Member("a", "rail0"), Member("b", "rail0"))


def one(busbw: float | None = 46.0, purpose: str = "") -> Measurement:
    return Measurement("all_reduce", 1 << 32, PAIR, busbw, purpose=purpose, status="ok" if busbw else "failed")


def kept(history: History) -> int:
    return len(history.trend(series_of(one())))


def test_a_run_is_kept_whole_and_once(tmp_path: Path) -> None:
    with History.open(tmp_path / "h.db") as history:
        assert history.record("a", 1.0, [one(), one(45.0), one(None), one(44.0, "confirm")], (), {"verdict": "healthy"})
        assert not history.record("a", 1.0, [one()], (), {})
    with History.open(tmp_path / "h.db", create=False) as history:
        assert [point.busbw for point in history.trend(series_of(one()))] == [46.0, 45.0, None]
        assert len(history.before(series_of(one())).values) == 2
        assert len(history.before(series_of(one())).runs) == 1
        assert history.runs()[0].summary == {"verdict": "healthy"}


def test_file_and_folder_are_their_owners_alone(tmp_path: Path) -> None:
    History.open(tmp_path / "probe" / "h.db").close()
    assert (tmp_path / "probe").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "probe" / "h.db").stat().st_mode & 0o777 == 0o600


def test_an_unknown_series_has_no_past(tmp_path: Path) -> None:
    with History.open(tmp_path / "h.db") as history:
        assert history.before(Series("x", "pair", "", 1, "")).values == ()


_WRITER = """
import sys
from pathlib import Path
from nccltest.history import History
from nccltest.model import Measurement, Member
pair = (Member("a", "rail0"), Member("b", "rail0"))
with History.open(Path(sys.argv[1])) as history:
    for number in range(int(sys.argv[3])):
        five = [Measurement("all_reduce", 1 << 32, pair, 46.0)] * 5
        history.record(f"{sys.argv[2]}-{number}", float(number), five, (), {})
        print(number, flush=True)
"""


def writer(path: Path, name: str, runs: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _WRITER, str(path), name, str(runs)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


def test_several_writers_make_and_fill_one_database(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    writers = [writer(path, f"w{number}", 20) for number in range(4)]
    for each in writers:
        each.communicate(timeout=120)
        assert each.returncode == 0
    with History.open(path) as history:
        assert kept(history) == 4 * 20 * 5
        assert len(history.runs()) == 80


def test_a_killed_writer_leaves_whole_runs(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    for attempt in range(5):
        process = writer(path, f"k{attempt}", 100_000)
        assert process.stdout is not None
        for _ in range(3 + attempt):
            process.stdout.readline()
        time.sleep(0.003 * attempt)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
        process.stdout.close()
        with History.open(path) as history:
            assert kept(history) == 5 * len(history.runs(10**6)) > 0
            assert history.record(f"after-{attempt}", 1.0, [one()] * 5, (), {})


def test_another_layout_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    before = path.read_bytes()
    with pytest.raises(HostError, match="layout 9, this roceway knows 1"):
        History.open(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    path.write_bytes(b"not a database, certainly not one" * 100)
    with pytest.raises(HostError, match="move the file away"):
        History.open(path)


def test_a_missing_history_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no history yet"):
        History.open(tmp_path / "none.db", create=False)


def test_a_folder_that_cannot_be_made_is_told() -> None:
    with pytest.raises(HostError, match="File exists"):
        History.open(Path("/etc/hostname/h.db"))


def test_retention_forgets_points_and_keeps_medians(tmp_path: Path) -> None:
    day = 86_400.0
    with History.open(tmp_path / "h.db") as history:
        for number in range(10):
            history.record(f"d{number}", number * day + 1, [one()], (), {"verdict": "healthy"})
        assert history.prune(keep_days=4) == 5
        assert kept(history) == 5
        assert len(history.before(series_of(one())).runs) == 10
        assert [bool(row.summary) for row in history.runs()] == [True] * 5 + [False] * 5


def test_what_acting_remembers_is_replaced_whole(tmp_path: Path) -> None:
    with History.open(tmp_path / "h.db") as history:
        assert history.memory("act") is None
        history.keep("act", {"run": 3, "blames": [1]})
        history.keep("act", {"run": 4})
    with History.open(tmp_path / "h.db") as history:
        assert history.memory("act") == {"run": 4}
        for name in "abc":
            history.record(name, 1.0, [one()], (), {"n": name})
        assert [row.summary["n"] for row in history.runs_after(1)] == ["b", "c"]
