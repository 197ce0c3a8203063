"""L11: what LLDP hears against the cabling of fabric.yaml."""

from __future__ import annotations

from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.subjects import CableAt, PortAt, TrunkAt
from tuner.switch.model import Neighbour

__all__ = ["RULES"]


@rule(
    "L11",
    Severity.HIGH,
    Scope.CABLE,
    Scope.TRUNK,
    title="Cabling is not what fabric.yaml says",
    why="On a rail-optimised fabric a NIC on the wrong leaf sends every collective through the spines, and another"
    " NIC with it: one swapped pair slows two rails of the whole job.",
    source="IEEE 802.1AB (LLDP); the switch's neighbours against switches[*].ports and links of fabric.yaml",
    fix="Move the cable, or correct fabric.yaml.",
)
def cabling(at: CableAt | TrunkAt) -> Verdict:
    yield from _to_host(at) if isinstance(at, CableAt) else _to_switch(at)


def _to_host(at: CableAt) -> Verdict:
    if at.port is None:
        yield Missing("configuration of the switch")
        return
    if not at.node:
        return  # a bare profile: there is no cabling to compare with
    heard = at.port.port.neighbour
    if heard is None:
        yield from _silent(at.port, at.where, at.lldp_heard)
        yield from _expected(at)
    elif heard.system is None:
        yield Missing("system name of the LLDP neighbour")
    elif _short(heard.system) != _short(at.node):
        yield _hit(at.port, at.where, f"LLDP hears {_named(heard)} where {at.node} should be")
    else:
        yield from _right_host(at, at.port, heard)


def _right_host(at: CableAt, port: PortAt, heard: Neighbour) -> Verdict:
    rail = at.rail_of.get((at.node, heard.port or "")) or at.rail_of.get((at.node, heard.description or ""))
    if rail is None:
        yield Missing("which rail the neighbour's port belongs to (nodeTypes.*.rails, or the host's state)")
    elif rail and rail != at.rail:
        yield _hit(port, at.where, f"the host's NIC of {rail} is plugged in where {at.rail} should be")


def _expected(at: CableAt) -> Verdict:
    """What the switch's own records say, where LLDP says nothing."""
    told = at.port.port.expected_neighbour if at.port else None
    if at.port and told and told.system and _short(told.system) != _short(at.node):
        evidence = f"the switch's records have {_named(told)} where fabric.yaml has {at.node}"
        fix = "correct DEVICE_NEIGHBOR or fabric.yaml"
        yield Hit(at.where, evidence, fix, Severity.MEDIUM, at.port.switch.platform)


def _silent(port: PortAt, where: str, lldp_heard: bool) -> Verdict:
    """Nothing is heard: the link is missing, or nobody told what LLDP heard."""
    if port.port.oper_up is False:
        yield _hit(port, where, "the link is down")
    elif lldp_heard and port.port.admin_up is not False:
        yield _hit(port, where, "no LLDP neighbour, while other ports of the switch have theirs", Severity.MEDIUM)
    else:
        yield Missing("LLDP neighbours of the switch")


def _to_switch(at: TrunkAt) -> Verdict:
    if at.one is None and at.other is None:
        yield Missing("configuration of the switch")
        return
    for port, far in ((at.one, at.names[1]), (at.other, at.names[0])):
        if port is not None:
            yield from _one_end(at, port, far, at.other if port is at.one else at.one)


def _one_end(at: TrunkAt, port: PortAt, far: str, other: PortAt | None) -> Verdict:
    heard = port.port.neighbour
    name, _, far_port = far.partition(":")
    if heard is None:
        yield from _silent(port, at.where, at.lldp_heard)
    elif heard.system is None:
        yield Missing("system name of the LLDP neighbour")
    else:
        systems = {_short(name), _short(other.switch.hostname or name) if other else _short(name)}
        ports = {None, far_port, other.port.alias if other else far_port}
        told_by_mac = ":" in (heard.port or "")
        if _short(heard.system) not in systems or (heard.port not in ports and not told_by_mac):
            yield _hit(port, at.where, f"LLDP hears {_named(heard)} where {far} should be")


def _short(name: str) -> str:
    """A host's name without its domain."""
    return name.partition(".")[0].lower()


def _named(heard: Neighbour) -> str:
    return f"{heard.system} {heard.port}" if heard.port else str(heard.system)


def _hit(port: PortAt, where: str, evidence: str, severity: Severity | None = None) -> Hit:
    return Hit(
        where, evidence, f"move the cable at {port.place}, or correct fabric.yaml", severity, port.switch.platform
    )


RULES: tuple[Rule, ...] = (cabling,)
