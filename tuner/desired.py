"""What fabric.yaml wants of one host's NICs. Pure.

Classes are numbered as their priorities, so that a reader needs no second map: everything that is neither lossless nor
a CNP is in class 0. Where the NIC has fewer classes than that, they are numbered 1, 2, … instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric
from conf.node import Node, node
from conf.qos import Qos
from tuner.nic import HostQos, HostWanted, NicWanted, Pause, Tsa

__all__ = ["ECT", "classes", "desired", "fitted", "nics_of", "tos_of"]

ECT = 2
"""ECN field of a packet whose sender can slow down: ECT(0)."""
_CNP_SHARE = 10
"""Percent that CNPs get where they are not strict: they are a few packets, yet must never wait."""
_OFF = Pause(autoneg=False, rx=False, tx=False)


def tos_of(qos: Qos) -> int:
    """The ToS byte of RoCE packets: DSCP << 2, with ECT(0) where ECN is on. DSCP 26: 106, without ECN 104."""
    return qos.lossless.dscp << 2 | (ECT if qos.ecn.enabled else 0)


def nics_of(fabric: Fabric, hostname: str, seen: Sequence[str]) -> dict[str, str]:
    """Each rail's NIC, as fabric.yaml names it.

    ``seen`` are the host's RoCE NICs in PCI order, for node types with ``rails: auto``: there must be one for each
    rail, in the rails' order. ConfigError where there are more or fewer, since which is which is then a guess; QoS is
    the same on all, so their order decides no more than the names in reports.
    """
    rails = node(fabric, hostname).rails
    named = {rail.name: rail.nic for rail in rails}
    if "auto" not in named.values():
        return named
    if len(seen) != len(rails):
        listed = ", ".join(seen) or "none"
        sentence = (
            f"rails: auto needs one RoCE NIC per rail; {hostname} has {len(seen)} ({listed}), rails are {len(rails)}"
        )
        place = f"nodeTypes.{node(fabric, hostname).type}.rails"
        raise ConfigError(fabric.metadata.name, [Finding(place, f"{sentence}; name the NIC of every rail")])
    return dict(zip(named, seen, strict=True))


def classes(qos: Qos, most: int = 8) -> tuple[tuple[int, ...], tuple[Tsa, ...], tuple[int, ...]]:
    """Class of each priority; scheduling of each class; percent of each class. ``most``: classes that the NIC has."""
    lossless = [qos.lossless.priority, *(further.priority for further in qos.also)]
    special = [*lossless, qos.cnp.priority]
    number = {priority: priority for priority in special}
    if max(special) >= most or 0 in special:
        number = {priority: place for place, priority in enumerate(special, 1)}
    if max(number.values()) >= most:
        raise ValueError(f"the NIC has {most} traffic classes; {len(special) + 1} are wanted")
    prio_tc = tuple(number.get(priority, 0) for priority in range(8))
    tsa: list[Tsa] = ["strict"] * 8
    share = [0] * 8
    left = 100 - qos.lossless.bandwidth
    if qos.cnp.scheduling == "ets":
        own = min(_CNP_SHARE, left)
        tsa[number[qos.cnp.priority]], share[number[qos.cnp.priority]] = "ets", own
        left -= own
    tsa[0], share[0] = "ets", left
    for place, priority in enumerate(lossless):
        part, rest = divmod(qos.lossless.bandwidth, len(lossless))
        tsa[number[priority]], share[number[priority]] = "ets", part + (1 if place < rest else 0)
    return prio_tc, tuple(tsa), tuple(share)


def desired(fabric: Fabric, hostname: str, nics: Mapping[str, str]) -> HostWanted:
    """What the host shall be; ``nics`` is each rail's NIC (see :func:`nics_of`)."""
    here = node(fabric, hostname)
    return HostWanted(node=hostname, nics=tuple(_nic(fabric, here, rail.name, rail.mtu, nics) for rail in here.rails))


def _nic(fabric: Fabric, here: Node, rail: str, mtu: int, nics: Mapping[str, str]) -> NicWanted:
    qos = fabric.qos
    prio_tc, tsa, share = classes(qos)
    lossless = sorted([qos.lossless.priority, *(further.priority for further in qos.also)])
    table = {qos.lossless.dscp: qos.lossless.priority, qos.cnp.dscp: qos.cnp.priority}
    table |= {further.dscp: further.priority for further in qos.also}
    return NicWanted(
        nic=nics[rail],
        rail=rail,
        trust=qos.trust,
        dscp_prio=tuple(sorted(table.items())) if qos.trust == "dscp" else None,
        prio_tc=prio_tc,
        tsa=tsa,
        tc_bw=share,
        pfc=tuple(lossless) if qos.lossless.pfc else (),
        cable_m=fabric.node_types[here.type].cable,
        pause=_OFF,
        mtu=mtu,
        tos=tos_of(qos),
        ecn=qos.ecn.enabled,
        lossless=qos.lossless.priority,
        cnp_dscp=qos.cnp.dscp,
        cnp_prio=qos.cnp.priority,
    )


def fitted(wanted: HostWanted, qos: Qos, seen: HostQos) -> HostWanted:
    """``wanted`` with the traffic classes renumbered for NICs that have fewer than eight.

    A NIC with too few for the classes that are wanted keeps its own; the plan says what is missing.
    """
    return replace(wanted, nics=tuple(_fitted(one, qos, seen) for one in wanted.nics))


def _fitted(one: NicWanted, qos: Qos, seen: HostQos) -> NicWanted:
    nic = seen.nic(one.rail) or seen.nic(one.nic)
    most = nic.ets.cap if nic is not None and nic.ets is not None and nic.ets.cap else 8
    try:
        prio_tc, tsa, share = classes(qos, most)
    except ValueError:
        return replace(one, prio_tc=None, tsa=None, tc_bw=None)
    return replace(one, prio_tc=prio_tc, tsa=tsa, tc_bw=share)
