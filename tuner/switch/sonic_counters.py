"""What a SONiC switch counted: COUNTERS_DB, and the text of ``show pfc counters`` and ``pfcwd show stats``. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tuner.switch.model import Counters, QueueCounters
from tuner.switch.sonic_tables import Row, Tables
from tuner.switch.text import Reading, UnreadableError, number, shown

__all__ = ["parse_show", "read_counters"]

_LARGEST = 10**18
_PRIORITIES = range(8)
_WATERMARKS = ("PERSISTENT_WATERMARKS", "USER_WATERMARKS", "PERIODIC_WATERMARKS")
_PG = "SAI_INGRESS_PRIORITY_GROUP_STAT"
_QUEUE_FIELDS = {
    "packets": "SAI_QUEUE_STAT_PACKETS",
    "bytes": "SAI_QUEUE_STAT_BYTES",
    "dropped": "SAI_QUEUE_STAT_DROPPED_PACKETS",
    "ecn_marked": "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS",
    "watermark": "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES",
    "deadlocks": "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED",
    "restored": "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED",
}


def read_counters(tables: Tables) -> dict[str, Counters]:
    """Port → counters, for the ports that COUNTERS_PORT_NAME_MAP names; empty where there is no COUNTERS_DB."""
    values = tables.rows("COUNTERS") or {}
    marks = [tables.rows(table) or {} for table in _WATERMARKS]
    queues = _by_port(tables, "QUEUE", values, marks, _queue)
    groups = _by_port(tables, "PG", values, marks, lambda row: row)
    found = {}
    for port, oid in tables.row("COUNTERS_PORT_NAME_MAP", "").items():
        row = values.get(oid, {}) if isinstance(oid, str) else {}
        found[port] = _port(row, queues.get(port), groups.get(port, {}))
    return found


def _by_port(
    tables: Tables, kind: str, values: Mapping[str, Row], marks: list[Any], make: Callable[[Row], Any]
) -> dict[str, dict[int, Any]]:
    """Port → number → the counters of its queues or priority groups, watermarks among them."""
    for helper in ("PORT_MAP", "INDEX_MAP", "TYPE_MAP"):  # say the same again, from oid to port and number
        tables.rows(f"COUNTERS_{kind}_{helper}")
    found: dict[str, dict[int, Any]] = {}
    for name, oid in tables.row(f"COUNTERS_{kind}_NAME_MAP", "").items():
        port, _, index = name.rpartition(":")
        at = number(index, 0, 255)
        if at is None or not isinstance(oid, str):
            continue
        row: dict[str, Any] = {}
        for source in (*reversed(marks), values):
            row.update(source.get(oid, {}))
        if row:
            found.setdefault(port, {})[at] = make(row)
    return found


def _queue(row: Row) -> QueueCounters:
    status = row.get("PFC_WD_STATUS")
    numbers = {field: _count(row, name) for field, name in _QUEUE_FIELDS.items()}
    return QueueCounters(**numbers, status=shown(status) if isinstance(status, str) else None)


def _port(row: Row, queues: Mapping[int, QueueCounters] | None, groups: Mapping[int, Row]) -> Counters:
    return Counters(
        pfc_rx=_each(row, "SAI_PORT_STAT_PFC_{}_RX_PKTS"),
        pfc_tx=_each(row, "SAI_PORT_STAT_PFC_{}_TX_PKTS"),
        rx_pause_us=_each(row, "EST_PORT_STAT_PFC_{}_RX_PAUSE_DURATION_US")
        or _each(row, "SAI_PORT_STAT_PFC_{}_RX_PAUSE_DURATION_US"),
        queues=queues,
        pg_watermark=_of_groups(groups, f"{_PG}_SHARED_WATERMARK_BYTES"),
        pg_headroom_watermark=_of_groups(groups, f"{_PG}_XOFF_ROOM_WATERMARK_BYTES"),
        pg_dropped=_of_groups(groups, f"{_PG}_DROPPED_PACKETS"),
        rx_discards=_count(row, "SAI_PORT_STAT_IF_IN_DISCARDS"),
        tx_discards=_count(row, "SAI_PORT_STAT_IF_OUT_DISCARDS"),
    )


def _count(row: Row, name: str) -> int | None:
    """A counter; "N/A" and the like are unknown, and no finding: SONiC writes them where the chip has none."""
    return number(row.get(name), 0, _LARGEST)


def _each(row: Row, name: str) -> dict[int, int] | None:
    counts = {priority: _count(row, name.format(priority)) for priority in _PRIORITIES}
    return {priority: count for priority, count in counts.items() if count is not None} or None


def _of_groups(groups: Mapping[int, Row], name: str) -> dict[int, int] | None:
    counts = {group: _count(row, name) for group, row in groups.items()}
    return {group: count for group, count in counts.items() if count is not None} or None


# --- text ----------------------------------------------------------------------------------------------------------

_RULE = re.compile(r"[- ]*-[- ]*")
_QUEUE_NAME = re.compile(r"(\S+):([0-9]{1,3})")
_PRIORITY_NAME = re.compile(r"PFC([0-7])")


def parse_show(text: str, place: str, reading: Reading) -> dict[str, Counters]:
    """Port → counters from what a ``show`` command printed. UnreadableError for text that is none of them."""
    lines = [line for line in text.splitlines() if line.strip()]
    for at, line in enumerate(lines):
        words = " ".join(line.upper().split())
        for known, parse in _SHOWS:
            if words.startswith(known):
                return parse(lines[at + 1 :], words, place, reading)
    raise UnreadableError("is neither JSON nor the output of a command that is known here")


def _rows(lines: list[str], columns: int, place: str, reading: Reading) -> Iterator[list[str]]:
    for line in lines:
        words = line.split()
        if _RULE.fullmatch(line.strip()):
            continue
        if len(words) < columns:
            reading.say("bad-value", place, f"{shown(line)} is not a row of the table", group=place)
            continue
        yield words


def _watchdog_stats(lines: list[str], _header: str, place: str, reading: Reading) -> dict[str, Counters]:
    queues: dict[str, dict[int, QueueCounters]] = {}
    for words in _rows(lines, 7, place, reading):
        name, storms = _QUEUE_NAME.fullmatch(words[0]), words[2].partition("/")
        if not name:
            reading.say("bad-value", place, f"{shown(words[0])} is not PORT:QUEUE", group=place)
            continue
        queues.setdefault(name[1], {})[int(name[2])] = QueueCounters(
            dropped=_number(words[3].partition("/")[2]),
            deadlocks=_number(storms[0]),
            restored=_number(storms[2]),
            status=None if words[1] == "N/A" else shown(words[1]),
        )
    return {port: Counters(queues=each) for port, each in queues.items()}


def _history(lines: list[str], _header: str, place: str, reading: Reading) -> dict[str, Counters]:
    paused: dict[str, dict[int, int]] = {}
    for words in _rows(lines, 4, place, reading):
        priority, total = _PRIORITY_NAME.fullmatch(words[1]), _number(words[3])
        if priority and total is not None:
            paused.setdefault(words[0], {})[int(priority[1])] = total
    return {port: Counters(rx_pause_us=each) for port, each in paused.items()}


def _pfc_counters(lines: list[str], header: str, place: str, reading: Reading) -> dict[str, Counters]:
    """``Port Rx  PFC0 … PFC7``, and below it the same for ``Port Tx``."""
    found: dict[str, Counters] = {}
    sending = header.startswith("PORT TX")
    for words in _rows(lines, 9, place, reading):
        if words[0] == "Port":
            sending = words[1].upper() == "TX"
            continue
        counts = {at: count for at in _PRIORITIES if (count := _number(words[at + 1])) is not None}
        each = Counters(pfc_tx=counts) if sending else Counters(pfc_rx=counts)
        found[words[0]] = found.get(words[0], Counters()).merged(each)
    return found


def _number(text: str) -> int | None:
    return number(text.replace(",", ""), 0, _LARGEST)


_SHOWS: tuple[tuple[str, Callable[[list[str], str, str, Reading], dict[str, Counters]]], ...] = (
    ("QUEUE STATUS STORM DETECTED/RESTORED", _watchdog_stats),
    ("PORT PRIORITY RX PAUSE TRANSITIONS", _history),
    ("PORT RX PFC0", _pfc_counters),
    ("PORT TX PFC0", _pfc_counters),
)
