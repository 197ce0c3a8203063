"""``openconfig-qos:qos``: what is defined, and what each interface uses of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tuner.switch.model import (
    NO_ECN,
    UNBOUND,
    BufferPool,
    BufferProfile,
    Ecn,
    PriorityGroup,
    QosMap,
    Queue,
    Scheduler,
    Watchdog,
)
from tuner.switch.text import Reading, number, shown
from tuner.switch.tree import Node
from tuner.switch.words import metres, numbers

__all__ = ["Defined", "define", "port_fields"]

T = TypeVar("T")
_LARGEST = 10**12
_MAPS = {
    # field of a port: container of the maps, key of an entry, value of an entry, what binds it
    "dscp_to_tc": ("dscp-map", "dscp", "fwd-group", "dscp-to-forwarding-group"),
    "dot1p_to_tc": ("dot1p-map", "dot1p", "fwd-group", "dot1p-to-forwarding-group"),
    "tc_to_queue": ("forwarding-group-queue-map", "fwd-group", "output-queue-index", "forwarding-group-to-queue"),
    "tc_to_pg": (
        "forwarding-group-priority-group-map",
        "fwd-group",
        "priority-group-index",
        "forwarding-group-to-priority-group",
    ),
    "tc_to_dscp": ("forwarding-group-dscp-map", "fwd-group", "dscp", "forwarding-group-to-dscp"),
    "pfc_to_queue": ("pfc-priority-queue-map", "dot1p", "output-queue-index", "pfc-priority-to-queue"),
    "pfc_to_pg": (
        "pfc-priority-priority-group-map",
        "dot1p",
        "priority-group-index",
        "pfc-priority-to-priority-group",
    ),
}


@dataclass(slots=True)
class Defined:
    """By name."""

    maps: dict[str, dict[str, QosMap]] = field(default_factory=dict)
    policies: dict[str, dict[int, Scheduler]] = field(default_factory=dict)
    """Scheduler policy → queue → scheduler."""
    ecn: dict[str, Ecn] = field(default_factory=dict)
    pools: dict[str, BufferPool] = field(default_factory=dict)
    profiles: dict[str, BufferProfile] = field(default_factory=dict)
    classifiers: dict[str, dict[int, int]] = field(default_factory=dict)
    """Standard OpenConfig: classifier → DSCP → traffic class."""
    watchdog_poll: int | None = None

    @property
    def unbound(self) -> dict[str, Any]:
        """The fields of an interface that the QoS tree does not mention."""
        return {**dict.fromkeys(_MAPS, UNBOUND), "trust": frozenset(), "pfc": frozenset(), "watchdog": Watchdog(False)}


def define(nodes: list[Node], reading: Reading) -> Defined:
    """Maps, scheduler policies, WRED profiles, buffers and classifiers of all trees."""
    defined = Defined()
    for qos in nodes:
        for field_name, (container, key, value, _) in _MAPS.items():
            for name, each in _named(qos.find(f"{container}s").find(container)):
                entries = each.find(f"{container}-entries").find(f"{container}-entry")
                made = QosMap(name, dict(_entries(entries, key, value)), each.place)
                defined.maps.setdefault(field_name, {})[name] = made
        for name, each in _named(qos.find("scheduler-policies").find("scheduler-policy")):
            defined.policies[name] = dict(_schedulers(name, each))
        for name, each in _named(qos.find("wred-profiles").find("wred-profile")):
            defined.ecn[name] = _wred(name, each.find("config"))
        for name, each in _named(qos.find("queue-management-profiles").find("queue-management-profile")):
            defined.ecn[name] = _uniform(name, each.find("wred").find("uniform").find("config"))
        for name, each in _named(qos.find("classifiers").find("classifier")):
            defined.classifiers[name] = dict(_terms(each))
        _buffers(qos.find("buffer"), defined, reading)
        poll = qos.find("pfc-watchdog").find("poll").find("config").find("poll-interval").number(1, 10**6)
        defined.watchdog_poll = poll or defined.watchdog_poll
    return defined


def _named(node: Node, key: str = "name") -> Iterator[tuple[str, Node]]:
    for row in node.rows():
        config = row.find("config")
        name = row.find(key).text() or config.find(key).text()
        if name is None:
            row.reading.bad(row.place, None, f"a member with a {key}")
        else:
            yield name, row


def _entries(node: Node, key: str, value: str) -> Iterator[tuple[int, int]]:
    for row in node.rows():
        config = row.find("config")
        source = row.find(key).number(0, 63)
        target = config.find(value).number(0, 63)
        if source is None:
            source = config.find(key).number(0, 63)
        if source is not None and target is not None:
            yield source, target


def _schedulers(name: str, node: Node) -> Iterator[tuple[int, Scheduler]]:
    """A scheduler's sequence is its queue; 255 is the whole port."""
    for row in node.find("schedulers").find("scheduler").rows():
        config = row.find("config")
        index = row.find("sequence").number(0, 255)
        kind = (config.find("type").text() or config.find("priority").text() or "").rpartition(":")[2].upper()
        made: Any = {"STRICT": "strict", "DWRR": "dwrr", "WRR": "wrr"}.get(kind)
        if kind and made is None:
            row.reading.bad(f"{row.place}/config/type", kind, "STRICT, DWRR or WRR")
        if index is not None and index < 64:
            weight = config.find("weight").number(0, 1000)
            yield index, Scheduler(f"{name}@{index}", made, None if made == "strict" else weight, place=row.place)


def _wred(name: str, node: Node) -> Ecn:
    """Dell's: bytes, and ``ecn: ECN_GREEN``."""
    mode = (node.find("ecn").text() or "ECN_NONE").rpartition(":")[2].upper()
    return Ecn(
        name=name,
        enabled=mode in ("ECN_ALL", "ECN_GREEN", "ECN_GREEN_YELLOW", "ECN_GREEN_RED"),
        kmin=node.find("green-min-threshold").number(0, _LARGEST),
        kmax=node.find("green-max-threshold").number(0, _LARGEST),
        pmax=(node.find("green-drop-rate") or node.find("green-drop-probability")).number(0, 100),
        place=node.place,
    )


def _uniform(name: str, node: Node) -> Ecn:
    """Standard OpenConfig's: bytes."""
    return Ecn(
        name=name,
        enabled=node.find("enable-ecn").flag(),
        kmin=node.find("min-threshold").number(0, _LARGEST),
        kmax=node.find("max-threshold").number(0, _LARGEST),
        pmax=node.find("max-drop-probability-percent").number(0, 100),
        place=node.place,
    )


def _terms(node: Node) -> Iterator[tuple[int, int]]:
    """DSCP → traffic class of a classifier whose groups are numbers, or end in one (``fg3``)."""
    for term in node.find("terms").find("term").rows():
        target = term.find("actions").find("config").find("target-group").text() or ""
        group = number(target[-1:], 0, 9)
        for family in ("ipv4", "ipv6"):
            config = term.find("conditions").find(family).find("config")
            values = config.find("dscp-set").rows() if config.find("dscp-set") else iter([config.find("dscp")])
            for each in values:
                value = each.number(0, 63)
                if value is not None and group is not None:
                    yield value, group


def _buffers(node: Node, defined: Defined, reading: Reading) -> None:
    for name, each in _named(node.find("buffer-pools").find("buffer-pool")):
        config = each.find("config")
        kind: Any = {"INGRESS": "ingress", "EGRESS": "egress"}.get(_word(config.find("type")))
        mode: Any = {"STATIC": "static", "DYNAMIC": "dynamic"}.get(_word(config.find("mode")))
        size, xoff = (config.find(leaf).number(0, _LARGEST) for leaf in ("size", "xoff"))
        defined.pools[name] = BufferPool(name, kind, mode, size, xoff, each.place)
    for name, each in _named(node.find("buffer-profiles").find("buffer-profile")):
        defined.profiles[name] = _profile(name, each, defined, reading)


def _word(node: Node) -> str:
    return (node.text() or "").rpartition(":")[2].upper()


def _profile(name: str, node: Node, defined: Defined, reading: Reading) -> BufferProfile:
    config = node.find("config")
    return BufferProfile(
        name=name,
        pool=_lookup(config.find("pool"), defined.pools, "a buffer pool", reading),
        size=config.find("size").number(0, _LARGEST),
        xon=config.find("resume-threshold").number(0, _LARGEST),
        xon_offset=config.find("resume-offset-threshold").number(0, _LARGEST),
        xoff=config.find("pause-threshold").number(0, _LARGEST),
        dynamic_th=config.find("dynamic-threshold").number(-8, 8),
        static_th=config.find("static-threshold").number(0, _LARGEST),
        place=node.place,
    )


def _lookup(node: Node, defined: Mapping[str, T], what: str, reading: Reading) -> T | None:
    name = node.text()
    if name is None:
        return None
    if name not in defined:
        reading.say("dangling", node.place, f"{shown(name)} is not {what}", "S14", group=what)
        return None
    return defined[name]


def port_fields(nodes: list[Node], defined: Defined, reading: Reading) -> dict[str, dict[str, Any]]:
    """Interface → fields of the model's port."""
    found: dict[str, dict[str, Any]] = {}
    queues: dict[str, dict[int, Queue]] = {}
    for qos in nodes:
        for name, row in _named(qos.find("interfaces").find("interface"), "interface-id"):
            mine = found.setdefault(name, {})
            mine.update(_maps(row, defined, reading))
            if row.find("pfc"):
                mine.update(_pfc(row.find("pfc")))
            length = row.find("cable-length").find("config").find("length").text()
            if length is not None:
                mine["cable"] = metres(length)
            queues.setdefault(name, {}).update(_scheduled(row.find("output"), defined, reading))
        for name, groups in _groups(qos.find("buffer"), defined, reading):
            found.setdefault(name, {}).setdefault("groups", {}).update(groups)
    for qos in nodes:  # after every interface: what comes in parts may have its queues first
        _marked(qos.find("queues").find("queue"), queues, defined, reading)
    for name, each in queues.items():
        found.setdefault(name, {}).update(queues=each, queue_default=Queue(ecn=NO_ECN))
    for fields in found.values():
        kinds = (("dscp_to_tc", "dscp"), ("dot1p_to_tc", "pcp"))
        fields["trust"] = frozenset(word for kind, word in kinds if kind in fields)
    return found


def _marked(node: Node, queues: dict[str, dict[int, Queue]], defined: Defined, reading: Reading) -> None:
    """Dell's own list of queues (``Ethernet0:3``) and the WRED profile of each."""
    for name, row in _named(node):
        port, _, index = name.rpartition(":")
        at = number(index, 0, 63)
        if port and at is not None:
            profile = row.find("wred").find("config").find("wred-profile")
            ecn = _lookup(profile, defined.ecn, "a WRED profile", reading) if profile else NO_ECN
            known = queues.setdefault(port, {}).get(at, Queue())
            queues[port][at] = Queue(known.scheduler, ecn, None, row.place)


def _maps(row: Node, defined: Defined, reading: Reading) -> dict[str, Any]:
    """The maps that an interface binds, and no others: another part of the tree may bind more."""
    config = row.find("interface-maps").find("config")
    found: dict[str, Any] = {}
    for field_name, (container, _, _, bound_by) in _MAPS.items():
        if node := config.find(bound_by):
            known = _lookup(node, defined.maps.get(field_name, {}), f"a {container}", reading)
            found[field_name] = known or QosMap(shown(node.value), None)
    for each in row.find("input").find("classifiers").find("classifier").rows():
        name = each.find("config").find("name").text()
        if name in defined.classifiers:
            found["dscp_to_tc"] = QosMap(str(name), defined.classifiers[str(name)], each.place)
    return found


def _pfc(node: Node) -> dict[str, Any]:
    """PFC is off unless a priority is enabled; so is the watchdog unless it has an action or a time."""
    on = {
        priority
        for row in node.find("pfc-priorities").find("pfc-priority").rows()
        if (priority := row.find("dot1p").number(0, 7)) is not None and row.find("config").find("enable").flag()
    }
    config = node.find("watchdog").find("config")
    detection, restoration = (config.find(f"{each}-time").number(0, 10**9) for each in ("detection", "restoration"))
    action = config.find("action").text()
    return {
        "pfc": frozenset(on),
        "pfc_asymmetric": node.find("config").find("asymmetric").flag(),
        "watchdog": Watchdog(
            enabled=bool(detection or action),
            action=action.rpartition(":")[2].lower() if action else None,
            detection=detection,
            restoration=restoration,
            place=config.place,
        ),
    }


def _scheduled(node: Node, defined: Defined, reading: Reading) -> dict[int, Queue]:
    policy = _lookup(node.find("scheduler-policy").find("config").find("name"), defined.policies, "a policy", reading)
    found = {index: Queue(each, NO_ECN, None, each.place) for index, each in (policy or {}).items()}
    for row in node.find("queues").find("queue").rows():  # standard OpenConfig binds the profile here
        config = row.find("config")
        index = number((config.find("name").text() or "")[-1:], 0, 9)
        profile = config.find("queue-management-profile")
        if index is not None and profile:
            ecn = _lookup(profile, defined.ecn, "a queue-management-profile", reading)
            known = found.get(index, Queue())
            found[index] = Queue(known.scheduler, ecn, None, row.place)
    return found


def _groups(node: Node, defined: Defined, reading: Reading) -> Iterator[tuple[str, dict[int, PriorityGroup]]]:
    for name, row in _named(node.find("buffer-priority-groups").find("buffer-priority-group"), "ifname"):
        indices = numbers(str(row.find("priority-group").value), 63)
        profile = _lookup(row.find("config").find("profile"), defined.profiles, "a buffer profile", reading)
        group = PriorityGroup(profile, place=row.place)
        yield name, dict.fromkeys(indices or (), group)
