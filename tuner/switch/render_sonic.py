"""The class of fabric.yaml as SONiC CONFIG_DB tables. Pure."""

from __future__ import annotations

import json
from typing import Any

from conf.units import format_length
from tuner.switch.intended import MTU, Intended, WantedPort

__all__ = ["render"]

NAME = "ROCE"
_SHIPPED_LENGTHS = (5.0, 40.0, 300.0)  # of the lossless profiles in every pg_profile_lookup.ini
_DETECT, _RESTORE, _POLL = "200", "200", "100"  # ms: a storm ends before a connection's retries do (S10)


def render(wanted: Intended) -> str:
    """JSON for ``config load``: it adds to and overwrites rows, and leaves other tables alone."""
    tables: dict[str, Any] = {
        "PORT": {port.name: _port(port) for port in wanted.ports},
        "CABLE_LENGTH": {
            "AZURE": {port.name: _length(wanted, port) for port in wanted.ports if port.cable is not None}
        },
        **_maps(wanted),
        "SCHEDULER": _schedulers(wanted),
        "WRED_PROFILE": _profile(wanted),
        "PORT_QOS_MAP": {port.name: _bindings(wanted) for port in wanted.ports},
        "QUEUE": {f"{port.name}|{queue}": row for port in wanted.ports for queue, row in _queues(wanted).items()},
        **_buffers(wanted),
        **_watchdog(wanted),
    }
    return json.dumps({table: rows for table, rows in tables.items() if rows}, indent=2) + "\n"


def _port(port: WantedPort) -> dict[str, str]:
    row = {"mtu": str(MTU)}
    return row | {"speed": str(port.speed)} if port.speed else row


def _dynamic(wanted: Intended) -> bool:
    """NVIDIA's switches run the dynamic buffer model, which reckons headroom for any length."""
    return (wanted.described.asic or "").startswith("spectrum")


def _length(wanted: Intended, port: WantedPort) -> str:
    """The cable's own length, or without the dynamic model the next that there is a lossless profile for."""
    metres = port.cable or 0.0
    if not _dynamic(wanted):
        metres = next((length for length in _SHIPPED_LENGTHS if length >= metres), metres)
    return format_length(metres)


def _maps(wanted: Intended) -> dict[str, Any]:
    lossless = wanted.lossless
    identity = {str(index): str(index) for index in range(8)}
    return {
        "DSCP_TO_TC_MAP": {NAME: {str(dscp): str(tc) for dscp, tc in wanted.dscp_to_tc.items()}},
        "TC_TO_QUEUE_MAP": {NAME: identity},
        "TC_TO_PRIORITY_GROUP_MAP": {NAME: {str(tc): str(tc if tc in lossless else 0) for tc in range(8)}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {NAME: identity},
    }


def _schedulers(wanted: Intended) -> dict[str, Any]:
    rows: dict[str, Any] = {
        f"{NAME}.{queue}": {"type": "DWRR", "weight": str(weight)} for queue, weight in wanted.weights.items()
    }
    return rows | {f"{NAME}.strict": {"type": "STRICT"}} if wanted.strict else rows


def _profile(wanted: Intended) -> dict[str, Any]:
    """All colours alike: RoCE is green unless a policer says otherwise, and then it is to be marked all the same."""
    ecn = wanted.qos.ecn
    if not ecn.enabled:
        return {}
    row = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        row |= {
            f"wred_{colour}_enable": "true",
            f"{colour}_min_threshold": str(ecn.kmin),
            f"{colour}_max_threshold": str(ecn.kmax),
            f"{colour}_drop_probability": str(max(1, round(ecn.pmax))),
        }
    return {NAME: row}


def _bindings(wanted: Intended) -> dict[str, str]:
    row = {
        "dscp_to_tc_map": NAME,
        "tc_to_queue_map": NAME,
        "tc_to_pg_map": NAME,
        "pfc_to_queue_map": NAME,
    }
    several = ",".join(str(priority) for priority in sorted(wanted.lossless))
    return row | {"pfc_enable": several, "pfcwd_sw_enable": several}  # empty: what was there is overwritten


def _queues(wanted: Intended) -> dict[int, dict[str, str]]:
    rows = {queue: {"scheduler": f"{NAME}.{queue}"} for queue in wanted.weights}
    rows |= {queue: {"scheduler": f"{NAME}.strict"} for queue in wanted.strict}
    if wanted.qos.ecn.enabled:
        for queue in wanted.roce:
            rows[queue] = rows[queue] | {"wred_profile": NAME}
    return dict(sorted(rows.items()))


def _buffers(wanted: Intended) -> dict[str, Any]:
    """Under the dynamic model a lossless group is asked for; without it SONiC makes it from PFC, speed and cable."""
    if not wanted.lossless or not _dynamic(wanted):
        return {}
    groups = {
        f"{port.name}|{priority}": {"profile": "NULL"} for port in wanted.ports for priority in sorted(wanted.lossless)
    }
    return {"BUFFER_PG": groups, "DEFAULT_LOSSLESS_BUFFER_PARAMETER": {"AZURE": {"default_dynamic_th": "0"}}}


def _watchdog(wanted: Intended) -> dict[str, Any]:
    if not wanted.lossless:
        return {}
    row = {"action": "drop", "detection_time": _DETECT, "restoration_time": _RESTORE}
    return {"PFC_WD": {"GLOBAL": {"POLL_INTERVAL": _POLL}, **{port.name: dict(row) for port in wanted.ports}}}
