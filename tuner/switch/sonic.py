"""SONiC: its databases as saved or read live, and what its ``show`` commands print. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tuner.switch.model import Counters, LookupRow, Platform, Switch
from tuner.switch.sonic_buffers import parse_lookup, read_buffers
from tuner.switch.sonic_counters import parse_show
from tuner.switch.sonic_ports import read_ports
from tuner.switch.sonic_qos import Qos, checked, read_bindings, read_qos
from tuner.switch.sonic_tables import Row, Tables, shaped
from tuner.switch.text import Reading, UnreadableError, decode, parse_json, printable

__all__ = ["read"]

_LOOKUP = re.compile(r"\s*[0-9]+\s+[0-9.]+m\s")
_QOS_TABLES = frozenset(
    (
        *("PORT", "CABLE_LENGTH", "BUFFER_POOL", "BUFFER_PROFILE", "BUFFER_PG"),
        *("PORT_QOS_MAP", "QUEUE", "SCHEDULER", "WRED_PROFILE"),
        *("DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "TC_TO_PRIORITY_GROUP_MAP", "MAP_PFC_PRIORITY_TO_QUEUE"),
    )
)
_RUNNING = ("BUFFER_POOL", "BUFFER_PROFILE", "BUFFER_PG", "BUFFER_QUEUE", "PORT")
# NVIDIA's platform names say which Spectrum is inside (sonic-buildimage platform/mellanox/asic_table.j2).
_ASICS = (
    (re.compile(r"sn5640"), "spectrum-5"),
    (re.compile(r"sn5[46]"), "spectrum-4"),
    (re.compile(r"sn4[2-8]"), "spectrum-3"),
    (re.compile(r"sn3[478]"), "spectrum-2"),
)


@dataclass(frozen=True, slots=True)
class _Sources:
    """What the documents hold, apart from tables."""

    tables: Tables
    lookup: tuple[LookupRow, ...] | None
    counters: Mapping[str, Counters]


def read(name: str, documents: Mapping[str, bytes], platform: Platform = "sonic") -> Switch:
    """The switch that the documents (label → content) describe together; never raises for their content.

    A document is tables of a database as JSON (see ``sonic_tables``), a ``pg_profile_lookup.ini``, or the output of
    ``show pfc counters [--history]`` or ``pfcwd show stats``.
    """
    reading = Reading()
    source = ", ".join(documents)
    sources = _gather(documents, reading)
    if sources is not None and not (len(sources.tables) or sources.lookup or sources.counters):
        reading.say("unreadable", source, "has no table of a SONiC database in it")
        sources = None
    if sources is None:
        return Switch(name, platform, source, findings=reading.findings())
    switch = _switch(name, platform, source, sources, reading)
    for table, rows in sources.tables.unread():
        reading.say("ignored", table, f"no rule reads this table ({rows} rows)")
    missing = sorted(table for table in _QOS_TABLES if table not in sources.tables)
    if 2 * len(missing) > len(_QOS_TABLES):
        reading.say("partial", "", f"lacks most tables of a switch's QoS: {', '.join(missing)}")
    return replace(switch, findings=reading.findings())


def _gather(documents: Mapping[str, bytes], reading: Reading) -> _Sources | None:
    """Sort the documents by what they are; None where none of them can be read."""
    parts: list[Any] = []
    lookup: tuple[LookupRow, ...] | None = None
    counters: dict[str, Counters] = {}
    broken: list[tuple[str, str]] = []
    for label, data in documents.items():
        try:
            text = decode(data)
            if text.lstrip()[:1] in "{[":
                document = parse_json(text, reading)
                parts.append(shaped(document))
            elif _LOOKUP.match(_first_line(text)):
                lookup = (lookup or ()) + parse_lookup(text, label, reading)
            else:
                for port, each in parse_show(text, label, reading).items():
                    counters[port] = counters.get(port, Counters()).merged(each)
        except UnreadableError as error:
            broken.append((label, str(error)))
    nothing = len(broken) == len(documents)
    for label, why in broken:
        reading.say("unreadable" if nothing else "partial", label, why)
    return None if nothing else _Sources(Tables(parts, reading), lookup, counters)


def _first_line(text: str) -> str:
    """The first line that is neither blank nor a comment."""
    return next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")


def _switch(name: str, platform: Platform, source: str, sources: _Sources, reading: Reading) -> Switch:
    tables = sources.tables
    qos, buffers = read_qos(tables, reading), read_buffers(tables, reading)
    bindings = read_bindings(tables, qos, reading)
    metadata = tables.row("DEVICE_METADATA", "localhost")
    model = printable(metadata.get("platform")) or printable(metadata.get("hwsku"))
    poll = tables.row("PFC_WD", "GLOBAL")
    return Switch(
        name=name,
        platform=platform,
        source=source,
        asic=_asic(metadata),
        model=model,
        hostname=printable(metadata.get("hostname")),
        ports=read_ports(tables, qos, buffers, bindings, sources.counters, reading),
        maps=qos.maps,
        bindings_known=bindings is not None,
        default_dscp_to_tc=bindings["global"].maps["dscp_to_tc"] if bindings and "global" in bindings else None,
        maps_elsewhere=qos.elsewhere,
        schedulers=qos.schedulers,
        ecn_profiles=qos.ecn,
        pools=buffers.pools,
        profiles=buffers.profiles,
        lookup=sources.lookup,
        buffer_model=buffers.model,
        default_dynamic_th=buffers.default_dynamic_th,
        over_subscribe_ratio=buffers.over_subscribe_ratio,
        traffic_pattern=buffers.pattern,
        watchdog_poll=checked(poll, "POLL_INTERVAL", "PFC_WD|GLOBAL", 1, 10**6, reading),
        watchdog_poll_place="PFC_WD|GLOBAL.POLL_INTERVAL",
        mtu_is_frame=False,
        operational=_operational(name, platform, source, tables),
    )


def _asic(metadata: Row) -> str | None:
    words = " ".join(value for field in ("platform", "hwsku") if isinstance(value := metadata.get(field), str)).lower()
    return next((asic for pattern, asic in _ASICS if pattern.search(words)), None)


def _operational(name: str, platform: Platform, source: str, tables: Tables) -> Switch | None:
    """What APPL_DB says is running; it has buffers and ports, but no maps (orchagent takes those from CONFIG_DB)."""
    running = {
        table: {key.replace(":", "|"): row for key, row in rows.items()}
        for table in _RUNNING
        if (rows := tables.rows(f"{table}_TABLE")) is not None
    }
    if not running:
        return None
    quiet = Reading()  # the same mistakes again, in the tables that were made from CONFIG_DB
    mine = Tables([running], quiet)
    buffers = read_buffers(mine, quiet)
    ports = read_ports(mine, Qos(None, None, None, frozenset()), buffers, None, {}, quiet)
    pools, profiles = buffers.pools, buffers.profiles
    return Switch(name, platform, source, ports=ports, pools=pools, profiles=profiles)
