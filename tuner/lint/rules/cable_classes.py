"""L01-L07, L10: a NIC against the switch port it is plugged into, and the port against what the fabric wants."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.lint import remedy
from tuner.lint.classes import classes, wanted_pfc
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.switch_words import NO_PFC, group_of, guards, hit, pfc_now, share
from tuner.lint.rules.words import apply, numbers
from tuner.lint.subjects import CableAt, PortAt, Side, TrunkAt
from tuner.switch.model import UNBOUND, QosMap, Switch

__all__ = ["RULES"]

_NO_SWITCH = Missing("configuration of the switch")
_NO_HOST = Missing("the host's state, and fabric.yaml")
_L2 = 18  # Ethernet header and one VLAN tag
_LEAST_SHARE = 0.1


def _both(at: CableAt | TrunkAt) -> Iterator[tuple[PortAt, Side] | Missing]:
    """Each port of the cable with each expectation of it, or what was not read."""
    for port in (at.port,) if isinstance(at, CableAt) else (at.one, at.other):
        if port is None:
            yield _NO_SWITCH
            continue
        if not at.sides:
            yield _NO_HOST
        for side in at.sides:
            yield port, side


@rule(
    "L01",
    Severity.CRITICAL,
    Scope.CABLE,
    Scope.TRUNK,
    title="PFC is on other priorities than the host or the fabric has it",
    why="A pause for a priority that the other end does not pause is ignored: it keeps sending, and what arrives is"
    " dropped. A lab counted 6.5 million drops without one pause frame, and 96 % fewer with the sets made equal.",
    source="IEEE 802.1Q clause 36: both ends of a link must agree per priority",
    fix="PFC on the host's lossless priority on the switch port; on more, buffer is wasted but nothing drops.",
)
def pfc_sets(at: CableAt | TrunkAt) -> Verdict:
    for both in _both(at):
        if isinstance(both, Missing):
            yield both
            continue
        port, side = both
        own = pfc_now(port.port)
        if own is None:
            yield NO_PFC
        elif side.pfc is None:
            yield Missing("PFC of the NIC")
        elif own != side.pfc and not (isinstance(at, TrunkAt) and own > side.pfc):  # more is usual on uplinks: T04
            evidence = f"PFC: {side.who} {numbers(side.pfc)}, the switch port {numbers(own)}"
            severity = Severity.MEDIUM if own > side.pfc else None
            wanted = sorted(side.pfc)
            yield _at_cable(at, port, "pfc", evidence, remedy.pfc(port.switch, port.port, wanted), severity)


def _at_cable(
    at: CableAt | TrunkAt,
    port: PortAt,
    attribute: str,
    evidence: str,
    fix: str,
    severity: Severity | None = None,
) -> Hit:
    """A hit on the port's field, with the host's name behind it where there is one."""
    node = f" ({at.node}/{at.rail})" if isinstance(at, CableAt) and at.node else ""
    return Hit(port.at(attribute) + node, evidence, fix, severity, port.switch.platform)


@rule(
    "L02",
    Severity.CRITICAL,
    Scope.CABLE,
    Scope.TRUNK,
    title="The switch does not protect the DSCP that RoCE has",
    why="The host pauses and obeys for its priority, the switch sorts the same packets into another class: one"
    " without PFC, or with PFC on another priority. Every counter at both ends looks right, and packets drop between"
    " them.",
    source="SONiC's AZURE map has DSCP 3 and 4 lossless; hosts by the usual recipe send DSCP 26",
    fix="Map the RoCE DSCP to the lossless traffic class on the switch, in its group and queue.",
)
def dscp_chain(at: CableAt | TrunkAt) -> Verdict:
    for both in _both(at):
        if isinstance(both, Missing):
            yield both
            continue
        port, side = both
        if side.classes is None:
            yield Missing("DSCP and priority of RoCE on the host")
        elif port.port.trust is None:
            yield Missing("trust and DSCP map of the switch port")
        elif "dscp" in port.port.trust:
            for dscp, priority in side.classes:
                yield from _chain(port, side, dscp, priority)
        elif side.classes and not port.port.trust and any(each.trust for each in port.switch.ports.values()):
            evidence = "the port binds no map, others of the switch do: RoCE is in its default class"
            fix = remedy.classify_by_dscp(port.switch, port.port, _any_dscp_map(port.switch))
            yield _at_cable(at, port, "trust", evidence, fix)
        # where no port binds one it is S01; by 802.1p alone it is L04


def _chain(port: PortAt, side: Side, dscp: int, priority: int) -> Verdict:
    mapping = port.port.dscp_to_tc
    if mapping is None or mapping.entries is None:
        yield Missing("DSCP map of the switch port")
        return
    tc = mapping.get(dscp)
    protected = guards(port.port, tc) if tc is not None else _guards_of_group(port, 0)
    if protected is None:
        yield Missing("PFC and priority group of the switch port")
        return
    if priority in protected:
        return
    way = "is not mapped (traffic class 0)" if tc is None else f"goes to traffic class {tc}"
    what = f"which PFC {numbers(protected)} protects" if protected else "which no PFC protects"
    meant = port.qos is not None and (dscp, priority) in classes(port.qos)  # then it is everybody's, hosts or not
    whose = "" if meant else f" for {side.who}"
    evidence = f"DSCP {dscp}, priority {priority}{whose}, {way} on the switch, {what}"
    yield _at_map(port, mapping, evidence, remedy.dscp_to_tc(port.switch, mapping.name, dscp, priority))


def _guards_of_group(port: PortAt, group: int) -> frozenset[int] | None:
    """The PFC priorities of a priority group: what is mapped nowhere is in group 0."""
    pfc = pfc_now(port.port)
    return None if pfc is None else frozenset(each for each in pfc if group_of(port.port, each) == group)


def _at_map(port: PortAt, mapping: QosMap, evidence: str, fix: str) -> Hit:
    """A hit on a map that many ports share: one place for all of them."""
    place = f"{port.switch.name} {mapping.place}" if mapping.place else port.at("dscp_to_tc")
    return Hit(place, evidence, fix, platform=port.switch.platform)


@rule(
    "L03",
    Severity.HIGH,
    Scope.CABLE,
    title="CNPs wait in a lossless or a best-effort queue",
    why="A CNP that is paused, or queued behind bulk traffic, arrives after the congestion it reports has become a"
    " pause.",
    source="DCQCN (SIGCOMM 2015): CNPs have a high priority of their own",
    fix="Map the CNPs' DSCP to a queue without PFC that is strict, or has at least a tenth of the weights.",
)
def cnp_queue(at: CableAt) -> Verdict:
    if at.qos and not at.qos.ecn.enabled:
        return
    for both in _both(at):
        if isinstance(both, Missing):
            yield both
        elif both[1].cnp_dscp is None:
            yield Missing("DSCP of CNPs")
        elif both[0].port.trust is not None and "dscp" in both[0].port.trust:
            yield from _cnp_way(at, both[0], both[1].cnp_dscp)
        elif both[0].port.trust is None:
            yield Missing("trust and DSCP map of the switch port")


def _cnp_way(at: CableAt, port: PortAt, dscp: int) -> Verdict:
    mapping = port.port.dscp_to_tc
    if mapping is None or mapping.entries is None:
        yield Missing("DSCP map of the switch port")
        return
    tc = mapping.get(dscp)
    tc = 0 if tc is None else tc
    queue, protected = port.port.queue_of(tc), guards(port.port, tc)
    wanted = at.qos.cnp.priority if at.qos else 6
    if queue is None or protected is None:
        yield Missing("queue of CNPs on the switch port")
    elif protected:
        evidence = f"DSCP {dscp} of CNPs goes to traffic class {tc}, which PFC {numbers(protected)} pauses"
        yield _at_map(port, mapping, evidence, remedy.dscp_to_tc(port.switch, mapping.name, dscp, wanted))
    else:
        part = share(port.port, queue)
        if part is None:
            yield Missing("scheduler of the CNPs' queue")
        elif part < _LEAST_SHARE:
            evidence = f"DSCP {dscp} of CNPs goes to queue {queue}, best effort with {part:.0%} of the weights"
            yield _at_cable(at, port, "queues", evidence, remedy.cnp_queue(port.switch, port.port, queue))


@rule(
    "L04",
    Severity.CRITICAL,
    Scope.PORT,
    title="The switch classifies by the VLAN tag, the traffic has none",
    why="RoCE on routed rails is untagged. A port that looks at 802.1p alone puts all of it into the default class,"
    " which is lossy.",
    source="SONiC PORT_QOS_MAP with dot1p_to_tc_map alone; NVUE trust l2",
    fix="Trust DSCP on the port.",
)
def dot1p_only(at: PortAt) -> Verdict:
    trust, pfc = at.port.trust, pfc_now(at.port)
    if at.qos and at.qos.trust == "pcp":
        return
    if trust is None:
        yield Missing("trust of the port")
    elif trust == {"pcp"} and (pfc or at.facing):
        fix = remedy.classify_by_dscp(at.switch, at.port, _any_dscp_map(at.switch))
        yield hit(at, "trust", "the port classifies by 802.1p alone; RoCE is untagged and marked by DSCP", fix)


def _any_dscp_map(switch: Switch) -> str:
    return next(iter((switch.maps or {}).get("dscp_to_tc", ())), "AZURE")


@rule(
    "L05",
    Severity.CRITICAL,
    Scope.PORT,
    title="PFC is left to DCBX, and nobody answers",
    why="NX-OS ports come with PFC auto: it runs when a DCBX peer agrees. Linux hosts without lldpad or firmware"
    " DCBX do not answer, so PFC is off, and `show running-config` shows nothing unusual.",
    source="Cisco Nexus 9000 QoS guide, priority-flow-control mode; a lab saw Auto and Off with 0 pause frames",
    fix="priority-flow-control mode on.",
)
def auto_without_peer(at: PortAt) -> Verdict:
    if at.port.pfc_mode is None and at.switch.platform != "nxos":
        return  # only NX-OS leaves PFC to DCBX by itself; the others' readers say so where they can be told to
    if at.port.pfc_mode is None:
        yield Missing("PFC mode of the port (on, off or auto)")
    elif at.port.pfc_mode != "auto" or at.port.oper_up is False or _not_for_roce(at):
        return
    elif at.port.pfc_oper is None and at.port.dcbx_peer is None:
        yield Missing("whether a DCBX peer is heard")
    elif not at.port.pfc_oper:
        heard = {True: "a DCBX peer does not agree", False: "no DCBX peer is heard", None: "PFC does not run"}
        evidence = f"PFC is auto, and {heard[at.port.dcbx_peer]}"
        wanted = sorted(wanted_pfc(at.qos)) if at.qos else [3]
        yield hit(at, "pfc", evidence, remedy.pfc(at.switch, at.port, wanted))


def _not_for_roce(at: PortAt) -> bool:
    return at.qos is not None and (not at.facing or not wanted_pfc(at.qos))


@rule(
    "L06",
    Severity.HIGH,
    Scope.CABLE,
    title="One end speaks CEE, the other IEEE DCBX",
    why="Each ignores the other's TLVs: what they were to agree on stays at the defaults, silently.",
    source="IEEE 802.1Q 38; DCB_CAP_DCBX_VER_CEE and VER_IEEE",
    fix="IEEE at both ends, or DCBX off and both set by hand.",
)
def dcbx_versions(at: CableAt) -> Verdict:
    if at.port is None:
        yield _NO_SWITCH
    elif at.nic is None or at.nic.nic.dcbx is None:
        yield Missing("DCBX of the NIC")
    elif at.port.port.dcbx is None:
        yield Missing("DCBX of the switch port")
    else:
        dcbx, other = at.nic.nic.dcbx, at.port.port.dcbx
        own = "cee" if dcbx.cee and not dcbx.ieee else "ieee" if dcbx.ieee and not dcbx.cee else None
        if own and other != "off" and own != other:
            evidence = f"the NIC speaks {own.upper()}, the switch port {other.upper()}"
            yield Hit(at.nic.place, evidence, apply(at.nic, "dcb dcbx set: ieee"), platform=at.port.switch.platform)


@rule(
    "L07",
    Severity.HIGH,
    Scope.CABLE,
    Scope.TRUNK,
    title="Switch MTU is below the host's",
    why="Full packets are dropped without an ICMP message or a counter that anyone watches; small ones pass, so the"
    " link looks fine until a transfer begins.",
    source="the switch counts the Ethernet header (18 bytes with a VLAN tag) or it does not: SONiC, Cumulus, EOS do"
    " not",
    fix="9216 on every switch port.",
)
def switch_mtu(at: CableAt | TrunkAt) -> Verdict:
    for both in _both(at):
        if isinstance(both, Missing):
            yield both
            continue
        port, side = both
        own = port.port.mtu
        if own is None or side.mtu is None:
            yield Missing("MTU of the switch port or of the NIC")
        elif own < side.mtu or (port.switch.mtu_is_frame and own < side.mtu + _L2):
            evidence = f"MTU: {side.who} {side.mtu}, the switch port {own}" + (
                " with the Ethernet header" if port.switch.mtu_is_frame else ""
            )
            yield _at_cable(at, port, "mtu", evidence, remedy.mtu(port.switch, port.port, max(9216, side.mtu + _L2)))
        elif port.switch.mtu_is_frame is None and own < side.mtu + _L2:
            yield Missing("whether the switch's MTU counts the Ethernet header")


@rule(
    "L10",
    Severity.HIGH,
    Scope.PORT,
    title="DSCP is rewritten in transit",
    why="The next hop sorts by what it sees: after a rewrite the packets are in another class there, mostly a lossy"
    " one.",
    source="SONiC TC_TO_DSCP_MAP; NVUE remark rewrite l3",
    fix="Leave DSCP alone on ports that carry RoCE.",
)
def rewritten(at: PortAt) -> Verdict:
    mapping, pfc = at.port.tc_to_dscp, pfc_now(at.port)
    if mapping is UNBOUND:
        return
    if mapping is None:
        yield Missing("whether the port rewrites DSCP")
    elif mapping.entries is None:
        yield Missing("the map by which the port rewrites DSCP")
    else:
        for dscp, tc in _lossless_dscps(at):
            out = mapping.get(tc)
            if out is not None and out != dscp and (pfc or at.facing):
                evidence = f"DSCP {dscp} (traffic class {tc}) leaves the port as {out}"
                yield hit(at, "tc_to_dscp", evidence, remedy.no_rewrite(at.switch, at.port))


def _lossless_dscps(at: PortAt) -> tuple[tuple[int, int], ...]:
    """(DSCP, traffic class) of what must pass unchanged: the fabric's classes, else all that PFC protects."""
    port, mapping = at.port, at.port.dscp_to_tc
    if at.qos:
        dscps = (at.qos.lossless.dscp, at.qos.cnp.dscp)
        found = ((dscp, port.tc_of(dscp)) for dscp in dscps)
        return tuple((dscp, tc) for dscp, tc in found if tc is not None)
    entries = mapping.entries if mapping and mapping.entries else {}
    return tuple((dscp, tc) for dscp, tc in entries.items() if guards(port, tc))


RULES: tuple[Rule, ...] = (
    pfc_sets, dscp_chain, cnp_queue, dot1p_only, auto_without_peer, dcbx_versions, switch_mtu, rewritten,
)  # fmt: skip
