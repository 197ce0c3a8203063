"""The QoS of an NX-OS running configuration: class maps, policy maps, and where they are applied. Pure.

A packet's class (``qos-group``) is what a ``type qos`` policy gives it, and also the number of its egress queue
(``c-out-8q-q3``); a ``type network-qos`` policy makes a class lossless and names the priority to pause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tuner.switch.bundle import Draft
from tuner.switch.clitext import Line, bytes_of, dscps, interfaces, option, unread
from tuner.switch.model import NO_ECN, UNBOUND, Ecn, QosMap, Queue, Scheduler, Watchdog
from tuner.switch.text import number, printable, shown

__all__ = ["configure"]

_QUEUE = re.compile(r"(?:[a-z0-9-]*-)?(?:q|nq)(-default|[0-9]{1,2})")
_NO_DOG = Watchdog(False)
_POLICIES = ("qos", "network-qos", "queuing")


def configure(root: Line, draft: Draft) -> None:
    """What the running configuration says; it is taken to be the whole of it."""
    classes = dict(_classes(root, draft))
    policies = {
        kind: {line.words[3]: line for line in root.below("policy-map", "type", kind) if len(line.words) > 3}
        for kind in _POLICIES
    }
    system = list(root.below("system", "qos"))
    everywhere = {kind: _applied(system, kind, policies[kind], draft) for kind in _POLICIES}
    lossless = _lossless(everywhere["network-qos"], draft)
    timing = _watchdog_times(root, draft)
    maps: dict[str, dict[str, QosMap]] = {}
    for line in root.below("hostname"):
        draft.hostname = printable(line.words[-1])
    for line in root.below("interface"):
        fields = _interface(line, classes, policies, everywhere, timing, draft)
        _pauses(fields, lossless)
        for name in ("dscp_to_tc", "dot1p_to_tc"):
            if (bound := fields.get(name)) is not None and bound is not UNBOUND:
                maps.setdefault(name, {})[bound.name] = bound
        for port in interfaces(line.words[1:]):
            if port.startswith("Ethernet"):
                draft.set(port, **fields)
    draft.maps, draft.bindings_known = maps, True
    for where, at in unread(root):
        draft.reading.say("ignored", where, f"no rule reads this (line {at})", group=where)


def _classes(root: Line, draft: Draft) -> Iterator[tuple[str, tuple[str, frozenset[int]]]]:
    """Class map → (``dscp`` or ``cos``, values)."""
    for line in root.below("class-map", "type", "qos"):
        for match in line.below("match"):
            kind, values = match.words[1] if len(match.words) > 1 else "", dscps(match.words[2:])
            if kind in ("dscp", "cos") and values is not None:
                yield line.words[-1], (kind, values)
            else:
                draft.reading.bad(f"line {match.number}", match.text, "match dscp or match cos, which is what is known")


def _applied(places: list[Line], kind: str, policies: Mapping[str, Line], draft: Draft) -> Line | None:
    """The policy of a kind that ``system qos`` or an interface applies."""
    for place in places:
        for line in place.below("service-policy", "type", kind):
            policy = policies.get(line.words[-1])
            if policy is not None:
                return policy
            message = f"{shown(line.words[-1])} is not a policy-map of type {kind}"
            draft.reading.say("dangling", f"{place.text} {line.text}", message, "S14")
    return None


def _lossless(policy: Line | None, draft: Draft) -> Mapping[int, int]:
    """Priority that is paused → class, from ``class type network-qos c-8q-nq3`` with ``pause pfc-cos 3``."""
    found = {}
    for line in policy.below("class", "type", "network-qos") if policy else ():
        group, pause = _group(line.words[-1]), line.after("pause", "pfc-cos")
        line.after("mtu")
        for priority in pause or ():
            value = number(priority, 0, 7)
            if value is None or group is None:
                draft.reading.bad(f"line {line.number}", line.text, "a class with a priority to pause")
            else:
                found[value] = group
    return found


def _group(name: str) -> int | None:
    """``c-out-8q-q3``, ``c-8q-nq3`` → 3; ``c-out-8q-q-default`` → 0."""
    match = _QUEUE.fullmatch(name)
    return None if match is None else number(match[1], 0, 15) or 0


def _watchdog_times(root: Line, draft: Draft) -> Watchdog:
    """``priority-flow-control watch-dog-interval value 200`` (ms), ``… watch-dog shutdown-multiplier 2``."""
    start = ("priority-flow-control",)
    interval = _number(root.after(*start, "watch-dog-interval", "value"))
    shutdown = _number(root.after(*start, "watch-dog", "shutdown-multiplier"))
    restore = _number(root.after(*start, "watch-dog", "auto-restore", "multiplier"))
    draft.watchdog_poll = interval
    draft.watchdog_poll_place = "priority-flow-control watch-dog-interval value"
    return Watchdog(
        enabled=None,
        detection=interval * shutdown if interval and shutdown else None,
        restoration=interval * restore if interval and restore else None,
    )


def _number(words: tuple[str, ...] | None) -> int | None:
    return number(words[0], 0, 10**6) if words else None


def _interface(
    line: Line,
    classes: Mapping[str, tuple[str, frozenset[int]]],
    policies: Mapping[str, Mapping[str, Line]],
    everywhere: Mapping[str, Line | None],
    timing: Watchdog,
    draft: Draft,
) -> dict[str, Any]:
    classify = _applied([line], "qos", policies["qos"], draft) or everywhere["qos"]
    queuing = _applied([line], "queuing", policies["queuing"], draft) or everywhere["queuing"]
    mode, dog = line.after("priority-flow-control", "mode"), line.after("priority-flow-control", "watch-dog-interval")
    line.after("description")
    mtu, speed = _number(line.after("mtu")), _number(line.after("speed"))
    return {
        **_classified(classify, classes, draft),
        "tc_to_queue": QosMap("qos-group", {group: group for group in range(8)}),
        "pfc_mode": mode[0] if mode and mode[0] in ("on", "off", "auto") else "auto",  # auto is the default
        "watchdog": replace(timing, enabled=bool(dog) and dog[0] == "on", place=line.text) if dog else _NO_DOG,
        "queues": dict(_queues(queuing, draft)) if queuing else {},
        "queue_default": Queue(ecn=NO_ECN),
        "mtu": mtu,
        "speed": speed,
        "admin_up": not line.has("shutdown"),
    }


def _pauses(fields: dict[str, Any], lossless: Mapping[int, int]) -> None:
    """PFC of a port: the priorities that network-qos pauses, where the port's mode is not off."""
    fields["pfc"] = frozenset() if fields["pfc_mode"] == "off" else frozenset(lossless)
    fields["pfc_to_queue"] = QosMap("network-qos", dict(lossless), "policy-map type network-qos")


def _classified(policy: Line | None, classes: Mapping[str, tuple[str, frozenset[int]]], draft: Draft) -> dict[str, Any]:
    """Maps and trust of a ``type qos`` policy. Without one everything is in qos-group 0."""
    if policy is None:
        return {"dscp_to_tc": UNBOUND, "dot1p_to_tc": UNBOUND, "trust": frozenset()}
    found: dict[str, dict[int, int]] = {"dscp": {}, "cos": {}}
    default = 0
    for line in policy.below("class"):
        target = _number(line.after("set", "qos-group"))
        name = line.words[-1]
        if name == "class-default":
            default = target or 0
        elif name not in classes:
            message = f"{shown(name)} is not a class-map of type qos"
            draft.reading.say("dangling", f"{policy.text} {line.text}", message, "S14")
        elif target is not None:
            kind, values = classes[name]
            found[kind].update({value: target for value in values if value not in found[kind]})  # the first class wins
    name, place = policy.words[-1], policy.text
    return {
        "dscp_to_tc": _complete(name, found["dscp"], 64, default, place),
        "dot1p_to_tc": _complete(name, found["cos"], 8, default, place),
        "trust": frozenset(word for kind, word in (("dscp", "dscp"), ("cos", "pcp")) if found[kind]),
    }


def _complete(name: str, entries: Mapping[int, int], size: int, default: int, place: str) -> QosMap:
    """What no class matches is in class-default."""
    if not entries:
        return UNBOUND
    return QosMap(name, {**dict.fromkeys(range(size), default), **entries}, place)


def _queues(policy: Line, draft: Draft) -> Iterator[tuple[int, Queue]]:
    for line in policy.below("class", "type", "queuing"):
        group = _group(line.words[-1])
        if group is None:
            draft.reading.bad(f"line {line.number}", line.text, "a queue such as c-out-8q-q3")
            continue
        place = f"{policy.text} {line.words[-1]}"
        yield group, Queue(_scheduler(line, place), _ecn(line, place, draft), None, place)


def _scheduler(line: Line, place: str) -> Scheduler | None:
    share = line.after("bandwidth", "remaining", "percent") or line.after("bandwidth", "percent")
    if line.after("priority", "level") is not None or line.has("priority"):
        return Scheduler("", "strict", place=f"{place} priority")
    if share:
        return Scheduler("", "dwrr", number(share[0], 0, 100), place=f"{place} bandwidth")
    return None


def _ecn(line: Line, place: str, draft: Draft) -> Ecn:
    """``random-detect minimum-threshold 150 kbytes maximum-threshold 3000 kbytes drop-probability 7 weight 0 ecn``."""
    words = line.after("random-detect")
    if words is None:
        return NO_ECN
    kmin, kmax = bytes_of(option(words, "minimum-threshold", 2)), bytes_of(option(words, "maximum-threshold", 2))
    chance = option(words, "drop-probability")
    if kmin is None or kmax is None:
        draft.reading.bad(f"{place} random-detect", " ".join(words), "two thresholds with their unit")
    marks = "ecn" in words or line.has("ecn")
    return Ecn(place, marks, kmin, kmax, number(chance[0], 0, 100) if chance else None, f"{place} random-detect")
