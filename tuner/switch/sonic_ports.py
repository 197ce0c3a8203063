"""SONiC's ports: what every table says about each of them, put together. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tuner.switch.model import NO_ECN, UNBOUND, Counters, Neighbour, Port, PriorityGroup, QosMap, Queue, Watchdog
from tuner.switch.sonic_buffers import Buffers, read_cables
from tuner.switch.sonic_counters import read_counters
from tuner.switch.sonic_qos import MAP_TABLES, Binding, Qos, checked, read_queues
from tuner.switch.sonic_tables import Row, Tables
from tuner.switch.sonic_vlans import read_vlans
from tuner.switch.text import AMBIGUOUS, Reading, printable, shown
from tuner.switch.words import mac_or_name

__all__ = ["read_ports"]

_PLACES = {
    "speed": "PORT|{port}.speed",
    "mtu": "PORT|{port}.mtu",
    "admin_up": "PORT|{port}.admin_status",
    "oper_up": "PORT_TABLE:{port}.oper_status",
    "pfc_asymmetric": "PORT|{port}.pfc_asym",
    "cable": "CABLE_LENGTH|AZURE.{port}",
    "trust": "PORT_QOS_MAP|{port}",
    "pfc": "PORT_QOS_MAP|{port}.pfc_enable",
    "watchdog": "PFC_WD|{port}",
    "queues": "QUEUE|{port}",
    "groups": "BUFFER_PG|{port}",
    "neighbour": "LLDP_ENTRY_TABLE:{port}",
    "expected_neighbour": "DEVICE_NEIGHBOR|{port}",
    "counters": "COUNTERS_DB {port}",
} | {field: f"PORT_QOS_MAP|{{port}}.{bound_by}" for field, (_, bound_by, _) in MAP_TABLES.items()}


def read_ports(
    tables: Tables,
    qos: Qos,
    buffers: Buffers,
    bindings: Mapping[str, Binding] | None,
    shows: Mapping[str, Counters],
    reading: Reading,
) -> dict[str, Port]:
    """Every port that any table names, in the order of PORT; ``shows`` are counters from ``show`` commands."""
    queues, cables = read_queues(tables, qos, reading), read_cables(tables, reading)
    counters = read_counters(tables)
    for port, each in shows.items():
        counters[port] = counters.get(port, Counters()).merged(each)
    rows = tables.rows("PORT") or {}
    lengths = cables[0] if cables else {}
    names = dict.fromkeys([*rows, *(bindings or {}), *(queues or {}), *(buffers.groups or {}), *lengths, *counters])
    names.pop("global", None)
    places, default = _places(tables), bindings.get("global") if bindings else None
    dogs, vlans = _watchdogs(tables, bindings, reading), read_vlans(tables)
    running = tables.rows("PORT_TABLE") or {}
    found: dict[str, Port] = {}
    for port in names:
        if not reading.room(found, port):
            break
        if printable(port) is None:
            reading.say("bad-value", "PORT", f"{shown(port)} is not the name of a port", group="port name")
            continue
        found[port] = Port(
            name=port,
            **_physical(port, rows.get(port, {}), running.get(port, {}), reading),
            **_bound(port, bindings, default, ("PORT_QOS_MAP", port) in tables.unknown),
            cable=lengths.get(port),
            neighbour=_neighbour(tables, "LLDP_ENTRY_TABLE", port),
            expected_neighbour=_neighbour(tables, "DEVICE_NEIGHBOR", port),
            watchdog=dogs.get(port) if dogs is not None else _masked(bindings, port),
            queues=_queues(port, queues, buffers),
            queue_default=None if queues is None else _NO_ROW,
            groups=None if buffers.groups is None else buffers.groups.get(port, _NONE),
            vlans=None if vlans is None else vlans.get(port, _ROUTED),
            counters=counters.get(port),
            places=places,
        )
    return found


_NO_ROW = Queue(ecn=NO_ECN)
_NONE: Mapping[int, PriorityGroup] = {}
_ROUTED: frozenset[str] = frozenset()


def _places(tables: Tables) -> Mapping[str, str]:
    cable = next(iter(tables.rows("CABLE_LENGTH") or {}), "AZURE")
    return _PLACES | {"cable": f"CABLE_LENGTH|{cable}.{{port}}"}


def _physical(port: str, row: Row, running: Row, reading: Reading) -> dict[str, Any]:
    place = f"PORT|{port}"
    return {
        "alias": printable(row.get("alias")),
        "speed": checked(row, "speed", place, 1, 10**7, reading),
        "mtu": checked(row, "mtu", place, 64, 65536, reading),
        "admin_up": _state(row.get("admin_status")),
        "oper_up": _state(running.get("oper_status")),
        "pfc_asymmetric": {"on": True, "off": False}.get(cast(str, printable(row.get("pfc_asym")))),
    }


def _state(value: Any) -> bool | None:
    return {"up": True, "down": False}.get(value.lower()) if isinstance(value, str) else None


def _bound(port: str, bindings: Mapping[str, Binding] | None, default: Binding | None, unknown: bool) -> dict[str, Any]:
    """Maps, trust and PFC of a port. A port of another card (``host|asic0|Ethernet0``) is bound there, not here."""
    if bindings is None or unknown or "|" in port:
        return {}
    row = bindings.get(port)
    maps: dict[str, QosMap | None] = dict(row.maps) if row else dict.fromkeys(MAP_TABLES, UNBOUND)
    if maps["dscp_to_tc"] is UNBOUND and default is not None:
        maps["dscp_to_tc"] = default.maps["dscp_to_tc"]
    trust: frozenset[str] | None = frozenset(
        word for field, word in (("dscp_to_tc", "dscp"), ("dot1p_to_tc", "pcp")) if maps[field] is not UNBOUND
    )
    if maps["dscp_to_tc"] is None or maps["dot1p_to_tc"] is None:
        trust = None
    return {**maps, "trust": trust, "pfc": row.pfc if row else frozenset()}


def _queues(
    port: str, queues: Mapping[str, Mapping[int, Queue]] | None, buffers: Buffers
) -> Mapping[int, Queue] | None:
    """What QUEUE and BUFFER_QUEUE say together."""
    profiles = buffers.queues.get(port, {}) if buffers.queues is not None else {}
    if queues is None and buffers.queues is None:
        return None
    mine = (queues or {}).get(port, {})
    if not profiles:
        return mine
    default = _NO_ROW if queues is not None else Queue()
    found = dict(mine)
    for index, profile in profiles.items():
        known = mine.get(index, default)
        place = known.place or f"BUFFER_QUEUE|{port}|{index}"
        found[index] = Queue(known.scheduler, known.ecn, profile, place)
    return found


def _watchdogs(tables: Tables, bindings: Mapping[str, Binding] | None, reading: Reading) -> dict[str, Watchdog] | None:
    """Port → watchdog, as PFC_WD says; None where the source does not have it (or has GLOBAL alone in part of one)."""
    rows = tables.rows("PFC_WD")
    if rows is None:
        return None
    found: dict[str, Watchdog] = {}
    for key, row in rows.items():
        if key == "GLOBAL":
            continue
        for port in key.split(","):
            found[port] = _watchdog(f"PFC_WD|{key}", row, bindings.get(port) if bindings else None, reading)
    names = {*(tables.rows("PORT") or {}), *(bindings or {})} - {"global"}
    for port in names - {*found} - {key for table, key in tables.unknown if table == "PFC_WD"}:
        found[port] = Watchdog(False, place=f"PFC_WD|{port}")
    return found


def _watchdog(place: str, row: Row, binding: Binding | None, reading: Reading) -> Watchdog:
    action = row.get("action")
    if action is not None and action is not AMBIGUOUS and action not in ("drop", "forward", "alert"):
        reading.bad(f"{place}.action", action, "drop, forward or alert")
        action = None
    return Watchdog(
        enabled=True,
        priorities=binding.watched if binding else None,
        action=action if isinstance(action, str) else None,
        detection=checked(row, "detection_time", place, 0, 10**9, reading),
        restoration=checked(row, "restoration_time", place, 0, 10**9, reading),
        place=place,
    )


def _masked(bindings: Mapping[str, Binding] | None, port: str) -> Watchdog | None:
    """Without PFC_WD there is at most the list of queues that a watchdog would watch."""
    binding = (bindings or {}).get(port)
    if binding is None or binding.watched is None:
        return None
    return Watchdog(None if binding.watched else False, binding.watched, place=f"PORT_QOS_MAP|{port}.pfcwd_sw_enable")


def _neighbour(tables: Tables, table: str, port: str) -> Neighbour | None:
    row = tables.row(table, port)
    if not row:
        return None
    learnt = table == "LLDP_ENTRY_TABLE"
    system, other = ("lldp_rem_sys_name", "lldp_rem_port_id") if learnt else ("name", "port")
    return Neighbour(
        system=printable(row.get(system)),
        port=mac_or_name(printable(row.get(other))),
        chassis=mac_or_name(printable(row.get("lldp_rem_chassis_id"))),
        place=f"{table}{':' if learnt else '|'}{port}",
        description=printable(row.get("lldp_rem_port_desc")),
    )
