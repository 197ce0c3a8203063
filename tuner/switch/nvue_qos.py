"""The ``qos`` part of an NVUE configuration, and the answer of ``nv show qos roce``. Pure.

Defaults are those of "Quality of Service" and "RDMA over Converged Ethernet" in the Cumulus Linux 5.14 guide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.switch.model import NO_ECN, UNBOUND, Ecn, QosMap, Queue, Scheduler, Watchdog
from tuner.switch.text import Reading, shown
from tuner.switch.tree import Node
from tuner.switch.words import numbers

__all__ = ["Qos", "read_config", "read_roce", "size"]

GLOBAL = "default-global"
_DSCP = {dscp: dscp // 8 for dscp in range(64)}
_PCP = {pcp: pcp for pcp in range(8)}
_ROCE_QUEUES = {priority: {3: 3, 6: 6}.get(priority, 0) for priority in range(8)}
_IDENTITY = {priority: priority for priority in range(8)}
_ROCE_CABLE = 100.0
_TRUST = {"l2": {"pcp"}, "l3": {"dscp"}, "both": {"pcp", "dscp"}, "port": set[str]()}
_WORDS = {"pcp": "pcp", "dscp": "dscp"}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?(B|KB|MB|GB|Bytes)?")
_UNITS = {"": 1, "B": 1, "Bytes": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_LARGEST = 10**12

Fields = Mapping[str, Any]
"""Fields of a port."""


@dataclass(slots=True)
class Qos:
    """Every feature's profiles: name → the fields of the ports that use it."""

    profiles: dict[str, dict[str, Fields]] = field(default_factory=dict)
    """Feature (``mapping``, ``pfc``, …) → profile → fields."""
    queues: dict[str, dict[str, dict[int, Any]]] = field(default_factory=dict)
    """``egress-scheduler`` and ``congestion-control`` → profile → queue → Scheduler or Ecn."""
    maps: dict[str, dict[str, QosMap]] = field(default_factory=dict)
    whole: bool = True
    """False for an answer that tells of RoCE alone."""
    watchdog_poll: int | None = None
    watchdog_wait: int | None = None
    """ms until the watchdog acts."""

    def port(self, bound: Node | None, reading: Reading) -> dict[str, Any]:
        """The fields of a port, ``bound`` being its own ``qos`` block."""
        found: dict[str, Any] = {"queue_default": Queue(ecn=NO_ECN)}
        for feature in ("mapping", "remark", "egress-queue-mapping", "pfc", "link-pause"):
            found.update(_of(feature, self.profiles.get(feature, {}), bound, reading))
        schedulers, ecn = (_of(each, self.queues.get(each, {}), bound, reading) for each in _PER_QUEUE)
        found["queues"] = {
            queue: Queue(schedulers.get(queue), ecn.get(queue, NO_ECN), None, f"qos/egress-scheduler {queue}")
            for queue in sorted({*schedulers, *ecn})
        }
        pfc: frozenset[int] = found.get("pfc", frozenset())
        queue_of = found.get("tc_to_queue", UNBOUND)
        found["pfc_to_queue"] = QosMap(GLOBAL, {each: to for each in pfc if (to := queue_of.get(each)) is not None})
        if self.whole:
            found["watchdog"] = self._watchdog(bound.get("pfc-watchdog") if bound else None)
        return found

    def _watchdog(self, node: Node | None) -> Watchdog:
        if node is None or not node:
            return Watchdog(False)
        state = node.get("state").flag()
        return Watchdog(state is not False, detection=self.watchdog_wait, action="drop", place=node.place)


_PER_QUEUE = ("egress-scheduler", "congestion-control")


def _of(feature: str, profiles: Mapping[str, Any], bound: Node | None, reading: Reading) -> Mapping[Any, Any]:
    """The profile that a port uses: its own, or the global one."""
    name = bound.at(feature, "profile").text() if bound else None
    if name is not None and name not in profiles:
        place = bound.at(feature, "profile").place if bound else ""
        reading.say("dangling", place, f"{shown(name)} is not a profile of {feature}", "S14")
        return {}
    found: Mapping[Any, Any] = profiles.get(name or GLOBAL, {})
    return found


def read_config(node: Node) -> Qos:
    """``qos`` of a configuration, taken to be the whole of it: what it leaves out has the platform's default."""
    roce = node.get("roce")
    enabled = roce.get("enable").flag() if roce.get("enable") else bool(roce)
    mode = (roce.get("mode").text() or "lossless") if enabled else None
    qos = Qos(profiles=_defaults(mode, roce.get("cable-length")), queues=_default_queues(mode))
    for feature, read in _FEATURES.items():
        for name, profile in node.get(feature).items():
            base = qos.profiles.setdefault(feature, {}).get(name, {})
            qos.profiles[feature][name] = {**base, **read(name, profile, base)}
    for feature, make in (("egress-scheduler", _scheduler), ("congestion-control", _ecn)):
        for name, profile in node.get(feature).items():
            mine = qos.queues[feature].setdefault(name, {})
            for queue, each in _numbered(profile.get("traffic-class")):
                mine[queue] = make(each, mine.get(queue))
    for fields in qos.profiles["mapping"].values():
        for field_name in ("dscp_to_tc", "dot1p_to_tc"):
            if field_name in fields:
                qos.maps.setdefault(field_name, {})[fields[field_name].name] = fields[field_name]
    watchdog = node.get("pfc-watchdog")
    qos.watchdog_poll = watchdog.get("polling-interval").number(1, 10**6) or 100
    qos.watchdog_wait = qos.watchdog_poll * (watchdog.get("robustness").number(1, 1000) or 3)
    return qos


def _defaults(mode: str | None, cable: Node) -> dict[str, dict[str, Fields]]:
    """What the ports have before any profile, without and with ``qos roce``."""
    if mode is None:
        mapping: Fields = {}  # which markings are trusted without RoCE differs with the release: unknown
        return {
            "mapping": {GLOBAL: mapping},
            "egress-queue-mapping": {GLOBAL: {"tc_to_queue": QosMap(GLOBAL, _IDENTITY)}},
            "pfc": {GLOBAL: {"pfc": frozenset()}},
        }
    lossless = mode.startswith("lossless")
    metres = cable.number(0, 100_000)
    return {
        "mapping": {
            GLOBAL: {
                "trust": frozenset({"pcp", "dscp"}),
                "dscp_to_tc": QosMap(GLOBAL, _DSCP),
                "dot1p_to_tc": QosMap(GLOBAL, _PCP),
            }
        },
        "egress-queue-mapping": {GLOBAL: {"tc_to_queue": QosMap(GLOBAL, _ROCE_QUEUES)}},
        "pfc": {
            GLOBAL: {
                "pfc": frozenset({3}) if lossless else frozenset(),
                "cable": _ROCE_CABLE if metres is None else float(metres),
            }
        },
    }


def _default_queues(mode: str | None) -> dict[str, dict[str, dict[int, Any]]]:
    if mode is None:
        shares = {queue: Scheduler("", "dwrr", 12 + queue % 2) for queue in range(8)}
        return {_PER_QUEUE[0]: {GLOBAL: dict(shares)}, _PER_QUEUE[1]: {GLOBAL: {0: _marking(150_000, 1_500_000)}}}
    scheduling = {0: Scheduler("", "dwrr", 50), 3: Scheduler("", "dwrr", 50), 6: Scheduler("", "strict")}
    marks = {queue: _marking(150_000, 1_501_500) for queue in (0, 3)}
    return {_PER_QUEUE[0]: {GLOBAL: dict(scheduling)}, _PER_QUEUE[1]: {GLOBAL: dict(marks)}}


def _marking(kmin: int, kmax: int) -> Ecn:
    return Ecn("default", True, kmin, kmax, 100, "qos/congestion-control/default-global")


def _numbered(node: Node, most: int = 63) -> Iterator[tuple[int, Node]]:
    """The members of a table whose keys are numbers or lists of them (``"4,5,7"``)."""
    for key, each in node.items():
        found = numbers(key, most)
        if found is None:
            node.reading.bad(node.place, key, "a list of numbers")
        for index in found or ():
            yield index, each


def _mapping(name: str, node: Node, _base: Fields) -> Fields:
    """``trust``, ``dscp 26 switch-priority 3``, ``pcp …``; what a profile leaves out has the default map."""
    trust, found = node.get("trust").text(), dict[str, Any]()
    if trust in _TRUST:
        found["trust"] = frozenset(_TRUST[trust])
    elif trust is not None:
        node.reading.bad(f"{node.place}/trust", trust, "l2, l3, both or port")
    for source, field_name, default, most in (("dscp", "dscp_to_tc", _DSCP, 63), ("pcp", "dot1p_to_tc", _PCP, 7)):
        entries = dict(default)
        for value, each in _numbered(node.get(source), most):
            target = each.get("switch-priority").number(0, 7)
            if target is not None:
                entries[value] = target
        found[field_name] = QosMap(name, entries, f"{node.place}/{source}")
    return found


def _remark(name: str, node: Node, _base: Fields) -> Fields:
    """``rewrite l3`` and ``switch-priority 0 dscp 22``."""
    if node.get("rewrite").text() not in ("l3", "both"):
        return {}
    entries = {}
    for priority, each in _numbered(node.get("switch-priority"), 7):
        value = each.get("dscp").number(0, 63)
        if value is not None:
            entries[priority] = value
    return {"tc_to_dscp": QosMap(name, entries, f"{node.place}/switch-priority")}


def _queue_map(name: str, node: Node, base: Fields) -> Fields:
    known = base.get("tc_to_queue")
    entries = dict((known.entries if known else None) or _IDENTITY)
    for priority, each in _numbered(node.get("switch-priority"), 7):
        queue = each.get("traffic-class").number(0, 7)
        if queue is not None:
            entries[priority] = queue
    return {"tc_to_queue": QosMap(name, entries, f"{node.place}/switch-priority")}


def _pfc(_name: str, node: Node, base: Fields) -> Fields:
    """PFC runs where both directions are enabled, which is the default of a profile that says neither."""
    found: dict[str, Any] = {}
    ways = [node.get(way).flag() for way in ("tx", "rx")]
    priorities = node.get("switch-priority")
    chosen = _priorities(priorities) if priorities else base.get("pfc", frozenset())
    if False not in ways:
        found["pfc"] = chosen
    else:
        found["pfc"] = frozenset()
        found["pfc_asymmetric"] = True in ways
    metres = node.get("cable-length").number(0, 100_000)
    if metres is not None:
        found["cable"] = float(metres)
    return found


def _priorities(node: Node) -> frozenset[int]:
    """``{"3": {}}``, ``["3"]``, ``"3,4"`` or 3."""
    parts = node.value if isinstance(node.value, list | dict) else [node.value]
    found: set[int] = set()
    if isinstance(node.value, dict):
        for _ in node.items():
            pass
    for part in parts:
        each = numbers(str(part), 7) if isinstance(part, str | int) else None
        if each is None:
            node.reading.bad(node.place, part, "a list of priorities")
        found |= set(each or ())
    return frozenset(found)


def _pause(_name: str, node: Node, _base: Fields) -> Fields:
    return {"global_pause": any(node.get(way).flag() is not False for way in ("tx", "rx"))}


_FEATURES: Mapping[str, Callable[[str, Node, Fields], Fields]] = {
    "mapping": _mapping,
    "remark": _remark,
    "egress-queue-mapping": _queue_map,
    "pfc": _pfc,
    "link-pause": _pause,
}


def _scheduler(node: Node, base: Any) -> Scheduler:
    mode = node.get("mode").text() or (base.kind if base else None)
    if mode not in ("strict", "dwrr", None):
        node.reading.bad(f"{node.place}/mode", mode, "strict or dwrr")
        mode = None
    share = node.get("bw-percent").number(0, 100)
    kind: Any = mode
    return Scheduler("", kind, None if mode == "strict" else share, place=node.place)


def _ecn(node: Node, base: Any) -> Ecn:
    known = base or Ecn("", None)
    enabled = node.get("ecn").flag()
    chance = node.get("probability").number(0, 100)
    kmin, kmax = size(node.get("min-threshold")), size(node.get("max-threshold"))
    return Ecn(
        name=node.place,
        enabled=known.enabled if enabled is None else enabled,
        kmin=known.kmin if kmin is None else kmin,
        kmax=known.kmax if kmax is None else kmax,
        pmax=known.pmax if chance is None else chance,
        place=node.place,
    )


def size(node: Node) -> int | None:
    """``150000``, ``"150000 B"`` or ``"146.48 KB"`` → bytes; NVUE counts 1024 to the K, and rounds what it prints."""
    if node.value is None:
        return None
    match = _SIZE.fullmatch(str(node.value).strip()) if isinstance(node.value, str | int) else None
    if match is None:
        node.reading.bad(node.place, node.value, "a size in bytes")
        return None
    return min(round(float(match[1]) * _UNITS[match[2] or ""]), _LARGEST)


def read_roce(node: Node) -> Qos:
    """The answer of ``nv show qos roce -o json`` (or the table, as the same tree)."""
    qos = Qos(whole=False)
    pfc, mark = node.get("pfc"), node.get("congestion-control")
    found: dict[str, Any] = {}
    ways = [pfc.get(way).flag(("yes", "no")) for way in ("rx-enabled", "tx-enabled")]
    if pfc.get("pfc-priority"):
        found["pfc"] = frozenset() if False in ways else _priorities(pfc.get("pfc-priority"))
    metres = pfc.get("cable-length").number(0, 100_000)
    if metres is not None:
        found["cable"] = float(metres)
    words = (node.at("trust", "trust-mode").text() or "").split(",")
    if words != [""]:
        found["trust"] = frozenset(word for word in words if word in _WORDS)
    qos.profiles = {"pfc": {GLOBAL: found}, "mapping": {GLOBAL: _priority_map(node.get("prio-map"))}}
    targets, schedulers = _class_map(node.get("tc-map"))
    if targets:
        mapping = QosMap("roce", targets, f"{node.place}/tc-map")
        qos.profiles["egress-queue-mapping"] = {GLOBAL: {"tc_to_queue": mapping}}
    ecn = _marked(mark)
    qos.queues = {_PER_QUEUE[0]: {GLOBAL: schedulers}, _PER_QUEUE[1]: {GLOBAL: ecn}}
    node.get("lldp-app-tlv")
    return qos


def _marked(node: Node) -> dict[int, Any]:
    """The queues that ``enabled-tc`` lists, all with one pair of thresholds."""
    text = node.get("enabled-tc").text()
    queues = numbers(text, 7) if text else ()
    ecn = Ecn(
        name="roce",
        enabled="ECN" in (node.get("congestion-mode").text() or "").upper(),
        kmin=size(node.get("min-threshold")),
        kmax=size(node.get("max-threshold")),
        pmax=node.get("probability").number(0, 100),
        place=node.place,
    )
    return dict.fromkeys(queues or (), ecn)


def _priority_map(node: Node) -> Fields:
    """Rows of pcp, dscp and switch-prio, each a list of numbers."""
    maps: dict[str, dict[int, int]] = {"dscp": {}, "pcp": {}}
    for _, row in node.items():
        target = row.get("switch-prio", "switch-priority").number(0, 7)
        for name, entries in maps.items():
            values = numbers(str(row.get(name).value), 63) if row.get(name) else ()
            if target is not None:
                entries.update(dict.fromkeys(values or (), target))
    fields = (("dscp_to_tc", "dscp"), ("dot1p_to_tc", "pcp"))
    return {field_name: QosMap("roce", maps[name], node.place) for field_name, name in fields if maps[name]}


def _class_map(node: Node) -> tuple[dict[int, int], dict[int, Any]]:
    """Rows of switch-prio, traffic-class and scheduler-weight (``DWRR-50%``, ``strict-priority``)."""
    targets: dict[int, int] = {}
    schedulers: dict[int, Any] = {}
    for _, row in node.items():
        source = row.get("switch-prio", "switch-priority").number(0, 7)
        queue, weight = row.get("traffic-class").number(0, 7), (row.get("scheduler-weight").text() or "").lower()
        if source is None or queue is None:
            continue
        targets[source] = queue
        share = re.fullmatch(r"dwrr-([0-9]{1,3})%?", weight)
        if share:
            schedulers[queue] = Scheduler("", "dwrr", int(share[1]), place=row.place)
        elif weight.startswith("strict"):
            schedulers[queue] = Scheduler("", "strict", place=row.place)
    return targets, schedulers
