"""What fabric.yaml wants of one host's NICs. Pure.

Classes are numbered as their priorities, so that a reader needs no second map: everything that is neither lossless nor
a CNP is in class 0. Where the NIC has fewer classes than that, they are numbered 1, 2, … instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric
from conf.nics import Buffers, MaxRates, Nics, overlaid
from conf.node import Node, node
from conf.nodes import NodeType
from conf.qos import Qos
from tuner import buffers
from tuner.nic import Buffer, HostQos, HostWanted, NicWanted, Pause, Tsa

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
    qos, kind = fabric.qos, fabric.node_types[here.type]
    further = overlaid(qos.nics, kind.nics)
    prio_tc, tsa, share = classes(qos)
    lossless = sorted([qos.lossless.priority, *(each.priority for each in qos.also)])
    table = {qos.lossless.dscp: qos.lossless.priority, qos.cnp.dscp: qos.cnp.priority}
    table |= {each.dscp: each.priority for each in qos.also}
    return NicWanted(
        nic=nics[rail],
        rail=rail,
        trust=qos.trust,
        dscp_prio=tuple(sorted(table.items())) if qos.trust == "dscp" else None,
        prio_tc=prio_tc,
        tsa=tsa,
        tc_bw=share,
        pfc=tuple(lossless) if qos.lossless.pfc else (),
        maxrate=_rates(further.max_rates, qos, prio_tc),
        cable_m=kind.cable,
        buffer=_buffer(further.buffers, lossless),
        headroom=_headroom(further, kind, mtu),
        pause=_OFF,
        mtu=mtu,
        tos=tos_of(qos),
        ecn=qos.ecn.enabled,
        lossless=qos.lossless.priority,
        cnp_dscp=qos.cnp.dscp,
        cnp_prio=qos.cnp.priority,
        params=further.dcqcn or {},
        sysctls=further.sysctls.model_dump(exclude_none=True) if further.sysctls else {},
    )


def _rates(asked: MaxRates | None, qos: Qos, prio_tc: tuple[int, ...]) -> tuple[int, ...] | None:
    """kb/s by class; 0 for no limit."""
    if asked is None:
        return None
    lossless = {qos.lossless.priority, *(each.priority for each in qos.also)}
    found = [0] * 8
    for priority, number in enumerate(prio_tc):
        cnp = asked.cnp if priority == qos.cnp.priority else asked.rest
        found[number] = (asked.lossless if priority in lossless else cnp) or 0
    return tuple(rate * 1000 for rate in found)


def _buffer(asked: str | Buffers | None, lossless: Sequence[int]) -> Buffer | None:
    return buffers.of_sizes(lossless, asked.lossless, asked.rest) if isinstance(asked, Buffers) else None


def _headroom(further: Nics, kind: NodeType, mtu: int) -> int | None:
    """Where buffers are asked for and the cable's length is known."""
    return buffers.need(kind.speed, kind.cable, mtu) if further.buffers and kind.cable is not None else None


def fitted(wanted: HostWanted, qos: Qos, seen: HostQos) -> HostWanted:
    """``wanted`` as the NICs can have it: traffic classes renumbered where they have fewer than eight, receive buffers
    laid out from what they have.

    A NIC with too few classes for those that are wanted keeps its own; the plan says what is missing.
    """
    return replace(wanted, nics=tuple(_fitted(one, qos, seen) for one in wanted.nics))


def _fitted(one: NicWanted, qos: Qos, seen: HostQos) -> NicWanted:
    nic = seen.nic(one.rail) or seen.nic(one.nic)
    most = nic.ets.cap if nic is not None and nic.ets is not None and nic.ets.cap else 8
    if one.buffer is None and one.headroom is not None and nic is not None and nic.buffer is not None:
        one = replace(one, buffer=buffers.laid_out(one.pfc or (), one.headroom, nic.buffer))
    try:
        prio_tc, tsa, share = classes(qos, most)
    except ValueError:
        return replace(one, prio_tc=None, tsa=None, tc_bw=None, maxrate=None)
    return replace(one, prio_tc=prio_tc, tsa=tsa, tc_bw=share, maxrate=_renumbered(one, prio_tc))


def _renumbered(one: NicWanted, prio_tc: tuple[int, ...]) -> tuple[int, ...] | None:
    if one.maxrate is None or one.prio_tc is None:
        return one.maxrate
    rates = {number: one.maxrate[before] for before, number in zip(one.prio_tc, prio_tc, strict=True)}
    return tuple(rates.get(number, 0) for number in range(8))
