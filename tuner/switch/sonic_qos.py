"""SONiC's QoS tables: maps, schedulers, WRED profiles, and which port and queue uses which. Pure.

``DSCP_TO_TC_MAP DOT1P_TO_TC_MAP TC_TO_QUEUE_MAP TC_TO_PRIORITY_GROUP_MAP MAP_PFC_PRIORITY_TO_QUEUE
PFC_PRIORITY_TO_PRIORITY_GROUP_MAP TC_TO_DSCP_MAP SCHEDULER WRED_PROFILE PORT_QOS_MAP QUEUE TUNNEL``
(sonic-buildimage ``src/sonic-yang-models``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from tuner.switch.model import NO_ECN, UNBOUND, Ecn, QosMap, Queue, Scheduler
from tuner.switch.sonic_tables import Row, Tables, each_row, resolve
from tuner.switch.text import AMBIGUOUS, Reading, number, shown
from tuner.switch.words import numbers

__all__ = [
    "MAP_TABLES",
    "MAX_INDEX",
    "Binding",
    "Qos",
    "checked",
    "ports_and_numbers",
    "read_bindings",
    "read_qos",
    "read_queues",
    "spread",
]

T = TypeVar("T")

MAX_INDEX = 63
"""Queues and priority groups are numbered from 0; no switching chip has more per port."""

MAP_TABLES: Mapping[str, tuple[str, str, int]] = MappingProxyType(
    {
        "dscp_to_tc": ("DSCP_TO_TC_MAP", "dscp_to_tc_map", 63),
        "dot1p_to_tc": ("DOT1P_TO_TC_MAP", "dot1p_to_tc_map", 7),
        "tc_to_queue": ("TC_TO_QUEUE_MAP", "tc_to_queue_map", 15),
        "tc_to_pg": ("TC_TO_PRIORITY_GROUP_MAP", "tc_to_pg_map", 15),
        "pfc_to_queue": ("MAP_PFC_PRIORITY_TO_QUEUE", "pfc_to_queue_map", 7),
        "pfc_to_pg": ("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "pfc_to_pg_map", 7),
        "tc_to_dscp": ("TC_TO_DSCP_MAP", "tc_to_dscp_map", 15),
    }
)
"""Field of a port → the table that defines the map, the field of PORT_QOS_MAP that binds it, and its largest key."""

_KINDS: Mapping[str, Literal["strict", "dwrr", "wrr"]] = {"STRICT": "strict", "DWRR": "dwrr", "WRR": "wrr"}
# mode -> whether green packets, which RoCE's are, are marked
_ECN_MODES = {
    **dict.fromkeys(("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red"), True),
    **dict.fromkeys(("ecn_none", "ecn_yellow", "ecn_red", "ecn_yellow_red"), False),
}
_LARGEST = 10**12


@dataclass(frozen=True, slots=True)
class Qos:
    """What is defined, by name; None where the source does not have the table."""

    maps: Mapping[str, Mapping[str, QosMap]] | None
    schedulers: Mapping[str, Scheduler] | None
    ecn: Mapping[str, Ecn] | None
    elsewhere: frozenset[str]


@dataclass(frozen=True, slots=True)
class Binding:
    """A row of PORT_QOS_MAP: None is unknown, UNBOUND and empty are what the row does not name."""

    maps: Mapping[str, QosMap | None]
    pfc: frozenset[int] | None
    watched: frozenset[int] | None
    """Queues under the watchdog (pfcwd_sw_enable); None where the row does not say."""


def read_qos(tables: Tables, reading: Reading) -> Qos:
    """Everything that is defined."""
    maps = {}
    for field, (table, _, largest) in MAP_TABLES.items():
        rows = tables.rows(table)
        if rows is not None:
            maps[field] = {name: _map(f"{table}|{name}", name, row, largest, reading) for name, row in rows.items()}
    return Qos(
        maps=maps or None,
        schedulers=each_row(tables, "SCHEDULER", _scheduler, reading),
        ecn=each_row(tables, "WRED_PROFILE", _ecn, reading),
        elsewhere=_bound_by_tunnels(tables),
    )


def _map(place: str, name: str, row: Row, largest: int, reading: Reading) -> QosMap:
    entries = {}
    for key, value in row.items():
        source, target = number(key, 0, largest), number(value, 0, MAX_INDEX)
        if key == "NULL":  # how SONiC stores a row without fields
            continue
        if source is None:
            reading.bad(place, key, f"a number from 0 to {largest}")
        elif target is None:
            reading.bad(f"{place}.{key}", value, "the number of a class, queue or group")
        else:
            entries[source] = target
    return QosMap(name, entries, place)


def _scheduler(place: str, name: str, row: Row, reading: Reading) -> Scheduler:
    text = row.get("type")
    kind = _KINDS.get(text) if isinstance(text, str) else None
    if text is not None and kind is None:
        reading.bad(f"{place}.type", text, "STRICT, DWRR or WRR")
    in_bytes = row.get("meter_type", "bytes") == "bytes"
    return Scheduler(
        name=name,
        kind=kind,
        weight=checked(row, "weight", place, 1, 1000, reading),
        min_rate=_rate(checked(row, "cir", place, 0, _LARGEST, reading), in_bytes),
        max_rate=_rate(checked(row, "pir", place, 0, _LARGEST, reading), in_bytes),
        place=place,
    )


def _rate(bytes_per_second: int | None, in_bytes: bool) -> int | None:
    return None if not bytes_per_second or not in_bytes else bytes_per_second * 8 // 1_000_000


def _ecn(place: str, name: str, row: Row, reading: Reading) -> Ecn:
    mode = row.get("ecn", "ecn_none")
    marks = _ECN_MODES.get(mode) if isinstance(mode, str) else None
    if marks is None:
        reading.bad(f"{place}.ecn", mode, "ecn_all, ecn_green, ecn_none or another of SONiC's")
    if marks and row.get("wred_green_enable") == "false":
        marks = False  # WRED does nothing for green packets, and so marks none
    return Ecn(
        name=name,
        enabled=marks,
        kmin=checked(row, "green_min_threshold", place, 0, _LARGEST, reading),
        kmax=checked(row, "green_max_threshold", place, 0, _LARGEST, reading),
        pmax=checked(row, "green_drop_probability", place, 0, 100, reading),
        place=place,
    )


def checked(row: Row, name: str, place: str, low: int, high: int, reading: Reading) -> int | None:
    """A number of a row; None where it is not there, and a finding where it is not such a number."""
    value = row.get(name)
    if value is None or value is AMBIGUOUS:
        return None
    result = number(value, low, high)
    if result is None:
        reading.bad(f"{place}.{name}", value, f"a whole number from {low} to {high}")
    return result


def _bound_by_tunnels(tables: Tables) -> frozenset[str]:
    """Maps that TUNNEL rows bind (``decap_dscp_to_tc_map``, ``encap_tc_to_queue_map``, …)."""
    found = set()
    for row in (tables.rows("TUNNEL") or {}).values():
        for table, bound_by, _ in MAP_TABLES.values():
            names = (row.get(f"{way}_{bound_by}") for way in ("decap", "encap"))
            found |= {f"{table}|{name}" for name in names if isinstance(name, str)}
    return frozenset(found)


def read_bindings(tables: Tables, qos: Qos, reading: Reading) -> Mapping[str, Binding] | None:
    """Port (and ``global``) → its row of PORT_QOS_MAP; None where the source does not have the table."""
    rows = tables.rows("PORT_QOS_MAP")
    if rows is None or ("PORT_QOS_MAP", "") in tables.unknown:
        return None
    found: dict[str, Binding] = {}
    known: dict[Any, Binding] = {}
    for key, row in rows.items():
        content = tuple(row.items()) if all(isinstance(value, str) for value in row.values()) else None
        binding = known.get(content) if content else None
        if binding is None:
            said = reading.said
            binding = _binding(f"PORT_QOS_MAP|{key}", row, qos, reading)
            if content and reading.said == said:
                known[content] = binding
        for port in key.split(","):
            found[port] = binding
    return found


def _binding(place: str, row: Row, qos: Qos, reading: Reading) -> Binding:
    maps: dict[str, QosMap | None] = {}
    for field, (table, bound_by, _) in MAP_TABLES.items():
        value = row.get(bound_by, "")
        defined = None if qos.maps is None else qos.maps.get(field)
        if value == "":
            maps[field] = UNBOUND
        elif (found := resolve(value, f"{place}.{bound_by}", table, defined, reading)) is not None:
            maps[field] = found
        else:
            maps[field] = QosMap(shown(value), None) if isinstance(value, str) else None
    if row.get("scheduler"):
        resolve(row["scheduler"], f"{place}.scheduler", "SCHEDULER", qos.schedulers, reading)
    return Binding(maps, _priorities(row, "pfc_enable", place, reading), _watched(row, place, reading))


def _watched(row: Row, place: str, reading: Reading) -> frozenset[int] | None:
    return _priorities(row, "pfcwd_sw_enable", place, reading) if "pfcwd_sw_enable" in row else None


def _priorities(row: Row, name: str, place: str, reading: Reading) -> frozenset[int] | None:
    value = row.get(name, "")
    if value == "":
        return frozenset()
    found = numbers(value, 7) if isinstance(value, str) else None
    if found is None:
        reading.bad(f"{place}.{name}", value, "a list of priorities, such as 3,4")
        return None
    return frozenset(found)


def ports_and_numbers(key: str) -> tuple[list[str], tuple[int, ...] | None]:
    """``"Ethernet0|3-4"`` → the ports and the numbers; None for numbers that are none.

    Old files join ports with commas; a chassis writes ``host|asic0|Ethernet0|3`` for the queues of its other cards.
    """
    ports, _, last = key.rpartition("|")
    return ports.split(","), numbers(last, MAX_INDEX)


def spread(
    found: dict[str, dict[int, T]], ports: list[str], numbers: tuple[int, ...], value: T, reading: Reading
) -> None:
    """Give the numbers of each port a value; ports beyond what a switch can have are told and left out."""
    for port in ports:
        if reading.room(found, port):
            found.setdefault(port, {}).update(dict.fromkeys(numbers, value))


def read_queues(tables: Tables, qos: Qos, reading: Reading) -> dict[str, dict[int, Queue]] | None:
    """Port → queue → what QUEUE says of it; None where the source does not have the table."""
    rows = tables.rows("QUEUE")
    if rows is None or ("QUEUE", "") in tables.unknown:
        return None
    found: dict[str, dict[int, Queue]] = {}
    known: dict[tuple[Any, Any], tuple[Scheduler | None, Ecn | None]] = {}
    for key, row in rows.items():
        place = f"QUEUE|{key}"
        ports, indices = ports_and_numbers(key)
        if indices is None or not ports[0]:
            reading.bad("QUEUE", key, "PORT|QUEUE")
            continue
        pair = (row.get("scheduler"), row.get("wred_profile"))
        parts = known.get(pair) if _simple(pair) else None
        if parts is None:
            said = reading.said
            parts = _queue_parts(place, *pair, qos, reading)
            if _simple(pair) and reading.said == said:
                known[pair] = parts
        spread(found, ports, indices, Queue(*parts, None, place), reading)
    for table, key in tables.unknown:  # a row named twice: the queue is there, and nothing of it is known
        if table == "QUEUE" and key:
            ports, indices = ports_and_numbers(key)
            spread(found, ports, indices or (), Queue(place=f"QUEUE|{key}"), reading)
    return found


def _simple(pair: tuple[Any, Any]) -> bool:
    return isinstance(pair[0], str | None) and isinstance(pair[1], str | None)


def _queue_parts(
    place: str, scheduler: Any, profile: Any, qos: Qos, reading: Reading
) -> tuple[Scheduler | None, Ecn | None]:
    by = resolve(scheduler, f"{place}.scheduler", "SCHEDULER", qos.schedulers, reading) if scheduler else None
    if not profile:
        return by, NO_ECN
    return by, resolve(profile, f"{place}.wred_profile", "WRED_PROFILE", qos.ecn, reading)
