"""What NX-OS prints for ``show interface priority-flow-control`` and ``show queuing interface``. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tuner.switch.bundle import Draft
from tuner.switch.model import QueueCounters
from tuner.switch.text import number, shown

__all__ = ["parse_pfc", "parse_queuing"]

_LARGEST = 10**18
_PFC_ROW = re.compile(r"(\S+)\s+(On|Off|Auto)\s+(On|Off)\s*(?:\(([0-9a-fA-F]{1,4})\))?\s+([0-9]+)\s+([0-9]+)", re.I)
_PORT_ROW = re.compile(r"[A-Za-z-]+[0-9]+(/[0-9]+)+\s")
_SECTION = re.compile(r"(Egress|Ingress) Queuing for (\S+)")
_GROUP = re.compile(r"\|\s*QOS GROUP ([0-9]{1,2})\s*\|")
_TOTALS = re.compile(r"TxPPP:\s*([0-9]+),\s*RxPPP:\s*([0-9]+)")
_PER_COS = re.compile(r"([0-7])\s+\S+\s+\S+\s+(?:Inactive|Active)\s+([0-9]+)\s+(?:Inactive|Active)\s+([0-9]+)")
_MMU_DROPS = re.compile(r"Ingress MMU Drop Pkts\s+([0-9]+)")
_FIELDS = {"Tx Pkts": "packets", "Tx Byts": "bytes", "Dropped Pkts": "dropped"}


def parse_pfc(text: str, draft: Draft) -> None:
    """``Ethernet1/2  Auto On (9)  4088353  1890``: mode, whether PFC runs and on which priorities (a hexadecimal bitmap
    of virtual lanes), frames received and sent."""
    draft.answers += 1
    for line in text.splitlines():
        row = _PFC_ROW.fullmatch(line.strip())
        if row is None:
            if _PORT_ROW.match(line.strip()):
                draft.reading.say("bad-value", "show interface priority-flow-control", f"{shown(line)} is not a row")
            continue
        port, mode, oper, lanes, rx, tx = row.groups()
        running = frozenset(each for each in range(8) if int(lanes, 16) >> each & 1) if lanes else None
        draft.set(port, pfc_mode=mode.lower(), pfc_oper=frozenset() if oper.lower() == "off" else running)
        draft.count(port, pfc_rx_total=number(rx, 0, _LARGEST), pfc_tx_total=number(tx, 0, _LARGEST))


def parse_queuing(text: str, draft: Draft) -> None:
    """Tables of packets per queue (its columns, unicast to multicast, are added), then PFC frames per priority."""
    draft.answers += 1
    port, queue = "", -1
    queues: dict[str, dict[int, QueueCounters]] = {}
    for line in (raw.strip() for raw in text.splitlines()):
        if section := _SECTION.match(line):
            port, queue = section[2], -1
        elif group := _GROUP.fullmatch(line):
            queue = int(group[1])
        elif not port:
            continue
        elif line.startswith("|") and queue >= 0:
            mine = queues.setdefault(port, {})
            mine[queue] = _counted(mine.get(queue, QueueCounters()), line)
        else:
            _port_line(port, line, draft)
    for name, each in queues.items():
        draft.count(name, queues=each)


def _counted(counters: QueueCounters, line: str) -> QueueCounters:
    """``| Tx Pkts | 50 | Dropped Pkts | 6|``: names, each followed by its numbers."""
    field = ""
    for cell in (cell.strip() for cell in line.strip("|").split("|")):
        value = number(cell, 0, _LARGEST)
        if value is None:
            field = _FIELDS.get(cell, "")
        elif field:
            total: dict[str, Any] = {field: (getattr(counters, field) or 0) + value}
            counters = replace(counters, **total)
    return counters


def _port_line(port: str, line: str, draft: Draft) -> None:
    if totals := _TOTALS.match(line):
        tx, rx = totals.groups()
        draft.count(port, pfc_tx_total=number(tx, 0, _LARGEST), pfc_rx_total=number(rx, 0, _LARGEST))
    elif drops := _MMU_DROPS.fullmatch(line):
        draft.count(port, rx_discards=number(drops[1], 0, _LARGEST))
    elif cos := _PER_COS.fullmatch(line):
        priority, (tx, rx) = int(cos[1]), cos.groups()[1:]
        known = draft.counters.get(port)
        draft.count(
            port,
            pfc_tx={**((known and known.pfc_tx) or {}), priority: int(tx[:18])},
            pfc_rx={**((known and known.pfc_rx) or {}), priority: int(rx[:18])},
        )
