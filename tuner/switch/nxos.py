"""Cisco NX-OS: NX-API answers (JSON-RPC or ``ins_api``, rows as objects or lists), ``show`` text, running-config. Pure.

Commands that are known: ``show running-config`` (also ``ipqos``), ``show interface``, ``show interface
priority-flow-control``, ``show queuing interface``, ``show lldp neighbors detail``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from tuner.switch.bundle import Draft, gather
from tuner.switch.clitext import parse
from tuner.switch.model import QueueCounters, Switch
from tuner.switch.nxos_config import configure
from tuner.switch.nxos_show import parse_pfc, parse_queuing
from tuner.switch.text import Reading
from tuner.switch.tree import Node

__all__ = ["read"]

_LARGEST = 10**18
_PFC_TABLE = re.compile(r"^Port\s+Mode\s+Oper", re.MULTILINE)
_QUEUING = re.compile(r"^(Egress|Ingress) Queuing for ", re.MULTILINE)
_HEADINGS = ("interface", "class-map", "policy-map", "system", "priority-flow-control", "hostname")
_PLACES = {
    "mtu": "interface {port} mtu",
    "speed": "interface {port} speed",
    "pfc": "policy-map type network-qos",
    "pfc_mode": "interface {port} priority-flow-control mode",
    "pfc_oper": "show interface priority-flow-control {port}",
    "watchdog": "interface {port} priority-flow-control watch-dog-interval",
    "trust": "interface {port} service-policy type qos input",
    "dscp_to_tc": "interface {port} service-policy type qos input",
    "queues": "policy-map type queuing",
    "neighbour": "show lldp neighbors detail {port}",
    "counters": "show queuing interface {port}",
}


def read(name: str, documents: Mapping[str, bytes]) -> Switch:
    """The switch that the documents describe together; never raises for their content."""
    return gather(name, Draft(Reading(), "nxos", _PLACES), documents, _BODIES, _text)


def _text(text: str, draft: Draft) -> None:
    if _PFC_TABLE.search(text):
        parse_pfc(text, draft)
    elif _QUEUING.search(text):
        parse_queuing(text, draft)
    else:
        root = parse(text)
        if any(line.words[0] in _HEADINGS for line in root.children):
            draft.answers += 1
            configure(root, draft)


def _table(node: Node, name: str) -> Iterator[Node]:
    """``TABLE_x`` → its rows; NX-OS writes a single row as an object."""
    return node.get(f"TABLE_{name}").get(f"ROW_{name}").rows()


def _modules(body: Node, draft: Draft) -> None:
    for module in body.get("ROW_module").rows():
        for row in _table(module, "pfc_interface"):
            _pfc(row, draft)
        for row in _table(module, "queuing_interface"):
            _queuing(row, draft)


def _pfc(row: Node, draft: Draft) -> None:
    port = row.get("if_name_str", "if-name-str").text()
    if port is None:
        return
    admin, oper = row.get("admin").text(), row.get("oper").text()
    parse_pfc(f"{port} {admin or '?'} {oper or '?'} 0 0", draft)  # "Auto", "On  (8)": the words of the text output
    draft.count(
        port,
        pfc_rx_total=row.get("rx-stats", "rx_stats").number(0, _LARGEST),
        pfc_tx_total=row.get("tx-stats", "tx_stats").number(0, _LARGEST),
    )


def _queuing(row: Node, draft: Draft) -> None:
    port = row.get("if_name_str", "if-name-str").text()
    queues = {}
    for group in _table(row, "qosgrp_egress_stats"):
        index = group.get("eq-qosgrp").number(0, 63)
        counts: dict[str, int] = {}
        for entry in _table(group, "qosgrp_egress_stats_entry"):
            kind = f"{entry.get('eq-stat-type').text()} {entry.get('eq-stat-units').text()}"
            counts[kind] = sum(
                entry.get(f"eq-{way}stat-value").number(0, _LARGEST) or 0 for way in ("uc-", "oobfc-uc-", "mc-")
            )
        if index is not None:
            queues[index] = QueueCounters(counts.get("Tx Pkts"), counts.get("Tx Byts"), counts.get("Dropped Pkts"))
    if port and queues:
        draft.count(port, queues=queues)


def _interfaces(body: Node, draft: Draft) -> None:
    for row in body.get("ROW_interface").rows():
        port = row.get("interface").text()
        if port is None or not port.startswith("Ethernet"):
            continue
        rate, state = row.get("eth_bw").number(0, 10**10), row.get("state").text()
        draft.set(
            port,
            speed=rate // 1000 if rate else None,  # kb/s
            mtu=row.get("eth_mtu").number(64, 65536),
            oper_up=None if state is None else state == "up",
        )


def _lldp(body: Node, draft: Draft) -> None:
    for row in body.get("ROW_nbor_detail", "ROW_nbor").rows():
        port = row.get("l_port_id").text()
        if port:
            ours = re.sub(r"^Eth(?=[0-9])", "Ethernet", port)
            system, theirs = row.get("sys_name").text(), row.get("port_id").text()
            told = row.get("port_desc").text()
            draft.neighbour(ours, system, theirs, row.get("chassis_id").text(), row.place, told)


_BODIES: Mapping[str, Callable[[Node, Draft], None]] = {
    "TABLE_module": _modules,
    "TABLE_interface": _interfaces,
    "TABLE_nbor_detail": _lldp,
    "TABLE_nbor": _lldp,
}
