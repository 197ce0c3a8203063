"""L12, R01-R05: what counters say of a running fabric.

Counters are since the driver's load or the last clear, so "rising" and "how much of the time" need two readings of one
host (give both files: the later one is judged). What one reading can tell is told from one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.switch_words import NO_PFC, lossless_queues, pfc_now, queue_of
from tuner.lint.subjects import CableAt, NicAt, PortAt, SwitchAt
from tuner.nic import NicQos

__all__ = ["RULES"]

_MARKS_AND_CNPS = (
    ("np_ecn_marked_roce_packets", "np_cnp_sent"),  # mlx5
    ("rx_ecn_marked_pkts", "tx_cnp_pkts"),  # bnxt_re
    ("RxECNMrkd", "cnpSent"),  # irdma
)
_STORM = 0.1
"""Share of the time paused from which it is a storm rather than flow control."""
_FULLY_PAUSED_QUANTA = 65535 * 512  # bit times that one pause frame lasts
_WRONG_CLASS = 0.1
_WRONG_CLASS_BYTES = 1 << 30
_APART = 2.0  # ends are read at different times: less than this factor is no difference
_FEW = 1000


@rule(
    "L12",
    Severity.HIGH,
    Scope.NIC,
    title="Packets arrive marked, no CNPs are sent",
    why="The switches tell of congestion and the receiver keeps it to itself: senders never slow down, and PFC does"
    " all the work.",
    source="mlx5 hw_counters np_ecn_marked_roce_packets and np_cnp_sent; DCQCN (SIGCOMM 2015)",
    fix="Enable the notification point on the lossless priority: `roceway-tune apply` (H11).",
)
def marks_without_cnps(at: NicAt) -> Verdict:
    counters = at.nic.counters.rdma
    pair = next((pair for pair in _MARKS_AND_CNPS if pair[0] in counters and pair[1] in counters), None)
    if pair is None:
        yield Missing("the RDMA device's counters of marks and CNPs")
    elif counters[pair[0]] and not counters[pair[1]]:
        evidence = f"{pair[0]} has counted, {pair[1]} is 0"
        yield Hit(at.place, evidence, f"on {at.host.node}: roceway-tune apply -f fabric.yaml (ECN NP on)")


@rule(
    "R01",
    Severity.CRITICAL,
    Scope.NIC,
    Scope.PORT,
    title="Drops in a lossless class",
    why="A lossless class has dropped: somewhere headroom, PFC or a map is not what it seems. Each drop makes RoCE"
    " send a whole window again.",
    source="ethtool rx_prioN_discards; SAI_QUEUE_STAT_DROPPED_PACKETS, SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS",
    fix="Look at S02-S04, L01, L02 and H07 for this link first; then at the cable length.",
)
def drops(at: NicAt | PortAt) -> Verdict:
    yield from _nic_drops(at) if isinstance(at, NicAt) else _port_drops(at)


_DROPS_FIX = "roceway-tune lint on both ends of this link; then clear the counters and look again"


def _nic_drops(at: NicAt) -> Verdict:
    if at.nic.pfc is None:
        yield Missing("PFC of the NIC")
    elif at.nic.pfc.enabled and at.nic.counters.rx_discards is None:
        yield Missing("discards of the NIC by priority")
    else:
        for priority in at.nic.pfc.enabled:
            if (at.nic.counters.rx_discards or ())[priority]:
                yield Hit(at.place, f"received packets of lossless priority {priority} were dropped", _DROPS_FIX)


def _port_drops(at: PortAt) -> Verdict:
    if pfc_now(at.port) is None:
        yield NO_PFC
    elif not pfc_now(at.port):
        return
    elif at.port.counters is None or (at.port.counters.queues is None and at.port.counters.pg_dropped is None):
        yield Missing("drop counters of the switch port")
    else:
        for priority in sorted(pfc_now(at.port) or ()):
            yield from _class_drops(at, priority)


def _class_drops(at: PortAt, priority: int) -> Verdict:
    counters = at.port.counters
    number = queue_of(at.port, priority)
    queue = (counters.queues or {}).get(number) if counters and number is not None else None
    if queue and queue.dropped:
        yield Hit(at.at("counters"), f"lossless queue of priority {priority} has dropped packets", _DROPS_FIX)
    if counters and (counters.pg_dropped or {}).get(priority):
        yield Hit(at.at("counters"), f"priority group {priority} has dropped packets: no headroom left", _DROPS_FIX)


@rule(
    "R02",
    Severity.CRITICAL,
    Scope.NIC,
    Scope.PORT,
    title="Pause storm",
    why="Something pauses its link for a large part of the time. The pauses travel backwards through the switches"
    " and stop traffic that has nothing to do with it.",
    source="Guo et al. (SIGCOMM 2016), 4.3; a pause lasts 65535 quanta of 512 bit times: 83.9 µs at 400G, 335.5 µs"
    " at 100G",
    fix="Find the NIC at the end of the pauses, drain its host, and read its PCIe and its firmware log (H18).",
)
def storm(at: NicAt | PortAt) -> Verdict:
    yield from _nic_storm(at) if isinstance(at, NicAt) else _port_storm(at)


def _port_storm(at: PortAt) -> Verdict:
    queues = at.port.counters.queues if at.port.counters else None
    known = {number: each for number, each in (queues or {}).items() if each.status or each.deadlocks is not None}
    if not known:
        yield Missing("watchdog counters of the switch port")
    for number, queue in sorted(known.items()):
        where = f"{at.at('counters')} queue {number}"
        if queue.status == "stormed":
            yield Hit(where, "the watchdog has the queue as stormed", _STORM_FIX)
        elif queue.deadlocks:
            yield Hit(where, "the watchdog has detected storms; the queue runs now", _STORM_FIX, Severity.HIGH)


_STORM_FIX = "look at the NIC on this link: drain its host, read its PCIe state and firmware log"


def _nic_storm(at: NicAt) -> Verdict:
    if at.nic.pfc is None:
        yield Missing("PFC of the NIC")
    elif at.nic.pfc.enabled and (at.before is None or not at.seconds):
        yield Missing("a second reading of the host (pause is judged by share of time)")
    elif at.before is not None and at.seconds:
        for priority in at.nic.pfc.enabled:
            for word, part in _paused(at, at.before, at.seconds, priority).items():
                if part >= _STORM:
                    yield Hit(at.place, f"priority {priority} was {word} {part:.0%} of the time", _STORM_FIX)


def _paused(at: NicAt, before: NicQos, seconds: float, priority: int) -> Mapping[str, float]:
    """Share of the time paused, by direction, from counted time or else from counted frames."""
    found: dict[str, float] = {}
    speed = (at.nic.link.speed if at.nic.link else None) or at.speed
    pairs = (
        ("paused by the switch", at.nic.counters.rx_pause_us, before.counters.rx_pause_us, 1e-6),
        ("pausing the switch", at.nic.counters.tx_pause_us, before.counters.tx_pause_us, 1e-6),
        ("paused by the switch", at.nic.counters.rx_pause, before.counters.rx_pause, _frame_seconds(speed)),
        ("pausing the switch", at.nic.counters.tx_pause, before.counters.tx_pause, _frame_seconds(speed)),
    )
    for word, now, then, unit in pairs:
        if now is not None and then is not None and unit and word not in found:
            found[word] = min(1.0, max(0, now[priority] - then[priority]) * unit / seconds)
    return found


def _frame_seconds(speed: int | None) -> float:
    """How long one pause frame stops a class at most; 0 for unknown. ``speed`` in Mb/s."""
    return _FULLY_PAUSED_QUANTA / (speed * 1e6) if speed else 0.0


@rule(
    "R03",
    Severity.HIGH,
    Scope.SWITCH,
    title="The switch pauses and does not mark",
    why="Pauses without a single ECN mark say that marking starts too late or not at all (S06, S07): PFC alone"
    " carries congestion control.",
    source="SAI_PORT_STAT_PFC_n_TX_PKTS against SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS",
    fix="ECN on the lossless queues with Kmin below the pause threshold (S06, S07).",
)
def pauses_without_marks(at: SwitchAt) -> Verdict:
    if at.qos and not at.qos.ecn.enabled:
        return
    sent = [_sent(port) for port in at.ports if port.port.counters]
    marks = [each for port in at.ports for each in _marked(port)]
    if not any(each is not None for each in sent):
        yield Missing("PFC counters of the switch")
    elif not marks:
        yield Missing("ECN counters of the switch's lossless queues")
    elif sum(each or 0 for each in sent) > _FEW and not any(marks):
        yield Hit(
            at.place, "pauses were sent, no packet of a lossless queue was marked", "see S06 and S07 for this switch"
        )


def _sent(port: PortAt) -> int | None:
    counters = port.port.counters
    if counters is None or (counters.pfc_tx is None and counters.pfc_tx_total is None):
        return None
    return sum((counters.pfc_tx or {}).values()) + (counters.pfc_tx_total or 0)


def _marked(port: PortAt) -> list[int]:
    queues = port.port.counters.queues if port.port.counters else None
    numbers = [found[1] for found in lossless_queues(port) if not isinstance(found, Missing)] if queues else []
    found = ((queues or {}).get(number) for number in numbers)
    return [each.ecn_marked for each in found if each and each.ecn_marked is not None]


@rule(
    "R04",
    Severity.HIGH,
    Scope.NIC,
    title="RoCE runs on priority 0",
    why="Bytes of a rail are counted in the default class: some library marks its packets otherwise than meant, and"
    " they travel unprotected (H03).",
    source="ethtool tx_prioN_bytes; a rail carries next to nothing but RoCE",
    fix="Find what sends with ToS 0: NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS, rdma_cm's default_roce_tos.",
)
def wrong_priority(at: NicAt) -> Verdict:
    sent = at.nic.counters.tx_bytes
    if sent is None:
        yield Missing("bytes of the NIC by priority")
        return
    if at.before is not None and at.before.counters.tx_bytes is not None:
        sent = tuple(max(0, now - then) for now, then in zip(sent, at.before.counters.tx_bytes, strict=True))
    total = sum(sent)
    if at.rail and sent[0] > _WRONG_CLASS_BYTES and sent[0] > _WRONG_CLASS * total:
        evidence = "more than a tenth of the bytes sent were on priority 0"
        yield Hit(at.place, evidence, f"on {at.host.node}: check NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS and default_roce_tos")


@rule(
    "R05",
    Severity.MEDIUM,
    Scope.CABLE,
    title="Pauses sent at one end are not received at the other",
    why="Pause frames are lost, filtered or counted for another priority: the link is lossless in one direction at"
    " most.",
    source="IEEE 802.3 annex 31D (MAC control frames are never forwarded): what is sent is received",
    fix="Compare the PFC priorities (L01); check the cable and the optics for errors.",
)
def pause_counts(at: CableAt) -> Verdict:
    counters = at.port.port.counters if at.port else None
    if at.nic is None or at.port is None or counters is None:
        yield Missing("counters of both ends of the cable")
        return
    own = at.nic.nic.counters
    pairs = (
        ("sent by the NIC", own.tx_pause, counters.pfc_rx),
        ("sent by the switch", own.rx_pause, counters.pfc_tx),
    )
    for word, nic, port in pairs:
        if nic is None or port is None:
            yield Missing("pause counters of both ends of the cable")
            continue
        for priority, count in port.items():
            if priority < len(nic) and _apart(nic[priority], count):
                evidence = f"pauses of priority {priority} {word}: the ends count more than twice apart"
                yield Hit(at.where, evidence, "clear both counters and compare again; then L01, cable and optics")


def _apart(one: int, other: int) -> bool:
    return max(one, other) > _FEW and max(one, other) > _APART * min(one, other)


RULES: tuple[Rule, ...] = (marks_without_cnps, drops, storm, pauses_without_marks, wrong_priority, pause_counts)
