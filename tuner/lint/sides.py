"""What the two sides of a cable expect of the switch port: the host as it is, and the fabric as it wants it. Pure."""

from __future__ import annotations

from conf.nodes import NodeType
from conf.qos import Qos
from tuner.lint.classes import classes, roce_dscp, wanted_pfc
from tuner.lint.subjects import NicAt, Side

__all__ = ["sides_of"]


def sides_of(
    nic: NicAt | None, qos: Qos | None, kind: NodeType | None, told_by: str = "fabric.yaml"
) -> tuple[Side, ...]:
    """The host's and the fabric's expectation; one where they are the same."""
    sides = [side for side in (_host(nic), _fabric(qos, kind, told_by)) if side]
    if len(sides) == 2 and sides[0][1:] == sides[1][1:]:
        return (sides[0]._replace(who="host and fabric.yaml"),)
    return tuple(sides)


def _host(at: NicAt | None) -> Side | None:
    if at is None:
        return None
    nic = at.nic
    return Side(
        who="the host",
        pfc=frozenset(nic.pfc.enabled) if nic.pfc else None,
        classes=_host_classes(at),
        cnp_dscp=nic.ecn.cnp_dscp if nic.ecn.cnp_dscp is not None else (at.qos.cnp.dscp if at.qos else None),
        mtu=nic.mtu,
    )


def _host_classes(at: NicAt) -> tuple[tuple[int, int], ...] | None:
    """What the host itself protects. A DSCP that it leaves unprotected is its own mistake: H02, H06."""
    dscps = [dscp for dscp, _ in classes(at.qos)] if at.qos else [roce_dscp(at)]
    found = []
    for dscp in dscps:
        priorities = None if dscp is None else at.nic.priorities_of(dscp)
        if dscp is None or priorities is None or at.nic.pfc is None:
            return None
        found += [(dscp, priority) for priority in priorities if priority in at.nic.pfc.enabled]
    return tuple(found)


def _fabric(qos: Qos | None, kind: NodeType | None, told_by: str) -> Side | None:
    if qos is None:
        return None
    return Side(
        who=told_by,
        pfc=wanted_pfc(qos),
        classes=classes(qos),
        cnp_dscp=qos.cnp.dscp,
        mtu=(kind.mtu if kind else None) or qos.mtu,
    )
