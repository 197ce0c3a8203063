"""S15, T01-T04: cables between switches, and switches of one role against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tuner.lint import remedy
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.majority import odd
from tuner.lint.rules.switch_words import lossless_group, lossless_queues, pfc_now
from tuner.lint.rules.words import numbers
from tuner.lint.subjects import PortAt, RoleAt, SwitchAt, TrunkAt
from tuner.switch.model import UNBOUND, Port, QosMap

__all__ = ["RULES"]

_NO_SWITCH = Missing("configuration of the switch at either end")
_L2 = 18
_FLOODED = 3
_FORGET = (
    "MAC entries that outlive ARP entries (SWITCH|switch fdb_aging_time above the ARP timeout), or a routed port for"
    " each host (addressing: routed)"
)
_BOUNCED = frozenset({2, 6})
"""Priorities that SONiC adds on uplinks of dual-ToR racks, for traffic that bounces back (PCBB)."""


@rule(
    "S15",
    Severity.HIGH,
    Scope.TRUNK,
    Scope.SWITCH,
    title="Lossless traffic may go round in a circle",
    why="Pauses that wait for each other in a circle never end. Up-then-down paths have no circle; a lossless link"
    " between switches of one role, or flooding in a lossless class, makes one.",
    source="Hu et al., Deadlocks in Datacenter Networks (HotNets 2016); Guo et al. (SIGCOMM 2016), 4.2: flooding",
    fix="No PFC on links between switches of one role; no flooding of unknown MAC addresses in the lossless class.",
)
def circle(at: TrunkAt | SwitchAt) -> Verdict:
    if isinstance(at, SwitchAt):
        yield from _flooding(at)
    elif at.one is None or at.other is None:
        yield _NO_SWITCH
    elif at.one.switch.role is not None and at.one.switch.role == at.other.switch.role:
        one, other = pfc_now(at.one.port), pfc_now(at.other.port)
        if one is None or other is None:
            yield Missing("which priorities of the port have PFC")
        elif one & other:
            evidence = f"PFC {numbers(one & other)} on a link between two switches of role {at.one.switch.role}"
            fix = remedy.pfc(at.one.switch, at.one.port, [])
            yield Hit(at.where, evidence, fix, platform=at.one.switch.platform)


def _flooding(at: SwitchAt) -> Verdict:
    """Bridged lossless ports beside lossless uplinks: a packet for a MAC address that was forgotten goes to all of
    them, and their pauses meet those from above. Below three ports there is nobody to flood to, without uplinks no
    circle."""
    told = [port for port in at.ports if port.port.vlans is not None]
    lossless = [port for port in told if pfc_now(port.port)]
    if not told:
        yield Missing("VLANs of the switch's ports (whether it floods unknown MAC addresses)")
        return
    if all(pfc_now(port.port) is None for port in told):
        yield Missing("which priorities of the port have PFC")
    if not any(port.facing == "switch" or (not port.facing and not port.port.vlans) for port in lossless):
        return
    bridged: dict[str, list[PortAt]] = {}
    for port in lossless:
        for vlan in port.port.vlans or ():
            bridged.setdefault(vlan, []).append(port)
    for vlan, ports in sorted(bridged.items()):
        if len(ports) >= _FLOODED:
            evidence = (
                f"{vlan} bridges {len(ports)} ports with PFC beside lossless uplinks: what is for a MAC address that"
                " the switch has forgotten floods them all, losslessly"
            )
            yield Hit(at.at(f"VLAN_MEMBER|{vlan}"), evidence, _FORGET, Severity.MEDIUM, at.switch.platform)


@rule(
    "T01",
    Severity.CRITICAL,
    Scope.TRUNK,
    title="The ends of an inter-switch link differ",
    why="A packet changes its class in the middle of its way, or a pause is not understood: drops that no host and"
    " no single switch's configuration explains.",
    source="IEEE 802.1Q clause 36; RFC 2474 (DSCP has meaning per domain)",
    fix="One configuration for both ends: `roceway-tune render --switch` for each.",
)
def ends_differ(at: TrunkAt) -> Verdict:
    if at.one is None or at.other is None:
        yield _NO_SWITCH
        return
    one, other = at.one.port, at.other.port
    pairs = (
        ("PFC", _set(pfc_now(one)), _set(pfc_now(other))),
        ("trust", _set(one.trust), _set(other.trust)),
        ("MTU", _ip_mtu(at.one), _ip_mtu(at.other)),
    )
    for what, mine, theirs in pairs:
        if mine is None or theirs is None:
            yield Missing(f"{what} of an inter-switch link")
        elif mine != theirs:
            yield Hit(at.where, f"{what} is {mine} at one end and {theirs} at the other", _alike(at))
    for what, value in _MAPS.items():
        yield from _maps(at, what, value(one), value(other))


_MAPS: dict[str, Callable[[Port], QosMap | None]] = {
    "DSCP map": lambda port: port.dscp_to_tc,
    "TC to queue map": lambda port: port.tc_to_queue,
}


def _maps(at: TrunkAt, what: str, one: QosMap | None, other: QosMap | None) -> Verdict:
    if one is None or other is None or one.entries is None or other.entries is None:
        yield Missing(f"{what} of an inter-switch link")
    elif one is not other and one is not UNBOUND and other is not UNBOUND and one.entries != other.entries:
        keys = sorted(key for key in {*one.entries, *other.entries} if one.get(key) != other.get(key))
        first = f"{keys[0]} is {one.get(keys[0])} at one end and {other.get(keys[0])} at the other"
        more = f" ({len(keys) - 1} more differ)" if len(keys) > 1 else ""
        yield Hit(at.where, f"{what}: {first}{more}", _alike(at))


def _alike(at: TrunkAt) -> str:
    switches = [end.switch.name for end in (at.one, at.other) if end]
    return "; ".join(f"roceway-tune render -f fabric.yaml --switch {remedy.plain(name)}" for name in switches)


def _set(values: frozenset[int] | frozenset[str] | None) -> str | None:
    return None if values is None else ",".join(sorted(str(each) for each in values)) or "none"


def _ip_mtu(at: PortAt) -> int | None:
    """The largest IP packet."""
    if at.port.mtu is None or at.switch.mtu_is_frame is None:
        return None
    return at.port.mtu - _L2 if at.switch.mtu_is_frame else at.port.mtu


def _values(at: SwitchAt, value: Callable[[PortAt], Iterator[str]]) -> str | None:
    """What the switch's ports have, all of them together; None for unknown."""
    return " and ".join(sorted({one for port in at.ports for one in value(port)})) or None


def _differ(role: RoleAt, what: str, value: Callable[[PortAt], Iterator[str]], fix: str) -> Verdict:
    if role.alone:
        return
    values = [(each, _values(each, value)) for each in role.switches]
    if sum(own is not None for _, own in values) < 2:
        yield Missing(f"{what} of a second switch of the role")
    for each, own, usual, agree in odd(values):
        others = (
            f"{agree} switches of role {role.role} have {usual}"
            if agree
            else f"the switches of role {role.role} do not agree"
        )
        yield Hit(each.place, f"{what} is {own}; {others}", fix, platform=each.switch.platform)


@rule(
    "T02",
    Severity.HIGH,
    Scope.ROLE,
    title="ECN thresholds differ between switches of one role",
    why="Flows through the switch that marks earlier get less: the same job is slow on one rail for no visible reason.",
    source="DCQCN (SIGCOMM 2015): one setting for the fabric",
    fix="One WRED profile for the role.",
)
def thresholds(role: RoleAt) -> Verdict:
    yield from _differ(
        role, "ECN", _marks, "the same Kmin, Kmax and Pmax on every switch of the role: roceway-tune render"
    )


def _marks(at: PortAt) -> Iterator[str]:
    for found in lossless_queues(at):
        if not isinstance(found, Missing) and found[2].ecn and found[2].ecn.enabled:
            ecn = found[2].ecn
            yield f"{ecn.kmin}/{ecn.kmax} B at {ecn.pmax} % on priority {found[0]}"


@rule(
    "T03",
    Severity.HIGH,
    Scope.ROLE,
    title="α differs between switch models",
    why="α decides when a port pauses. The default differs by model, so under the same load one switch pauses where"
    " another absorbs.",
    source="SONiC buffers_defaults_*.j2: dynamic_th differs by hardware SKU",
    fix="One dynamic_th for the lossless profiles of the role.",
)
def alpha(role: RoleAt) -> Verdict:
    yield from _differ(role, "dynamic_th", _alpha, "the same dynamic_th in every lossless profile of the role")


def _alpha(at: PortAt) -> Iterator[str]:
    for priority in pfc_now(at.port) or ():
        group = lossless_group(at, priority)
        if group and group.automatic and at.switch.default_dynamic_th is not None:
            yield str(at.switch.default_dynamic_th)
        elif group and group.profile and group.profile.dynamic_th is not None:
            yield str(group.profile.dynamic_th)


@rule(
    "T04",
    Severity.INFO,
    Scope.SWITCH,
    title="Some ports have PFC on 2, 3, 4 and 6",
    why="It is SONiC's variant for uplinks of dual-ToR racks, where traffic bounces back in priorities of its own."
    " It is right there and looks like a mistake everywhere else.",
    source="sonic-buildimage qos_config.j2, PORT_QOS_MAP of uplinks with remapping",
    fix="Nothing, if these ports are uplinks of a dual-ToR rack.",
)
def uplink_variant(at: SwitchAt) -> Verdict:
    known = [port for port in at.ports if pfc_now(port.port) is not None]
    if not known:
        yield Missing("which priorities of the ports have PFC")
        return
    usual = {pfc for port in known if (pfc := pfc_now(port.port)) and not _BOUNCED & pfc}
    for port in known:
        pfc = pfc_now(port.port) or frozenset()
        if pfc > _BOUNCED and pfc - _BOUNCED in usual:
            evidence = f"PFC is on {numbers(pfc)}, on other ports of the switch on {numbers(pfc - _BOUNCED)}"
            yield Hit(
                port.at("pfc"), evidence, "nothing, if it is an uplink of a dual-ToR rack", None, at.switch.platform
            )


RULES: tuple[Rule, ...] = (circle, ends_differ, thresholds, alpha, uplink_variant)
