"""The probe's memory: one SQLite database of runs, series and points.

WAL with synchronous=NORMAL: a commit survives SIGKILL at any instant; a power failure may lose the last run but cannot
damage the file. Several writers queue: each run is one transaction. WAL needs a local disk, not NFS.

The folder is 0700 and the file 0600: it tells how a cluster is built.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import log
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from host.errors import HostError
from nccltest.baseline import WINDOW
from nccltest.judgement import Before, Judgement
from nccltest.locate.names import fold
from nccltest.model import Fingerprint, Measurement
from nccltest.series import CONFIRM, Series, series_of

__all__ = ["DEFAULT", "KEEP_DAYS", "History", "RunRow", "TrendPoint"]

DEFAULT = Path("/var/lib/roceway/probe/history.db")
KEEP_DAYS = 400
"""Days that single points are kept; the medians of runs, a few bytes each, stay."""
_VERSION = 1
_BUSY = 30.0  # seconds that a writer waits for another
_DAY = 86_400.0
_RECENT = 16 * WINDOW  # points of a series that are read: more than any baseline uses
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY, schedule TEXT NOT NULL UNIQUE, time REAL NOT NULL, summary TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS series (
  id INTEGER PRIMARY KEY, test TEXT NOT NULL, grp TEXT NOT NULL, rail TEXT NOT NULL, size INTEGER NOT NULL,
  fingerprint TEXT NOT NULL, since REAL NOT NULL DEFAULT 0, UNIQUE (test, grp, rail, size, fingerprint));
CREATE TABLE IF NOT EXISTS points (
  id INTEGER PRIMARY KEY, series INTEGER NOT NULL, run INTEGER NOT NULL, place INTEGER NOT NULL, time REAL NOT NULL,
  members TEXT NOT NULL, purpose TEXT NOT NULL, busbw REAL, status TEXT NOT NULL, counts INTEGER NOT NULL,
  UNIQUE (run, place));
CREATE INDEX IF NOT EXISTS points_of ON points (series, counts, id);
CREATE INDEX IF NOT EXISTS points_by_time ON points (time);
CREATE TABLE IF NOT EXISTS medians (
  series INTEGER NOT NULL, run INTEGER NOT NULL, time REAL NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (series, run)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fingerprints (key TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS memory (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class RunRow(NamedTuple):
    """One recorded run."""

    id: int
    schedule: str
    time: float
    summary: dict[str, Any]
    """See :func:`nccltest.summary.summary`; empty for a run older than what is kept."""


class TrendPoint(NamedTuple):
    """One group's value in one run."""

    run: int
    time: float
    members: str
    busbw: float | None
    status: str


class History:
    """An open database. Use as a context manager."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._path = path

    @classmethod
    def open(cls, path: Path, *, create: bool = True) -> History:
        """Open it, or make it. HostError: it is missing (``create`` off), cannot be used, or has another layout."""
        if not create and not path.exists():
            raise HostError("open", str(path), 0, "there is no history yet: roceway-probe judge or run writes it")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise HostError("open", str(path), error.errno or 0) from None
        history = cls(sqlite3.connect(path, timeout=_BUSY, isolation_level=None), path)
        try:
            with history._told():
                history._prepare()
        except BaseException:
            history.close()
            raise
        return history

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _prepare(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._make()
        elif version != _VERSION:
            raise HostError("open", str(self._path), 0, f"it has layout {version}, this roceway knows {_VERSION}")
        self._db.execute("PRAGMA synchronous = NORMAL")

    def _make(self) -> None:
        """All tables and the version in one transaction: two makers at once, or a killed one, leave a whole file."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for statement in _SCHEMA.split(";\n"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's refusals as errors that say what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise HostError("use the history", str(self._path), 0, _advice(error)) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, alone among processes."""
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._told():
            return self._db.execute(sql, values).fetchall()

    # what judge needs

    def before(self, series: Series, schedule: str = "") -> Before:
        """The past of a series since it was last accepted; what came before ``schedule``, if that run is there."""
        row = self._find(series)
        if row is None:
            return Before()
        rows = self._rows("SELECT id FROM runs WHERE schedule = ?", (schedule,))
        bounds = (*row, rows[0][0] if rows else 1 << 62)
        points = self._rows(
            "SELECT busbw FROM points WHERE series = ? AND counts = 1 AND time >= ? AND run < ? "
            "ORDER BY id DESC LIMIT ?",
            (*bounds, _RECENT),
        )
        runs = self._rows("SELECT value FROM medians WHERE series = ? AND time >= ? AND run < ? ORDER BY run", bounds)
        return Before(tuple(log(busbw) for (busbw,) in reversed(points)), tuple(value for (value,) in runs))

    def _find(self, series: Series) -> tuple[int, float] | None:
        rows = self._rows(
            "SELECT id, since FROM series WHERE test = ? AND grp = ? AND rail = ? AND size = ? AND fingerprint = ?",
            series,
        )
        return (int(rows[0][0]), float(rows[0][1])) if rows else None

    # writing

    def record(
        self,
        schedule: str,
        time: float,
        measurements: Sequence[Measurement],
        judgements: Sequence[Judgement],
        summary: Mapping[str, Any],
    ) -> bool:
        """Keep a run; False where a run of that name is there already (the same file judged twice changes nothing).

        Interrupted measurements are no part of it. Judgements are matched by series and members.
        """
        with self.transaction():
            if self._rows("SELECT 1 FROM runs WHERE schedule = ?", (schedule,)):
                return False
            sql = "INSERT INTO runs (schedule, time, summary) VALUES (?, ?, ?) RETURNING id"
            run = int(self._rows(sql, (schedule, time, _json(summary)))[0][0])
            slow = {(j.series, j.members) for j in judgements if j.unusual}
            kept = [one for one in measurements if one.status != "interrupted"]
            self._points(run, time, kept, slow)
            self._fingerprints(kept)
        return True

    def _points(
        self, run: int, time: float, measurements: Sequence[Measurement], slow: set[tuple[Series, str]]
    ) -> None:
        values: dict[int, list[float]] = {}
        numbers: dict[Series, int] = {}
        for place, one in enumerate(measurements):
            series, members = series_of(one), fold(one.nodes)
            number = numbers.setdefault(series, 0) or self._number(series)
            numbers[series] = number
            busbw = one.busbw if one.status == "ok" and one.busbw else None
            counts = busbw is not None and one.purpose != CONFIRM and (series, members) not in slow
            self._db.execute(
                "INSERT INTO points (series, run, place, time, members, purpose, busbw, status, counts) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (number, run, place, one.time or time, members, one.purpose, busbw, one.status, counts),
            )
            if counts and busbw is not None:
                values.setdefault(number, []).append(log(busbw))
        for number, each in values.items():
            self._db.execute("INSERT INTO medians VALUES (?, ?, ?, ?)", (number, run, time, median(each)))

    def _number(self, series: Series) -> int:
        self._db.execute(
            "INSERT OR IGNORE INTO series (test, grp, rail, size, fingerprint) VALUES (?, ?, ?, ?, ?)", series
        )
        found = self._find(series)
        return found[0] if found else 0

    def _fingerprints(self, measurements: Sequence[Measurement]) -> None:
        for each in {one.fingerprint for one in measurements}:
            document = {name: getattr(each, name) for name in Fingerprint.__slots__}
            self._db.execute("INSERT OR IGNORE INTO fingerprints VALUES (?, ?)", (each.key, _json(document)))

    def accept(self, time: float, pattern: str = "%") -> int:
        """Let baselines begin anew at ``time``: what came before was another fabric. How many series it concerned.

        ``pattern`` is SQL LIKE over ``test group rail``.
        """
        with self.transaction():
            rows = self._rows(
                "UPDATE series SET since = ? WHERE test || ' ' || grp || ' ' || rail LIKE ? RETURNING id",
                (time, pattern),
            )
        return len(rows)

    def prune(self, keep_days: float = KEEP_DAYS) -> int:
        """Forget points and summaries that are older than the latest run by that much; how many points."""
        with self.transaction():
            (latest,) = self._rows("SELECT coalesce(max(time), 0) FROM runs")[0]
            limit = latest - keep_days * _DAY
            rows = self._rows("DELETE FROM points WHERE time < ? RETURNING 1", (limit,))
            self._rows("UPDATE runs SET summary = '{}' WHERE time < ?", (limit,))
        return len(rows)

    # reading

    def runs(self, limit: int = 100) -> list[RunRow]:
        """The latest runs, newest first."""
        rows = self._rows("SELECT id, schedule, time, summary FROM runs ORDER BY id DESC LIMIT ?", (limit,))
        return [RunRow(row[0], row[1], row[2], json.loads(row[3])) for row in rows]

    def series(self) -> list[Series]:
        """Every series, those with the latest points first."""
        rows = self._rows(
            "SELECT test, grp, rail, size, fingerprint FROM series s LEFT JOIN "
            "(SELECT series, max(run) AS last FROM medians GROUP BY series) m ON m.series = s.id "
            "ORDER BY m.last DESC, test, grp, size, rail"
        )
        return [Series(*row) for row in rows]

    def trend(self, series: Series, limit: int = 10_000) -> list[TrendPoint]:
        """The latest points of a series, oldest first, confirmations left out."""
        row = self._find(series)
        sql = (
            "SELECT run, time, members, busbw, status FROM points WHERE series = ? AND purpose <> 'confirm' "
            "ORDER BY id DESC LIMIT ?"
        )
        return [TrendPoint(*each) for each in reversed(self._rows(sql, (row[0], limit)))] if row else []

    def fingerprint(self, key: str) -> dict[str, str]:
        """What a fingerprint stands for; empty where unknown."""
        rows = self._rows("SELECT document FROM fingerprints WHERE key = ?", (key,))
        return dict(json.loads(rows[0][0])) if rows else {}

    # what act remembers

    def runs_after(self, number: int, limit: int = 1000) -> list[RunRow]:
        """The runs recorded after run ``number``, oldest first."""
        sql = "SELECT id, schedule, time, summary FROM runs WHERE id > ? ORDER BY id LIMIT ?"
        return [RunRow(row[0], row[1], row[2], json.loads(row[3])) for row in self._rows(sql, (number, limit))]

    def memory(self, key: str) -> Any:
        """A value kept under a key; None where there is none."""
        rows = self._rows("SELECT value FROM memory WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else None

    def keep(self, key: str, value: object) -> None:
        """Keep a JSON value under a key."""
        with self.transaction():
            self._rows("INSERT OR REPLACE INTO memory VALUES (?, ?)", (key, _json(value)))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _advice(error: sqlite3.Error) -> str:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return f"another process has held it for {_BUSY:.0f} s"
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return f"{error}; move the file away: the next run begins a new one, and baselines are learnt again"
    return f"{error}; check that the folder is writable and the disk not full"
