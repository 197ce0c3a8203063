"""The plugin's memory: one SQLite database with attachments (each with its journal), leases and claims.

Written before the first change to the host, so that whatever a killed process left can be found and undone.
WAL with synchronous=NORMAL: a commit survives SIGKILL at any instant (the page cache does not die with the
process); a power failure may lose the last commits but cannot damage the file, and a reboot voids all of it anyway.

A database lives on the node and belongs to root: folder mode 0700, file mode 0600.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from cni.steps import Step
from cni.steps import dump as dump_steps
from cni.steps import load as load_steps
from host import stopwatch
from host.errors import HostError
from host.netns import Identity, identity

__all__ = ["ATTACHED", "ATTACHING", "DETACHING", "Attachment", "DamagedError", "Key", "LeaseRow", "Store", "keep_open"]

ATTACHING, ATTACHED, DETACHING = "attaching", "attached", "detaching"

_FILE = "state.db"
_LOCK = "lock"
_SCHEMA_VERSION = 1
_BUSY_TIMEOUT = 30.0  # seconds; 32 ADDs at once queue for about 50 ms
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attachments (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: who looked before a lock compares it after
  network TEXT NOT NULL, container_id TEXT NOT NULL, ifname TEXT NOT NULL,
  state TEXT NOT NULL, netns TEXT NOT NULL, netns_device INTEGER NOT NULL, netns_inode INTEGER NOT NULL,
  link_group INTEGER NOT NULL, reached INTEGER NOT NULL DEFAULT 0, journal TEXT NOT NULL,
  details TEXT NOT NULL DEFAULT '{}', created REAL NOT NULL,
  misses INTEGER NOT NULL DEFAULT 0, missed REAL NOT NULL DEFAULT 0,
  UNIQUE (network, container_id, ifname));
CREATE TABLE IF NOT EXISTS leases (
  rail TEXT NOT NULL, family INTEGER NOT NULL, address BLOB NOT NULL, attachment INTEGER NOT NULL,
  prefix TEXT NOT NULL, subnet TEXT NOT NULL, gateway TEXT NOT NULL,
  PRIMARY KEY (family, address)) WITHOUT ROWID; -- one address is one pod's, whatever its rail is called
CREATE INDEX IF NOT EXISTS leases_of ON leases (attachment);
CREATE TABLE IF NOT EXISTS cursors (
  rail TEXT NOT NULL, family INTEGER NOT NULL, last BLOB NOT NULL, PRIMARY KEY (rail, family)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (
  device TEXT NOT NULL, attachment INTEGER NOT NULL, exclusive INTEGER NOT NULL,
  PRIMARY KEY (device, attachment)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS claims_of ON claims (attachment);
"""
_COLUMNS = (
    "id, network, container_id, ifname, state, netns, netns_device, netns_inode, "
    "link_group, reached, journal, details, created, misses, missed"
)


class DamagedError(HostError):
    """The database's file is damaged or of another layout: trying again will not help."""


class Key(NamedTuple):
    """What the specification identifies an attachment by."""

    network: str
    container_id: str
    ifname: str

    def __str__(self) -> str:
        return f"{self.network}/{self.container_id}/{self.ifname}"


class Attachment(NamedTuple):
    """One row: an attachment with its journal."""

    id: int
    key: Key
    state: str
    netns: str
    identity: Identity
    group: int
    reached: int
    """Number of journalled steps that were begun."""
    journal: str
    details: dict[str, Any]
    """What ``explain`` tells: pod, rails, why."""
    created: float
    misses: int
    missed: float

    def steps(self) -> tuple[Step, ...]:
        """The journal. ValueError when it is damaged."""
        return load_steps(json.loads(self.journal))


class LeaseRow(NamedTuple):
    """One leased address."""

    rail: str
    family: int
    prefix: str
    subnet: str
    gateway: str
    attachment: int


_kept: dict[str, tuple[Identity, sqlite3.Connection]] | None = None


def keep_open() -> None:
    """From now on this process keeps a database open after its first use: opening and closing cost 2.5 ms.

    For a process that does one call after another and never forks. A file that was replaced meanwhile is noticed.
    """
    global _kept
    _kept = {}


def _kept_open(path: str) -> sqlite3.Connection | None:
    """The open database of ``path``, if that is still the file there."""
    if not _kept or path not in _kept:
        return None
    seen, connection = _kept[path]
    if identity(path) == seen:
        return connection
    del _kept[path]
    connection.close()
    return None


class Store:
    """An open database. Use as a context manager."""

    def __init__(self, connection: sqlite3.Connection, folder: str) -> None:
        self._db = connection
        self.folder = folder

    @classmethod
    def open(cls, folder: str, *, create: bool = True) -> Store | None:
        """Open the database in ``folder``; None when there is none and ``create`` is off.

        HostError when it cannot be read or written: a damaged file is never replaced by an empty one here, since that
        would hand out addresses that live pods use.
        """
        path = os.path.join(folder, _FILE)
        kept = _kept_open(path)
        if kept is not None:
            return cls(kept, folder)
        if not os.path.exists(path):
            if not create:
                return None
            _make(folder, path)
        seen = identity(path)
        try:
            connection = _connect(path)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _SCHEMA_VERSION:
                raise DamagedError("open", path, 0, f"it has layout {version}, this roceway knows {_SCHEMA_VERSION}")
        except sqlite3.Error as error:
            raise damaged(path, error) from error
        if _kept is not None and seen is not None:
            _kept[path] = (seen, connection)
        return cls(connection, folder)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database, unless this process keeps it open."""
        if not any(connection is self._db for _, connection in (_kept or {}).values()):
            self._db.close()

    @property
    def lock_path(self) -> str:
        """The file whose bytes are this store's locks."""
        return os.path.join(self.folder, _LOCK)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, alone among processes."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            with stopwatch.at("state"):
                self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise damaged(os.path.join(self.folder, _FILE), error) from error

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            with stopwatch.at("state"):
                return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise damaged(os.path.join(self.folder, _FILE), error) from error

    # boot

    def boot_id(self) -> str:
        """The boot that the rows belong to; empty for a new database."""
        rows = self._rows("SELECT value FROM meta WHERE key = 'boot_id'")
        return str(rows[0][0]) if rows else ""

    def begin_boot(self, boot_id: str) -> None:
        """Start afresh: what an earlier boot claimed is gone with it. Cursors stay: no address is reused at once."""
        for table in ("attachments", "leases", "claims"):
            self._rows(f"DELETE FROM {table}")  # noqa: S608 - constants
        self._rows("INSERT OR REPLACE INTO meta VALUES ('boot_id', ?)", (boot_id,))

    # attachments

    def find(self, key: Key) -> Attachment | None:
        """The attachment of a key."""
        sql = f"SELECT {_COLUMNS} FROM attachments WHERE network = ? AND container_id = ? AND ifname = ?"  # noqa: S608
        rows = self._rows(sql, key)
        return _attachment(rows[0]) if rows else None

    def attachments(self, network: str | None = None) -> list[Attachment]:
        """All attachments, oldest first; of one network if given."""
        sql = f"SELECT {_COLUMNS} FROM attachments WHERE ? IS NULL OR network = ? ORDER BY id"  # noqa: S608
        return [_attachment(row) for row in self._rows(sql, (network, network))]

    def get(self, attachment: int) -> Attachment | None:
        """The attachment of a row id."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM attachments WHERE id = ?", (attachment,))  # noqa: S608
        return _attachment(rows[0]) if rows else None

    def namespaces(self) -> list[tuple[int, str, Identity, int]]:
        """Of every attachment: row id, path and identity of its namespace, misses. Light enough for thousands."""
        sql = "SELECT id, netns, netns_device, netns_inode, misses FROM attachments"
        return [(row[0], row[1], Identity(row[2], row[3]), row[4]) for row in self._rows(sql)]

    def begin_sweep(self, now: float, spacing: float) -> bool:
        """Whether the last sweep is ``spacing`` seconds ago; if so this one is noted and the caller's to do."""
        if self._swept_within(now, spacing):
            return False  # the usual case, without taking the database's write lock
        with self.transaction():
            if self._swept_within(now, spacing):
                return False
            self._rows("INSERT OR REPLACE INTO meta VALUES ('swept', ?)", (str(now),))
        return True

    def _swept_within(self, now: float, spacing: float) -> bool:
        rows = self._rows("SELECT value FROM meta WHERE key = 'swept'")
        return bool(rows) and 0 <= now - float(rows[0][0]) < spacing

    def insert(
        self, key: Key, netns: str, identity: Identity, group: int, steps: Sequence[Step], details: dict[str, Any]
    ) -> int:
        """Journal an attachment that is about to be made; its row id."""
        rows = self._rows(
            "INSERT INTO attachments (network, container_id, ifname, state, netns, netns_device, netns_inode,"
            " link_group, journal, details, created) VALUES (?,?,?,?,?,?,?,?,?,?,?) RETURNING id",
            (*key, ATTACHING, netns, *identity, group, _json(dump_steps(steps)), _json(details), time.time()),
        )
        return int(rows[0][0])

    def journal(self, attachment: int, steps: Sequence[Step]) -> None:
        """Write the journal of an attachment."""
        self._rows("UPDATE attachments SET journal = ? WHERE id = ?", (_json(dump_steps(steps)), attachment))

    def reach(self, attachment: int, steps: int) -> None:
        """Note that the first ``steps`` steps of the journal are begun."""
        self._rows("UPDATE attachments SET reached = ? WHERE id = ?", (steps, attachment))

    def set_state(self, attachment: int, state: str) -> None:
        """``attaching``, ``attached`` or ``detaching``."""
        self._rows("UPDATE attachments SET state = ? WHERE id = ?", (state, attachment))

    def set_misses(self, attachment: int, misses: int, at: float) -> None:
        """Count how often an attachment's namespace was found gone, and when last."""
        self._rows("UPDATE attachments SET misses = ?, missed = ? WHERE id = ?", (misses, at, attachment))

    def remove(self, attachment: int) -> None:
        """Forget an attachment with its leases and claims."""
        self._rows("DELETE FROM leases WHERE attachment = ?", (attachment,))
        self._rows("DELETE FROM claims WHERE attachment = ?", (attachment,))
        self._rows("DELETE FROM attachments WHERE id = ?", (attachment,))

    # claims

    def claim(self, device: str, attachment: int, *, exclusive: bool) -> None:
        """Note that an attachment uses a NIC."""
        self._rows("INSERT OR REPLACE INTO claims VALUES (?,?,?)", (device, attachment, int(exclusive)))

    def claimants(self, device: str) -> list[tuple[Attachment, bool]]:
        """Who uses a NIC, and whether alone."""
        columns = ", ".join(f"a.{name.strip()}" for name in _COLUMNS.split(","))
        sql = f"SELECT {columns}, c.exclusive FROM claims c JOIN attachments a ON a.id = c.attachment WHERE device = ?"  # noqa: S608
        return [(_attachment(row[:-1]), bool(row[-1])) for row in self._rows(sql, (device,))]

    # leases

    def held(self, family: int) -> Callable[[int, int], Iterable[int]]:
        """For :func:`cni.ipam.next_free`: the held addresses within bounds, ascending, read as far as needed."""
        width = 4 if family == 4 else 16
        sql = "SELECT address FROM leases WHERE family = ? AND address BETWEEN ? AND ? ORDER BY address"

        def between(low: int, high: int) -> Iterable[int]:
            bounds = (low.to_bytes(width, "big"), high.to_bytes(width, "big"))
            for (address,) in self._db.execute(sql, (family, *bounds)):
                yield int.from_bytes(address, "big")

        return between

    def last(self, rail: str, family: int) -> int | None:
        """The address handed out last."""
        rows = self._rows("SELECT last FROM cursors WHERE rail = ? AND family = ?", (rail, family))
        return int.from_bytes(rows[0][0], "big") if rows else None

    def lease(self, row: LeaseRow, address: int) -> None:
        """Hold ``address`` for ``row``'s attachment and move the rail's cursor to it."""
        raw = address.to_bytes(4 if row.family == 4 else 16, "big")
        self._rows(
            "INSERT INTO leases VALUES (?,?,?,?,?,?,?)",
            (row.rail, row.family, raw, row.attachment, row.prefix, row.subnet, row.gateway),
        )
        self._rows("INSERT OR REPLACE INTO cursors VALUES (?,?,?)", (row.rail, row.family, raw))

    def leases(self, attachment: int | None = None) -> list[LeaseRow]:
        """Leases in address order; of one attachment if given."""
        sql = (
            "SELECT rail, family, prefix, subnet, gateway, attachment FROM leases "
            "WHERE ? IS NULL OR attachment = ? ORDER BY rail, family, address"
        )
        return [LeaseRow(*row) for row in self._rows(sql, (attachment, attachment))]


def damaged(path: str, error: sqlite3.Error) -> HostError:
    """The database's refusal as an error that says what to do."""
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return HostError("write", path, 0, "another process has held the database for 30 s")
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        advice = "if the file is damaged, drain the node's pods, move it away and let roceway-cni start a new one"
        return DamagedError("use the state database", path, 0, f"{error}; {advice}")
    advice = "check that the folder is writable and the disk not full"
    return HostError("use the state database", path, 0, f"{error}; {advice}")


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _make(folder: str, path: str) -> None:
    """A new database, put in place complete: a half-made one is never seen under the final name."""
    fresh = f"{path}.new.{os.getpid()}.{time.monotonic_ns()}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            connection = _connect(fresh)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            connection.close()
            os.link(fresh, path)
        except FileExistsError:
            return  # another process was first
        finally:
            os.unlink(fresh)
    except OSError as error:
        raise HostError("create", path, error.errno or 0) from error
    except sqlite3.Error as error:
        raise damaged(path, error) from error


def _attachment(row: Sequence[Any]) -> Attachment:
    try:
        details = json.loads(row[11])
    except ValueError:
        details = {}
    return Attachment(
        id=row[0],
        key=Key(*row[1:4]),
        state=row[4],
        netns=row[5],
        identity=Identity(*row[6:8]),
        group=row[8],
        reached=row[9],
        journal=row[10],
        details=details if isinstance(details, dict) else {},
        created=row[12],
        misses=row[13],
        missed=row[14],
    )
