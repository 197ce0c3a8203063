"""S01-S03, S12-S14: a switch's maps and tables, whether they are in force, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tuner.lint import remedy
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.switch_words import (
    NO_GROUPS,
    NO_PFC,
    group_of,
    hit,
    lossless_group,
    lossless_queues,
    pfc_now,
)
from tuner.lint.rules.words import numbers
from tuner.lint.subjects import PortAt, SwitchAt
from tuner.switch.model import UNBOUND, Port, QosMap

__all__ = ["RULES"]

_NAMED = 8
"""Maps that a finding names; a hostile file may have thousands."""

_MAPS: dict[str, Callable[[Port], QosMap | None]] = {
    "dscp_to_tc": lambda port: port.dscp_to_tc,
    "dot1p_to_tc": lambda port: port.dot1p_to_tc,
    "tc_to_queue": lambda port: port.tc_to_queue,
    "tc_to_pg": lambda port: port.tc_to_pg,
    "pfc_to_queue": lambda port: port.pfc_to_queue,
    "pfc_to_pg": lambda port: port.pfc_to_pg,
}


@rule(
    "S01",
    Severity.CRITICAL,
    Scope.SWITCH,
    title="QoS maps are defined and bound nowhere",
    why="The maps look right in every listing and do nothing: all packets are in the default class, which is lossy."
    " It is what a QoS template leaves that was rendered before the ports were known.",
    source="SONiC PORT_QOS_MAP (sonic-port-qos-map.yang); orchagent applies a map only through a port's row",
    fix="Bind the maps on every port: PORT_QOS_MAP.",
)
def bound_nowhere(at: SwitchAt) -> Verdict:
    switch = at.switch
    own = [port.port for port in at.ports if "|" not in port.port.name]  # not another card's, which binds its own
    if switch.maps is None:
        yield Missing("QoS maps of the switch")
    elif not switch.bindings_known:
        yield Missing("which port uses which map")
    elif any(_binds(port, switch.default_dscp_to_tc) for port in own):
        return
    elif any(value(port) is None for port in own for value in _MAPS.values()):
        yield Missing("which port uses which map")
    elif names := sorted(each.place for maps in switch.maps.values() for each in maps.values() if _idle(at, each)):
        table = "PORT_QOS_MAP" if switch.platform == "sonic" else ""
        yield Hit(at.at(table), _unbound(at, names), lambda: _bind_all(at), platform=switch.platform)


def _idle(at: SwitchAt, each: QosMap) -> bool:
    return each.place not in at.switch.maps_elsewhere


def _unbound(at: SwitchAt, names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    evidence = f"{len(names)} maps are defined, no port binds one: {', '.join(names[:_NAMED])}{more}"
    if at.switch.default_dscp_to_tc not in (None, UNBOUND):
        evidence += " (one is the switch's default, the others do nothing)"
    return evidence


def _binds(port: Port, default: QosMap | None) -> bool:
    """Whether the port itself binds a map; the switch's default for all ports does not count."""
    bound = (value(port) for value in _MAPS.values())
    return any(each is not None and each is not UNBOUND and each is not default for each in bound)


def _bind_all(at: SwitchAt) -> str:
    port = next((each.port.name for each in at.ports if "|" not in each.port.name), "Ethernet0")
    if at.switch.platform != "sonic":
        return f"bind the maps on every port, {remedy.plain(port)} and the others"
    names = {field: next(iter(maps)) for field, maps in (at.switch.maps or {}).items() if maps and field in _MAPS}
    return remedy.sonic_patch((("PORT_QOS_MAP", port), {f"{field}_map": name for field, name in names.items()})) + (
        ", and the same for every other port"
    )


@rule(
    "S02",
    Severity.CRITICAL,
    Scope.PORT,
    title="PFC on a priority without a lossless priority group",
    why="The port obeys pauses and never sends one: without headroom behind a threshold there is nothing that"
    " triggers it. Packets that arrive while the queue is full are dropped.",
    source="SONiC BUFFER_PG (sonic-buffer-pg.yang); buffermgrd makes the group from speed, cable and"
    " pg_profile_lookup.ini",
    fix="A lossless profile for the priority's group: BUFFER_PG, or profile NULL with a cable length in the dynamic"
    " model.",
)
def no_group(at: PortAt) -> Verdict:
    port, pfc = at.port, pfc_now(at.port)
    if pfc is None:
        yield NO_PFC
        return
    if pfc and port.groups is None:
        yield NO_GROUPS
        return
    absent: list[int] = []
    lossy: list[int] = []
    for priority in sorted(pfc):
        group = lossless_group(at, priority)
        if group is not None and group.lossless is None:
            yield Missing("buffer profile of a priority group")
        elif group is None:
            absent.append(priority)
        elif not group.lossless:
            lossy.append(priority)
    if lossy:
        yield _without_group(at, lossy, "is lossy")
    if absent:
        yield from _absent(at, absent)


def _without_group(at: PortAt, priorities: list[int], what: str) -> Hit:
    evidence = f"PFC is on priority {numbers(priorities)}, whose priority group {what}"
    number = group_of(at.port, priorities[0]) or priorities[0]
    return hit(at, "groups", evidence, lambda: remedy.priority_group(at.switch, at.port, number))


def _absent(at: PortAt, priorities: list[int]) -> Verdict:
    """No group in the source; SONiC's buffer manager may still make one from speed and cable."""
    port = at.port
    if at.switch.platform == "sonic":
        if port.cable == 0:
            return  # L08: with no length there will be no group
        if port.cable is not None and at.switch.lookup is None:
            yield Missing("pg_profile_lookup.ini (whether the buffer manager makes the priority group)")
            return
        if any(row.speed == at.speed and row.cable == port.cable for row in at.switch.lookup or ()):
            return
    yield _without_group(at, priorities, "is not there")


@rule(
    "S03",
    Severity.CRITICAL,
    Scope.PORT,
    title="Maps of a lossless class disagree",
    why="The traffic class enters one priority group and leaves by one queue. If the pause for it stops another"
    " queue, or is sent for another group, the class drops while an innocent one stands still.",
    source="SONiC TC_TO_PRIORITY_GROUP_MAP, TC_TO_QUEUE_MAP, MAP_PFC_PRIORITY_TO_QUEUE",
    fix="Map the lossless traffic class to the group and the queue of its own number in all three.",
)
def maps_disagree(at: PortAt) -> Verdict:
    port, pfc = at.port, pfc_now(at.port)
    if pfc is None:
        yield NO_PFC
        return
    for tc in sorted(pfc):
        queue, stopped = _known(port.tc_to_queue, tc), _known(port.pfc_to_queue, tc)
        group, sending = _known(port.tc_to_pg, tc), group_of(port, tc)
        if queue is None or group is None or (stopped is None and port.pfc_to_queue is not None):
            yield Missing("queue or priority group of a lossless traffic class")
        if queue is not None and stopped is not None and queue != stopped:
            evidence = f"traffic class {tc} leaves by queue {queue}, a pause for priority {tc} stops queue {stopped}"
            yield hit(
                at, "pfc_to_queue", evidence, _align(at, "MAP_PFC_PRIORITY_TO_QUEUE", port.pfc_to_queue, tc, queue)
            )
        if group is not None and sending is not None and group != sending:
            evidence = (
                f"traffic class {tc} is in priority group {group}, pauses for priority {tc} come from group {sending}"
            )
            yield hit(at, "tc_to_pg", evidence, _align(at, "TC_TO_PRIORITY_GROUP_MAP", port.tc_to_pg, tc, sending))


def _known(mapping: QosMap | None, key: int) -> int | None:
    return None if mapping is None or mapping is UNBOUND else mapping.get(key)


def _align(at: PortAt, table: str, mapping: QosMap | None, key: int, value: int) -> str:
    if at.switch.platform == "sonic" and mapping:
        return remedy.sonic_patch(((table, mapping.name, str(key)), str(value)))
    return f"map {key} to {value} on {remedy.plain(at.port.name)}"


@rule(
    "S12",
    Severity.MEDIUM,
    Scope.PORT,
    title="A QoS change waits on a port that carries lossless traffic",
    why="What is saved differs from what runs. The reload that brings it in empties the port's buffers and maps for"
    " a moment: lossless traffic drops, watchdogs fire, jobs stop.",
    source="SONiC: config qos reload clears the QoS tables before it writes them",
    fix="Drain the port (or stop the jobs) before `config qos reload`, or use config apply-patch.",
)
def reload_on_live(at: PortAt) -> Verdict:
    waiting = tuple(_pending(at))
    if at.switch.operational is None and at.port.pfc_oper is None:
        yield Missing("what runs on the switch")
    elif waiting and (at.port.counters is None or at.port.counters.queues is None):
        yield Missing("counters of the port's queues")
    elif waiting:
        for found in lossless_queues(at):
            counters = (at.port.counters.queues or {}) if at.port.counters else {}
            packets = 0 if isinstance(found, Missing) or found[1] not in counters else counters[found[1]].packets or 0
            if packets and at.port.oper_up is not False:
                evidence = f"{waiting[0]}; the lossless class has carried traffic"
                yield Hit(
                    at.place, evidence, f"drain {remedy.plain(at.place)}, then reload", platform=at.switch.platform
                )


@rule(
    "S13",
    Severity.HIGH,
    Scope.PORT,
    title="The switch does not run what it is configured to",
    why="A change that the hardware refused, or that was never applied, passes every review of the configuration.",
    source="SONiC CONFIG_DB against APPL_DB; NVUE applied against operational; NX-OS admin against oper",
    fix="Apply the configuration again and read the log of what refused it.",
)
def not_running(at: PortAt) -> Verdict:
    if at.switch.operational is None and at.port.pfc_oper is None:
        yield Missing("what runs on the switch")
    for difference in _pending(at):
        yield Hit(at.place, difference, _apply_again(at), platform=at.switch.platform)


def _apply_again(at: PortAt) -> str:
    return {
        "sonic": "config reload, or restart of swss; then show log for orchagent",
        "cumulus": "nv config apply; journalctl -u switchd",
    }.get(at.switch.platform, "apply the configuration again")


def _pending(at: PortAt) -> Iterator[str]:
    port = at.port
    running = at.switch.operational.ports.get(port.name) if at.switch.operational else None
    if port.pfc_oper is not None and port.pfc_mode != "auto" and port.pfc is not None and port.pfc != port.pfc_oper:
        yield f"PFC is configured on priority {numbers(port.pfc)} and runs on {numbers(port.pfc_oper)}"
    if running is None:
        return
    for what, set_to, is_now in (
        ("speed", port.speed, running.speed),
        ("MTU", port.mtu, running.mtu),
        ("PFC", port.pfc, running.pfc),
        ("trust", port.trust, running.trust),
        ("DSCP map", _entries(port), _entries(running)),
    ):
        if set_to is not None and is_now is not None and set_to != is_now:
            yield f"{what} is configured as {_shown(set_to)} and runs as {_shown(is_now)}"


def _entries(port: Port) -> object:
    return dict(port.dscp_to_tc.entries) if port.dscp_to_tc and port.dscp_to_tc.entries else None


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        return ",".join(sorted(str(each) for each in value)) or "none"
    return "one map" if isinstance(value, dict) else str(value)


@rule(
    "S14",
    Severity.INFO,
    Scope.SWITCH,
    title="Dangling, old-form or doubled entries",
    why="A reference to nothing leaves the platform's default in force. A key that is there twice has one value on"
    " the switch and perhaps another in your editor. The old [TABLE|name] form stops working after an upgrade.",
    source="SONiC db_migrator (references lost their brackets in version 3.0.3); RFC 8259 section 4 on doubled keys",
    fix="Correct the entry named.",
)
def references(at: SwitchAt) -> Verdict:
    fixes = {
        "dangling": "define it, or remove the reference",
        "old-form": "write the name alone, without [TABLE|…]",
        "duplicate-key": "keep one of the two",
    }
    for finding in at.switch.findings:
        if finding.kind in fixes:
            yield Hit(at.at(finding.place), finding.message, fixes[finding.kind], platform=at.switch.platform)


RULES: tuple[Rule, ...] = (bound_nowhere, no_group, maps_disagree, reload_on_live, not_running, references)
