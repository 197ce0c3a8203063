"""SONiC's buffer tables, of both buffer models, and its table of lossless profiles. Pure.

``BUFFER_POOL BUFFER_PROFILE BUFFER_PG BUFFER_QUEUE BUFFER_PORT_{INGRESS,EGRESS}_PROFILE_LIST CABLE_LENGTH
DEFAULT_LOSSLESS_BUFFER_PARAMETER LOSSLESS_TRAFFIC_PATTERN`` (sonic-buildimage ``src/sonic-yang-models``) and the
``pg_profile_lookup.ini`` of a device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from tuner.switch.model import BufferPool, BufferProfile, LookupRow, PriorityGroup, TrafficPattern
from tuner.switch.sonic_qos import checked, ports_and_numbers, spread
from tuner.switch.sonic_tables import Row, Tables, each_row, resolve
from tuner.switch.text import Reading, number, shown
from tuner.switch.words import metres

__all__ = ["Buffers", "parse_lookup", "read_buffers", "read_cables"]

T = TypeVar("T")
_LARGEST = 10**12
_COMMENT = re.compile(r"\s*(#.*)?")


@dataclass(frozen=True, slots=True)
class Buffers:
    """None where the source does not have the table."""

    pools: Mapping[str, BufferPool] | None
    profiles: Mapping[str, BufferProfile] | None
    groups: Mapping[str, Mapping[int, PriorityGroup]] | None
    """Port → priority group."""
    queues: Mapping[str, Mapping[int, BufferProfile | None]] | None
    """Port → queue → its profile; a profile of None is unknown."""
    model: Literal["dynamic", "traditional"] | None
    default_dynamic_th: int | None
    over_subscribe_ratio: int | None
    pattern: TrafficPattern | None


def read_buffers(tables: Tables, reading: Reading) -> Buffers:
    """Everything about buffers; cables apart (:func:`read_cables`)."""
    pools = each_row(tables, "BUFFER_POOL", _pool, reading)
    profiles = _profiles(tables, pools, reading)
    groups = _bound(tables, "BUFFER_PG", profiles, reading)
    parameters = next(iter((tables.rows("DEFAULT_LOSSLESS_BUFFER_PARAMETER") or {}).items()), ("", {}))
    _check_lists(tables, profiles, reading)
    place = f"DEFAULT_LOSSLESS_BUFFER_PARAMETER|{parameters[0]}"
    return Buffers(
        pools=pools,
        profiles=profiles,
        groups=groups,
        queues=_queue_profiles(tables, profiles, reading),
        model=_model(tables, groups),
        default_dynamic_th=checked(parameters[1], "default_dynamic_th", place, -8, 8, reading),
        over_subscribe_ratio=checked(parameters[1], "over_subscribe_ratio", place, 0, 512, reading),
        pattern=_pattern(tables, reading),
    )


def _pool(place: str, name: str, row: Row, reading: Reading) -> BufferPool:
    return BufferPool(
        name=name,
        type=_one_of(row, "type", place, ("ingress", "egress", "both"), reading),
        mode=_one_of(row, "mode", place, ("static", "dynamic"), reading),
        size=checked(row, "size", place, 0, _LARGEST, reading),
        xoff=checked(row, "xoff", place, 0, _LARGEST, reading),
        place=place,
    )


def _one_of(row: Row, name: str, place: str, words: tuple[str, ...], reading: Reading) -> Any:
    value = row.get(name)
    if value is None or (isinstance(value, str) and value in words):
        return value
    reading.bad(f"{place}.{name}", value, " or ".join(words))
    return None


def _profiles(
    tables: Tables, pools: Mapping[str, BufferPool] | None, reading: Reading
) -> Mapping[str, BufferProfile] | None:
    def make(place: str, name: str, row: Row, reading: Reading) -> BufferProfile:
        pool = row.get("pool")
        return BufferProfile(
            name=name,
            pool=None if pool is None else resolve(pool, f"{place}.pool", "BUFFER_POOL", pools, reading),
            size=checked(row, "size", place, 0, _LARGEST, reading),
            xon=checked(row, "xon", place, 0, _LARGEST, reading),
            xon_offset=checked(row, "xon_offset", place, 0, _LARGEST, reading),
            xoff=checked(row, "xoff", place, 0, _LARGEST, reading),
            dynamic_th=checked(row, "dynamic_th", place, -8, 8, reading),
            static_th=checked(row, "static_th", place, 0, _LARGEST, reading),
            headroom_dynamic=row.get("headroom_type") == "dynamic",
            place=place,
        )

    return each_row(tables, "BUFFER_PROFILE", make, reading)


def _bound(
    tables: Tables, table: str, profiles: Mapping[str, BufferProfile] | None, reading: Reading
) -> dict[str, dict[int, PriorityGroup]] | None:
    """Port → number → what a row of BUFFER_PG (or BUFFER_QUEUE, which has the same shape) says."""
    rows = tables.rows(table)
    if rows is None or (table, "") in tables.unknown:
        return None
    found: dict[str, dict[int, PriorityGroup]] = {}
    known: dict[str, BufferProfile | None] = {}
    for key, row in rows.items():
        place = f"{table}|{key}"
        ports, indices = ports_and_numbers(key)
        if indices is None or not ports[0]:
            reading.bad(table, key, "PORT|NUMBER")
            continue
        group = _group(place, row.get("profile"), profiles, known, reading)
        spread(found, ports, indices, group, reading)
    for where, key in tables.unknown:
        ports, indices = ports_and_numbers(key) if where == table and key else ([], None)
        spread(found, ports, indices or (), PriorityGroup(None, place=f"{table}|{key}"), reading)
    return found


def _group(
    place: str,
    value: Any,
    profiles: Mapping[str, BufferProfile] | None,
    known: dict[str, BufferProfile | None],
    reading: Reading,
) -> PriorityGroup:
    if value == "NULL":
        return PriorityGroup(None, automatic=True, place=place)
    if isinstance(value, str) and value in known:
        return PriorityGroup(known[value], place=place)
    said = reading.said
    profile = None if value is None else resolve(value, f"{place}.profile", "BUFFER_PROFILE", profiles, reading)
    if isinstance(value, str) and reading.said == said:
        known[value] = profile
    return PriorityGroup(profile, place=place)


def _queue_profiles(
    tables: Tables, profiles: Mapping[str, BufferProfile] | None, reading: Reading
) -> dict[str, dict[int, BufferProfile | None]] | None:
    bound = _bound(tables, "BUFFER_QUEUE", profiles, reading)
    if bound is None:
        return None
    return {port: {index: group.profile for index, group in groups.items()} for port, groups in bound.items()}


def _check_lists(tables: Tables, profiles: Mapping[str, BufferProfile] | None, reading: Reading) -> None:
    """The lists of profiles of whole ports: no rule judges them, but they can dangle like any reference."""
    for table in ("BUFFER_PORT_INGRESS_PROFILE_LIST", "BUFFER_PORT_EGRESS_PROFILE_LIST"):
        for key, row in (tables.rows(table) or {}).items():
            value = row.get("profile_list")
            for name in value.split(",") if isinstance(value, str) else ():
                resolve(name, f"{table}|{key}.profile_list", "BUFFER_PROFILE", profiles, reading)


def _model(
    tables: Tables, groups: Mapping[str, Mapping[int, PriorityGroup]] | None
) -> Literal["dynamic", "traditional"] | None:
    """What DEVICE_METADATA says; else dynamic where there is something that only the dynamic model has."""
    said = tables.row("DEVICE_METADATA", "localhost").get("buffer_model")
    if said in ("dynamic", "traditional"):
        return cast(Literal["dynamic", "traditional"], said)
    automatic = any(group.automatic for each in (groups or {}).values() for group in each.values())
    return "dynamic" if automatic or tables.rows("DEFAULT_LOSSLESS_BUFFER_PARAMETER") else None


def _pattern(tables: Tables, reading: Reading) -> TrafficPattern | None:
    name, row = next(iter((tables.rows("LOSSLESS_TRAFFIC_PATTERN") or {}).items()), ("", None))
    if row is None:
        return None
    place = f"LOSSLESS_TRAFFIC_PATTERN|{name}"
    return TrafficPattern(
        checked(row, "mtu", place, 64, 65535, reading),
        checked(row, "small_packet_percentage", place, 0, 100, reading),
        place,
    )


def read_cables(tables: Tables, reading: Reading) -> tuple[dict[str, float | None], dict[str, str]] | None:
    """Port → metres (None: unreadable) and port → place; None where the source has no CABLE_LENGTH."""
    rows = tables.rows("CABLE_LENGTH")
    if rows is None:
        return None
    lengths: dict[str, float | None] = {}
    places: dict[str, str] = {}
    for name, row in rows.items():
        for port, value in row.items():
            place = f"CABLE_LENGTH|{name}.{port}"
            lengths[port] = metres(value)
            places[port] = place
            if lengths[port] is None:
                reading.bad(place, value, "a length such as 5m")
    return lengths, places


def parse_lookup(text: str, place: str, reading: Reading) -> tuple[LookupRow, ...]:
    """``pg_profile_lookup.ini``: ``speed cable size xon xoff threshold [xon_offset]`` per line, ``#`` for comments."""
    rows = []
    for line_number, line in enumerate(text.splitlines(), 1):
        if _COMMENT.fullmatch(line):
            continue
        words = line.partition("#")[0].split()
        row = _lookup_row(words, f"{place}:{line_number}")
        if row is None:
            reading.say("bad-value", f"{place}:{line_number}", f"{shown(line)} is not a row of a lookup table")
        else:
            rows.append(row)
    return tuple(rows)


def _lookup_row(words: list[str], place: str) -> LookupRow | None:
    if not 6 <= len(words) <= 7:
        return None
    speed, size, xon, xoff = (number(words[index], 0, _LARGEST) for index in (0, 2, 3, 4))
    cable, threshold = metres(words[1]), number(words[5], -8, _LARGEST)
    offset = number(words[6], 0, _LARGEST) if len(words) == 7 else None
    if None in (speed, cable, size, xon, xoff, threshold) or (len(words) == 7 and offset is None):
        return None
    numbers = cast("tuple[int, float, int, int, int, int]", (speed, cable, size, xon, xoff, threshold))
    return LookupRow(*numbers, offset, place)
