"""OpenConfig QoS as Dell Enterprise SONiC serves it: RESTCONF answers, and gNMI notifications as JSON. Pure.

Paths that are known: ``openconfig-qos:qos`` with Dell's maps, WRED profiles, buffers and PFC (models
``openconfig-qos-maps-ext``, ``-ext``, ``-buffer``) and the standard classifiers and queue-management profiles;
``openconfig-interfaces:interfaces``; ``openconfig-lldp:lldp``. A CONFIG_DB of the same switch is read by ``sonic``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tuner.switch import sonic
from tuner.switch.model import Neighbour, Port, Switch
from tuner.switch.oc_qos import define, port_fields
from tuner.switch.text import Reading, UnreadableError, decode, parse_json, printable, shown
from tuner.switch.tree import Node, Visited
from tuner.switch.words import mac_or_name

__all__ = ["read"]

_PATH = re.compile(r"/?((?:[^/\[]|\[[^\]]*\])+)")
_KEYS = re.compile(r"\[([^=\]]+)=([^\]]*)\]")
_SPEED = re.compile(r"(?:[a-z-]+:)?SPEED_([0-9]{1,4})(GB|MB)")
_MOST = 10_000
_PLACES = {
    name: f"openconfig-qos:qos/interfaces/interface={{port}}/{path}"
    for name, path in {
        "pfc": "pfc/pfc-priorities",
        "pfc_asymmetric": "pfc/config/asymmetric",
        "watchdog": "pfc/watchdog",
        "cable": "cable-length",
        "trust": "interface-maps",
        "dscp_to_tc": "interface-maps/config/dscp-to-forwarding-group",
        "tc_to_queue": "interface-maps/config/forwarding-group-to-queue",
        "tc_to_pg": "interface-maps/config/forwarding-group-to-priority-group",
        "pfc_to_queue": "interface-maps/config/pfc-priority-to-queue",
        "queues": "output",
    }.items()
} | {
    "mtu": "openconfig-interfaces:interfaces/interface={port}/config/mtu",
    "speed": "openconfig-interfaces:interfaces/interface={port}/ethernet/config/port-speed",
    "neighbour": "openconfig-lldp:lldp/interfaces/interface={port}",
    "groups": "openconfig-qos:qos/buffer/buffer-priority-groups",
}


class _Gathered:
    """The subtrees of all documents, by what they are about."""

    def __init__(self) -> None:
        self.qos: list[Node] = []
        self.interfaces: list[Node] = []
        self.lldp: list[Node] = []

    def add(self, name: str, node: Node) -> bool:
        """Sort a top-level member by its name; whether it is known."""
        module, _, path = name.rpartition(":")
        if path == "qos" and module in ("openconfig-qos", ""):
            self.qos.append(node)
        elif path == "interfaces" and module in ("openconfig-interfaces", ""):
            self.interfaces.append(node)
        elif path == "lldp":
            self.lldp.append(node)
        else:
            return False
        return True


def read(name: str, documents: Mapping[str, bytes]) -> Switch:
    """The switch that the documents describe together; never raises for their content."""
    reading, visited, gathered = Reading(), Visited(), _Gathered()
    broken: list[tuple[str, str]] = []
    tables: dict[str, bytes] = {}
    for label, data in documents.items():
        try:
            text = decode(data)
            if text.lstrip()[:1] not in "{[":
                tables[label] = data
                continue
            document = parse_json(text, reading)
            if not _sort(document, label, gathered, reading, visited):
                tables[label] = data
        except UnreadableError as error:
            broken.append((label, str(error)))
    if tables and not (gathered.qos or gathered.interfaces or gathered.lldp):
        return sonic.read(name, documents, "dell-sonic")
    for label in tables:
        broken.append((label, "is not OpenConfig, and the other documents are"))
    for label, why in broken:
        reading.say("unreadable" if len(broken) == len(documents) else "partial", label, why)
    switch = _switch(name, ", ".join(documents), gathered, reading)
    visited.tell_ignored(reading)
    return replace(switch, findings=reading.findings())


def _sort(document: Any, label: str, gathered: _Gathered, reading: Reading, visited: Visited) -> bool:
    """Put a document's subtrees where they belong; False when none of it is OpenConfig."""
    found = False
    for tree in _notified(document):
        for name, value in tree.items():
            node = Node(value, f"{label}/{shown(name)}" if label else name, reading, visited, name)
            if gathered.add(name, node):
                found = True
            elif name.rpartition(":")[0].startswith(("openconfig-qos", "openconfig-interfaces")):
                # a part of the tree: {"openconfig-qos:interfaces": …}, {"openconfig-qos-maps-ext:dscp-maps": …}
                gathered.qos.append(Node({name: value}, label, reading, visited, label))
                found = True
    return found


def _notified(document: Any) -> Iterator[dict[str, Any]]:
    """Trees of a document: itself, or the values that gNMI notifications hold, each below its path."""
    if not isinstance(document, dict):
        parts = document if isinstance(document, list) else []
        yield from (part for part in parts[:_MOST] if isinstance(part, dict))
        return
    notifications = document.get("notification")
    if not isinstance(notifications, list):
        yield document
        return
    for notification in notifications[:_MOST]:
        updates = notification.get("update") if isinstance(notification, dict) else None
        for update in updates[:_MOST] if isinstance(updates, list) else ():
            if isinstance(update, dict):
                tree = _below(update.get("path"), update.get("val"))
                if isinstance(tree, dict):
                    yield tree


def _below(path: Any, value: Any) -> Any:
    """``openconfig-qos:qos/interfaces/interface[interface-id=Ethernet0]`` and a value → the tree around it."""
    if not isinstance(path, str) or len(path) > 2000:
        return value
    for element in reversed(_PATH.findall(path)):
        name, keys = element.partition("[")[0], dict(_KEYS.findall(element))
        if keys:
            value = [{**keys, **value} if isinstance(value, dict) else keys]
        value = {name: value}
    return value


def _switch(name: str, source: str, gathered: _Gathered, reading: Reading) -> Switch:
    defined = define(gathered.qos, reading)
    links = _links(gathered.interfaces)
    neighbours = dict(_neighbours(gathered.lldp))
    qos = port_fields(gathered.qos, defined, reading)
    ports: dict[str, Port] = {}
    for port in dict.fromkeys([*links, *qos, *neighbours]):
        if port.startswith("Eth") and printable(port) and reading.room(ports, port):
            fields = {**(defined.unbound if gathered.qos else {}), **qos.get(port, {}), **links.get(port, {})}
            ports[port] = Port(name=port, places=_PLACES, neighbour=neighbours.get(port), **fields)
    if not gathered.qos and (links or neighbours):
        reading.say("partial", "", "has no openconfig-qos:qos in it")
    return Switch(
        name=name,
        platform="dell-sonic",
        source=source,
        ports=ports,
        maps=defined.maps or None,
        bindings_known=bool(gathered.qos),
        schedulers={each.name: each for policy in defined.policies.values() for each in policy.values()} or None,
        ecn_profiles=defined.ecn or None,
        pools=defined.pools or None,
        profiles=defined.profiles or None,
        watchdog_poll=defined.watchdog_poll,
        watchdog_poll_place="openconfig-qos:qos/pfc-watchdog/poll",
    )


def _links(nodes: list[Node]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for node in nodes:
        for row in node.find("interface").rows():
            name = row.find("name").text()
            if name is None:
                continue
            config, state, ethernet = row.find("config"), row.find("state"), row.find("ethernet")
            status = state.find("oper-status").text()
            fields = {
                "mtu": (config.find("mtu") or state.find("mtu")).number(64, 65536),
                "speed": _speed(
                    ethernet.find("config").find("port-speed") or ethernet.find("state").find("port-speed")
                ),
                "admin_up": config.find("enabled").flag(),
                "oper_up": None if status is None else status == "UP",
            }
            found.setdefault(name, {}).update({key: value for key, value in fields.items() if value is not None})
    return found


def _speed(node: Node) -> int | None:
    """``openconfig-if-ethernet:SPEED_400GB`` → 400000."""
    text = node.text()
    match = _SPEED.fullmatch(text) if text else None
    if match is None:
        return None
    return int(match[1]) * (1000 if match[2] == "GB" else 1)


def _neighbours(nodes: list[Node]) -> Iterator[tuple[str, Neighbour]]:
    for node in nodes:
        for row in node.find("interfaces").find("interface").rows():
            name = row.find("name").text()
            for each in row.find("neighbors").find("neighbor").rows():
                state = each.find("state")
                theirs, chassis = state.find("port-id").text(), state.find("chassis-id").text()
                if name:
                    system = state.find("system-name").text()
                    told = state.find("port-description").text()
                    yield name, Neighbour(system, mac_or_name(theirs), mac_or_name(chassis), each.place, told)
