"""Arista EOS: eAPI answers, and the running configuration as text or as eAPI's JSON. Pure.

Commands that are known: ``show running-config``, ``show interfaces``, ``show lldp neighbors [detail]``,
``show priority-flow-control [counters]``, ``show qos interfaces ecn counters queue``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tuner.switch.bundle import Draft, gather
from tuner.switch.clitext import Line, bytes_of, dscps, interfaces, option, parse, unread
from tuner.switch.model import NO_ECN, Ecn, QosMap, Queue, QueueCounters, Scheduler, Switch, Watchdog
from tuner.switch.text import Reading, number, printable, shown
from tuner.switch.tree import Node

__all__ = ["read"]

# "Quality of Service" in the EOS manual, the same for every platform family: DSCP 0-7 is traffic class 1, 8-15 is 0.
_DEFAULT_TC = {dscp: (1, 0, 2, 3, 4, 5, 6, 7)[dscp // 8] for dscp in range(64)}
_LARGEST = 10**18
_PLACES = {
    **{name: "interface {port} " + name for name in ("mtu", "speed")},
    "pfc": "interface {port} priority-flow-control",
    "trust": "interface {port} qos trust",
    "watchdog": "priority-flow-control pause watchdog",
    "dscp_to_tc": "qos map dscp",
    "tc_to_queue": "qos map traffic-class",
    "queues": "interface {port} tx-queue",
    "dcbx": "interface {port} dcbx mode",
    "neighbour": "show lldp neighbors {port}",
    "counters": "show priority-flow-control counters {port}",
}
_HEADINGS = ("interface", "qos", "priority-flow-control", "hostname")
_QUEUE_WORDS = ("tx-queue", "uc-tx-queue")


def read(name: str, documents: Mapping[str, bytes]) -> Switch:
    """The switch that the documents describe together; never raises for their content."""
    return gather(name, Draft(Reading(), "eos", _PLACES), documents, _BODIES, _text)


# --- eAPI ----------------------------------------------------------------------------------------------------------


def _pfc_counters(body: Node, draft: Draft) -> None:
    for port, each in body.items():
        rx, tx = each.get("rxFrames").number(0, _LARGEST), each.get("txFrames").number(0, _LARGEST)
        draft.count(port, pfc_rx_total=rx, pfc_tx_total=tx)


def _ecn_counters(body: Node, draft: Draft) -> None:
    for port, each in body.items():
        queues = {}
        for queue, node in each.get("queueCounters").items():
            index = number(queue, 0, 63)
            marked = None if node.value == "-" else node.number(0, _LARGEST)  # "-": not counted on this queue
            if index is None:
                draft.reading.bad(node.place, queue, "the number of a queue")
            else:
                queues[index] = QueueCounters(ecn_marked=marked)
        draft.count(port, queues=queues)


def _interfaces(body: Node, draft: Draft) -> None:
    for port, each in body.items():
        rate = each.get("bandwidth").number(0, 10**14)
        status = each.get("lineProtocolStatus").text()
        counters = each.get("interfaceCounters")
        draft.set(
            port,
            speed=rate // 10**6 if rate else None,
            mtu=each.get("mtu").number(64, 65536),
            oper_up=None if status is None else status == "up",
        )
        draft.count(
            port,
            rx_discards=counters.get("inDiscards").number(0, _LARGEST),
            tx_discards=counters.get("outDiscards").number(0, _LARGEST),
        )


def _pfc_status(body: Node, draft: Draft) -> None:
    for port, each in body.items():
        enabled, active = each.get("enabled").flag(), each.get("active").flag()
        priorities = frozenset(
            priority for row in each.get("priorities").rows() if (priority := row.number(0, 7)) is not None
        )
        if enabled is not None:
            draft.set(port, pfc=priorities if enabled else frozenset())
        if active is not None:
            draft.set(port, pfc_oper=priorities if active else frozenset())


def _lldp(body: Node, draft: Draft) -> None:
    if isinstance(body.value, list):  # without "detail": a list of rows
        for row in body.rows():
            port = row.get("port").text()
            if port:
                draft.neighbour(port, row.get("neighborDevice").text(), row.get("neighborPort").text(), None, row.place)
        return
    for port, each in body.items():
        for row in each.get("lldpNeighborInfo").rows():
            interface = row.get("neighborInterfaceInfo")
            theirs, told = interface.get("interfaceId").text(), interface.get("interfaceDescription").text()
            name = theirs.strip('"') if theirs else None
            draft.neighbour(port, row.get("systemName").text(), name, row.get("chassisId").text(), row.place, told)


def _configuration(body: Node, draft: Draft) -> None:
    """``show running-config`` as JSON: ``{"interface Ethernet1": {"cmds": {"mtu 9214": null}}}``."""
    for _ in body.items():  # names that are none are told; the rest is read as lines
        pass
    _configure(_from_json(body.value), draft)


def _from_json(value: Any, depth: int = 0) -> Line:
    root = Line((), 0)
    for text, below in value.items() if isinstance(value, dict) else ():
        words = tuple(text.split()) if printable(text) else ()
        if not words or words[0][0] == "!":
            continue
        line = Line(words, 0)
        if isinstance(below, dict) and depth < 8:
            line.children = _from_json(below.get("cmds"), depth + 1).children
        root.children.append(line)
    return root


_BODIES: Mapping[str, Callable[[Node, Draft], None]] = {
    "interfaceCounters": _pfc_counters,
    "intfQueueCounters": _ecn_counters,
    "interfaces": _interfaces,
    "interfaceStatuses": _pfc_status,
    "lldpNeighbors": _lldp,
    "cmds": _configuration,
}


# --- running-config ------------------------------------------------------------------------------------------------


def _text(text: str, draft: Draft) -> None:
    """The running configuration; other text is not known."""
    root = parse(text)
    if any(line.words[0] in _HEADINGS for line in root.children):
        draft.answers += 1
        _configure(root, draft)


def _configure(root: Line, draft: Draft) -> None:
    """What the running configuration says; it is taken to be the whole of it."""
    tc_maps = _maps(root, draft.reading)
    profiles = {line.words[2]: line for line in root.below("qos", "profile") if len(line.words) > 2}
    watchdog = _watchdog(root, draft)
    root.has("end")
    for line in root.below("hostname"):
        draft.hostname = printable(line.words[-1])
    for line in root.below("interface"):
        for port in interfaces(line.words[1:]):
            if port.startswith("Ethernet"):
                draft.set(port, **_interface(line, profiles, tc_maps, watchdog, draft))
    draft.maps = {field: {each.name: each} for field, each in tc_maps.items()}
    draft.bindings_known = True
    for where, at in unread(root):
        draft.reading.say("ignored", where, f"no rule reads this (line {at})", group=where)


def _maps(root: Line, reading: Reading) -> dict[str, QosMap]:
    """``qos map dscp 24 26 to traffic-class 3`` over the defaults; ``qos map traffic-class 3 to tx-queue 3``."""
    dscp_to_tc, cos_to_tc = dict(_DEFAULT_TC), dict[int, int]()
    tc_to_queue = {tc: tc for tc in range(2, 8)}  # where 0 and 1 go differs from platform to platform
    for line in root.below("qos", "map"):
        kind, source, target = "".join(line.words[2:3]), line.words[3:-3], number(line.words[-1], 0, 63)
        known = {"dscp": dscp_to_tc, "cos": cos_to_tc, "traffic-class": tc_to_queue}.get(kind)
        numbers = dscps(source) if source else None
        if known is None or (kind == "traffic-class" and not line.words[-2].endswith("tx-queue")):
            continue  # to a CoS or DSCP: marking, which no rule judges
        if numbers is None or target is None or line.words[-3] != "to":
            reading.say("bad-value", f"line {line.number}", f"{shown(line.text)} is not a map")
        else:
            known.update(dict.fromkeys(numbers, target))
    return {
        "dscp_to_tc": QosMap("global", dscp_to_tc, "qos map dscp"),
        "dot1p_to_tc": QosMap("global", cos_to_tc, "qos map cos"),
        "tc_to_queue": QosMap("global", tc_to_queue, "qos map traffic-class"),
    }


def _watchdog(root: Line, draft: Draft) -> Watchdog:
    """``priority-flow-control pause watchdog …``: off until a timeout is given; times in seconds."""
    start = ("priority-flow-control", "pause", "watchdog")
    timeout = _seconds(root.after(*start, "default", "timeout"))
    action = root.after(*start, "action")
    draft.watchdog_poll = _seconds(root.after(*start, "default", "polling-interval"))
    draft.watchdog_poll_place = " ".join((*start, "default polling-interval"))
    return Watchdog(
        enabled=timeout is not None and timeout > 0,
        action=action[0] if action else None,
        detection=timeout,
        restoration=_seconds(root.after(*start, "default", "recovery-time")),
        place=" ".join(start),
    )


def _seconds(words: tuple[str, ...] | None) -> float | None:
    try:
        value = float(words[0]) * 1000 if words and len(words[0]) < 12 else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < 1e9 else None


def _interface(
    line: Line, profiles: Mapping[str, Line], maps: Mapping[str, QosMap], watchdog: Watchdog, draft: Draft
) -> dict[str, Any]:
    bound = line.after("service-profile")
    profile = profiles.get(bound[0]) if bound else None
    if bound and profile is None:
        message = f"{shown(bound[0])} is not a qos profile"
        draft.reading.say("dangling", f"{line.text} service-profile", message, "S14")
    parts = [part for part in (profile, line) if part is not None]
    routed, trust = line.has("no", "switchport"), next((w for p in parts if (w := p.after("qos", "trust"))), None)
    found: dict[str, Any] = {
        "trust": _trust(trust, routed),
        **{field: each for field, each in maps.items() if each.entries},
        "pfc": _pfc(parts),
        "watchdog": Watchdog(False, place=line.text)
        if line.has("priority-flow-control", "pause", "watchdog", "disable")
        else watchdog,
        "queues": _all_queues(parts, draft),
        "queue_default": Queue(ecn=NO_ECN),
        "admin_up": not line.has("shutdown"),
        "dcbx": _dcbx(line.after("dcbx", "mode")),
    }
    mtu, speed = line.after("mtu"), line.after("speed")
    if mtu:
        found["mtu"] = number(mtu[0], 64, 65536)
    if speed:
        found["speed"] = _speed(speed[-1])
    line.after("description")
    flow = [line.after("flowcontrol", way) for way in ("send", "receive")]
    found["global_pause"] = any(words == ("on",) for words in flow)
    return found


def _trust(words: tuple[str, ...] | None, routed: bool) -> frozenset[str] | None:
    """A routed port trusts DSCP where nothing else is said; what a switched one does depends on the platform."""
    if words is None:
        return frozenset({"dscp"}) if routed else None
    return {"dscp": frozenset({"dscp"}), "cos": frozenset({"pcp"})}.get(words[0] if words else "", frozenset())


def _pfc(parts: list[Line]) -> frozenset[int]:
    on = any(part.has("priority-flow-control", "on") for part in parts)
    named = [each.words for part in parts for each in part.below("priority-flow-control", "priority")]
    priorities = {number(words[2], 0, 7) for words in named if len(words) == 4 and words[3] == "no-drop"}
    return frozenset(priority for priority in priorities if priority is not None) if on else frozenset()


def _dcbx(words: tuple[str, ...] | None) -> str | None:
    """Off unless it is switched on (EOS default)."""
    if words is None:
        return "off"
    return words[0] if words and words[0] in ("ieee", "cee") else None


def _speed(word: str) -> int | None:
    """``400g-8``, ``100gfull`` → Mb/s."""
    gigabits = number(word.partition("g")[0], 1, 10_000)
    return None if gigabits is None else gigabits * 1000


def _all_queues(parts: list[Line], draft: Draft) -> dict[int, Queue]:
    """The profile's queues, and over them what the interface itself says."""
    found: dict[int, Queue] = {}
    for part in parts:
        for index, queue in _queues(part, draft):
            known = found.get(index, Queue())
            found[index] = Queue(queue.scheduler or known.scheduler, queue.ecn or known.ecn, None, queue.place)
    return {index: replace(queue, ecn=queue.ecn or NO_ECN) for index, queue in found.items()}


def _queues(part: Line, draft: Draft) -> Iterator[tuple[int, Queue]]:
    for kind in _QUEUE_WORDS:
        for line in part.below(kind):
            index = number(line.words[-1], 0, 63)
            if index is not None:
                place = f"{part.text} {line.text}"
                yield index, Queue(_scheduler(line, place), _ecn(line, place, draft), None, place)


def _scheduler(line: Line, place: str) -> Scheduler | None:
    share = line.after("bandwidth", "percent") or line.after("bandwidth", "guaranteed", "percent")
    line.has("no", "priority")
    if line.has("priority", "strict"):
        return Scheduler("", "strict", place=f"{place} priority strict")
    if share:
        return Scheduler("", "dwrr", number(share[0], 0, 100), place=f"{place} bandwidth percent")
    return None


def _ecn(line: Line, place: str, draft: Draft) -> Ecn | None:
    words = next((each.words[2:] for each in line.below("random-detect", "ecn") if each.words[2:] != ("count",)), None)
    if words is None:
        return None
    kmin, kmax = bytes_of(option(words, "minimum-threshold", 2)), bytes_of(option(words, "maximum-threshold", 2))
    if kmin is None or kmax is None:
        draft.reading.bad(f"{place} random-detect ecn", " ".join(words), "two thresholds with their unit")
    chance = option(words, "max-mark-probability")
    pmax = number(chance[0], 0, 100) if chance else 100  # EOS: every packet at the maximum, unless told otherwise
    return Ecn(place, True, kmin, kmax, pmax, f"{place} random-detect ecn")
