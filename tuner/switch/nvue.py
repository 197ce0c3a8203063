"""NVIDIA Cumulus Linux: NVUE's configuration and answers, from its REST API or ``nv … -o json``, or as text. Pure.

Documents that are known: ``nv config show -o json`` and ``GET /nvue_v1/?rev=applied`` (the configuration),
``nv show qos roce`` (``-o json``, or the table), ``nv show interface -o json`` (link and LLDP).

A packet's *switch priority* is the model's traffic class; NVUE's *traffic class* is an egress queue. PFC is per switch
priority.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuner.switch.clitext import interfaces
from tuner.switch.model import Neighbour, Port, Switch
from tuner.switch.nvue_qos import Qos, read_config, read_roce
from tuner.switch.nvue_table import parse_table
from tuner.switch.text import Reading, UnreadableError, decode, parse_json, printable
from tuner.switch.tree import Node, Visited
from tuner.switch.words import mac_or_name

__all__ = ["EVERY_PORT", "read"]

EVERY_PORT = "swp*"
"""Stands for all ports where a source describes them alike and names none (``nv show qos roce``)."""

_PLACES = {
    "mtu": "interface/{port}/link/mtu",
    "speed": "interface/{port}/link/speed",
    "trust": "qos/mapping",
    "dscp_to_tc": "qos/mapping",
    "dot1p_to_tc": "qos/mapping",
    "tc_to_queue": "qos/egress-queue-mapping/default-global",
    "pfc": "qos/pfc",
    "cable": "qos/pfc cable-length",
    "watchdog": "interface/{port}/qos/pfc-watchdog",
    "queues": "qos/egress-scheduler",
    "neighbour": "interface/{port}/lldp/neighbor",
}
_SPEEDS = {"G": 1000, "M": 1}


class _Draft:
    """A switch in the making: each port's link, and the QoS of the ports by feature."""

    def __init__(self) -> None:
        self.reading = Reading()
        self.links: dict[str, dict[str, Any]] = {}
        self.qos: Qos | None = None
        self.running: Qos | None = None
        self.bound: dict[str, Node] = {}
        self.hostname: str | None = None


def read(name: str, documents: Mapping[str, bytes]) -> Switch:
    """The switch that the documents describe together; never raises for their content."""
    draft, visited, broken = _Draft(), Visited(), []
    for label, data in documents.items():
        try:
            _document(label, decode(data), draft, visited)
        except UnreadableError as error:
            broken.append((label, str(error)))
    for label, why in broken:
        draft.reading.say("unreadable" if len(broken) == len(documents) else "partial", label, why)
    switch = _switch(name, ", ".join(documents), draft)
    visited.tell_ignored(draft.reading)
    return replace(switch, findings=draft.reading.findings())


def _document(label: str, text: str, draft: _Draft, visited: Visited) -> None:
    if text.lstrip()[:1] not in "{[":
        shown, running = parse_table(text, draft.reading)
        draft.qos = read_roce(Node(shown, label, draft.reading, visited))
        draft.running = read_roce(Node(running, label, Reading(), Visited()))
        return
    node = Node(_tree(parse_json(text, draft.reading)), label, draft.reading, visited)
    value = node.value
    if not isinstance(value, dict):
        raise UnreadableError("is JSON, but not an answer of NVUE")
    if "qos" in value or "interface" in value:
        _configuration(node, draft)
    elif "pfc" in value and ("congestion-control" in value or "trust" in value):
        draft.qos = read_roce(node)
    elif value and all(isinstance(each, dict) and ("link" in each or "type" in each) for each in value.values()):
        _interfaces(node, draft)
    else:
        raise UnreadableError("is JSON, but not an answer of NVUE that is known here")


def _tree(document: Any) -> Any:
    """``nv config show`` wraps the configuration: ``[{"header": …}, {"set": …}]``."""
    if isinstance(document, list):
        return next((part["set"] for part in document if isinstance(part, dict) and "set" in part), None)
    return document["set"] if isinstance(document, dict) and isinstance(document.get("set"), dict) else document


def _configuration(node: Node, draft: _Draft) -> None:
    draft.hostname = node.at("system", "hostname").text() or draft.hostname
    if node.get("qos"):
        draft.qos = read_config(node.get("qos"))
    _interfaces(node.get("interface"), draft)


def _interfaces(node: Node, draft: _Draft) -> None:
    for names, each in node.items():
        for port in interfaces([names]):
            if port.startswith("swp") and printable(port) and draft.reading.room(draft.links, port):
                draft.links.setdefault(port, {}).update(_link(port, each))
                if each.get("qos"):
                    draft.bound[port] = each.get("qos")


def _link(port: str, node: Node) -> dict[str, Any]:
    link, status = node.get("link"), node.at("link", "oper-status").text()
    found = {
        "mtu": link.get("mtu").number(64, 65536),
        "speed": _speed(link.get("speed")),
        "admin_up": _up(link.get("admin-status", "state")),
        "oper_up": None if status is None else status == "up",
        "neighbour": _neighbour(port, node.at("lldp", "neighbor")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _up(node: Node) -> bool | None:
    """``"up"``, or ``{"up": {}}`` as the configuration writes it."""
    value = next(iter(node.value), None) if isinstance(node.value, dict) else node.value
    return {"up": True, "down": False}.get(value) if isinstance(value, str) else None


def _speed(node: Node) -> int | None:
    text = node.text()
    if text is None or text == "auto":
        return None
    number, unit = text[:-1], _SPEEDS.get(text[-1:])
    if unit is None or not number.isdigit() or len(number) > 6:
        node.reading.bad(node.place, text, "a speed such as 400G")
        return None
    return int(number) * unit


def _neighbour(port: str, node: Node) -> Neighbour | None:
    """``{"leaf0": {"chassis": {"system-name", "chassis-id"}, "port": {"name"}}}``; the first that is heard."""
    for name, each in node.items():
        chassis = each.get("chassis")
        theirs = each.get("port")
        return Neighbour(
            system=chassis.get("system-name").text() or name,
            port=mac_or_name(theirs.text() if isinstance(theirs.value, str) else theirs.get("name", "id").text()),
            chassis=mac_or_name(chassis.get("chassis-id").text()),
            place=f"interface/{port}/lldp/neighbor",
            description=theirs.get("description").text() if isinstance(theirs.value, dict) else None,
        )
    return None


def _switch(name: str, source: str, draft: _Draft) -> Switch:
    links = draft.links or ({EVERY_PORT: {}} if draft.qos else {})
    ports = {}
    for port, link in links.items():
        fields = draft.qos.port(draft.bound.get(port), draft.reading) if draft.qos else {}
        ports[port] = Port(name=port, places=_PLACES, **{**fields, **link})
    if draft.links and not draft.qos:
        draft.reading.say("partial", "", "says nothing about QoS")
    return Switch(
        name=name,
        platform="cumulus",
        source=source,
        hostname=draft.hostname,
        ports=ports,
        maps=draft.qos.maps if draft.qos else None,
        bindings_known=draft.qos is not None,
        watchdog_poll=draft.qos.watchdog_poll if draft.qos else None,
        watchdog_poll_place="qos/pfc-watchdog/polling-interval",
        mtu_is_frame=False,
        operational=_running(name, source, draft),
    )


def _running(name: str, source: str, draft: _Draft) -> Switch | None:
    """What the table's operational column says."""
    if draft.running is None:
        return None
    ports = {port: Port(name=port, places=_PLACES, **draft.running.port(None, Reading())) for port in [EVERY_PORT]}
    return Switch(name, "cumulus", source, ports=ports, bindings_known=True)
