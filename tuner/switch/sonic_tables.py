"""The tables of a SONiC database, whatever shape they were saved in. Pure.

Shapes that are around: nested (``config_db.json``: table → key → row), flat (``"TABLE|key": row``, or ``TABLE:key`` in
the databases other than CONFIG_DB), redis-dump-load's (each row as ``{"type": "hash", "value": row}``), and a list of
any of these, as generic updates and configlets are: later ones add to earlier ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tuner.switch.text import AMBIGUOUS, Reading, UnreadableError, printable, shown

__all__ = ["Row", "Rows", "Tables", "each_row", "reference", "resolve", "shaped", "split"]

T = TypeVar("T")

Row = Mapping[str, Any]
Rows = Mapping[str, Row]
"""Key → row. A row that is empty in the source but unknown to us (named twice) is not in here."""

_TABLE = re.compile(r"[A-Z][A-Z0-9_]{2,63}")
_SINGLE = re.compile(r"COUNTERS_[A-Z_]+_MAP|PERSISTENT_DROP_ALERTS")  # tables that are one hash without a key
_OLD = re.compile(r"\[([A-Z0-9_]+)[|:](.+)\]")


class Tables:
    """Table → key → row, and which of them somebody has read."""

    def __init__(self, documents: list[Any], reading: Reading) -> None:
        self._tables: dict[str, dict[str, Row]] = {}
        self._reading = reading
        self._read: set[str] = set()
        self.unknown: set[tuple[str, str]] = set()
        """(table, key) of rows that are there but cannot be read; key is empty for a whole table."""
        for document in documents:
            for part in shaped(document) if isinstance(document, list) else [document]:
                self._add(part)

    def __contains__(self, table: object) -> bool:
        return table in self._tables

    def __len__(self) -> int:
        return len(self._tables)

    def rows(self, table: str) -> Rows | None:
        """The rows of a table; None where the source does not have it. Counts as read."""
        self._read.add(table)
        return self._tables.get(table)

    def row(self, table: str, key: str) -> Row:
        """One row, empty where there is none."""
        return (self.rows(table) or {}).get(key, {})

    def unread(self) -> Iterator[tuple[str, int]]:
        """Tables that nobody asked for, with their number of rows."""
        for name, rows in self._tables.items():
            if name not in self._read:
                yield name, len(rows)

    def _add(self, document: dict[str, Any]) -> None:
        for name, value in document.items():
            table, key = split(name)
            if not _TABLE.fullmatch(table):
                self._reading.say("ignored", shown(name), "is not a table", group="not a table")
            elif key or _SINGLE.fullmatch(table):
                self._put(table, key, value)
            else:
                self._whole(table, value)

    def _whole(self, table: str, value: Any) -> None:
        if not isinstance(value, dict):
            self._reading.bad(table, value, "a table")
            self.unknown.add((table, ""))
            return
        self._tables.setdefault(table, {})
        for key, row in value.items():
            self._put(table, key, row)

    def _put(self, table: str, key: str, row: Any) -> None:
        if key and printable(key) is None:
            self._reading.say("bad-value", table, f"the key {shown(key)} is not a name", group=table)
        elif isinstance(row, dict):
            self._merge(table, key, _unwrapped(row))
        else:
            self._reading.bad(f"{table}|{key}", row, "a row")
            self.unknown.add((table, key))
            self._tables.setdefault(table, {})

    def _merge(self, table: str, key: str, row: Row) -> None:
        rows = self._tables.setdefault(table, {})
        rows[key] = {**rows[key], **row} if key in rows else row


def shaped(document: Any) -> Any:
    """The document, when it is tables or a list of such; UnreadableError otherwise."""
    parts = document if isinstance(document, list) else [document]
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise UnreadableError("is JSON, but not the tables of a database")
    return document


def split(name: str) -> tuple[str, str]:
    """``"TABLE|key"`` or ``"TABLE:key"`` → table and key; the key is empty for a bare table."""
    bar, colon = name.find("|"), name.find(":")
    at = min((place for place in (bar, colon) if place >= 0), default=-1)
    return (name, "") if at < 0 else (name[:at], name[at + 1 :])


def _unwrapped(row: dict[str, Any]) -> Row:
    value = row.get("value")
    return value if row.get("type") == "hash" and isinstance(value, dict) else row


def reference(value: str) -> tuple[str, str, bool]:
    """A reference → table (empty when not said), name, and whether it is in the old form ``[TABLE|name]``.

    APPL_DB writes ``[BUFFER_PROFILE_TABLE:name]``; the table is BUFFER_PROFILE all the same.
    """
    match = _OLD.fullmatch(value.strip())
    return (match[1].removesuffix("_TABLE"), match[2], True) if match else ("", value.strip(), False)


def resolve(value: Any, place: str, target: str, defined: Mapping[str, T] | None, reading: Reading) -> T | None:
    """What a reference to a row of table ``target`` stands for; None for unknown, and a finding where it dangles.

    ``place`` is ``TABLE|key.field``. A source without the target table cannot be said to dangle.
    """
    if value is AMBIGUOUS:
        return None
    if printable(value) is None:
        reading.bad(place, value, f"the name of a row of {target}")
        return None
    table, name, old = reference(value)
    group = f"{place.partition('|')[0]}.{place.rpartition('.')[2]}"
    if old:
        reading.say("old-form", place, f"written in the old form [{target}|name]", "S14", group=group)
    if defined is None:
        return None
    if name not in defined or table not in ("", target):
        reading.say("dangling", place, f"{shown(value)} is not in {target}", "S14", group=group)
        return None
    return defined[name]


def each_row(
    tables: Tables, table: str, make: Callable[[str, str, Row, Reading], T], reading: Reading
) -> dict[str, T] | None:
    """``make(place, name, row, reading)`` of every row of a table; None where the source does not have it."""
    rows = tables.rows(table)
    return None if rows is None else {name: make(f"{table}|{name}", name, row, reading) for name, row in rows.items()}
