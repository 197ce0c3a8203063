"""H07, H08, H10, H11: a NIC's buffers, and its part in congestion control."""

from __future__ import annotations

from functools import cache

from tuner import headroom
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.words import apply, numbers
from tuner.lint.subjects import NicAt
from tuner.nic import Buffer

__all__ = ["RULES"]

_CELL = 128  # bytes; mlx5 port_buffer.c, MLX5E_BUFFER_CELL_SHIFT
_NO_APPS = Missing("the DSCP map (IEEE APP table) of the NIC")
_NO_PFC = Missing("PFC of the NIC")
_AUTO = "in fabric.yaml: nics: {buffers: auto}"


@rule(
    "H07",
    Severity.HIGH,
    Scope.NIC,
    title="NIC's lossless buffer is shared or too small",
    why="What is in flight when the NIC says pause must fit behind the threshold. In a buffer shared with a lossy"
    " priority, or smaller than xoff + MTU + a cell, it does not, and a lossless class drops.",
    source="Linux drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c",
    fix="`nics: {buffers: auto}` in fabric.yaml, and `roceway-tune apply`: a buffer of its own for the lossless"
    " priority, of the size that `roceway-tune headroom --model mlx5` says at least.",
)
def buffer(at: NicAt) -> Verdict:
    if at.nic.buffer is None:
        yield Missing("receive buffers of the NIC")
    elif at.nic.pfc is None:
        yield _NO_PFC
    else:
        for priority in at.nic.pfc.enabled:
            yield from _shared(at, at.nic.buffer, priority, at.nic.pfc.enabled)
            yield from _size(at, at.nic.buffer, priority)


def _shared(at: NicAt, buffer: Buffer, priority: int, lossless: tuple[int, ...]) -> Verdict:
    own = buffer.prio_buffer[priority]
    others = [each for each in range(8) if buffer.prio_buffer[each] == own and each not in lossless]
    if others:
        evidence = f"lossless priority {priority} shares receive buffer {own} with lossy priority {numbers(others)}"
        yield Hit(at.place, evidence, f"{_AUTO}; {apply(at, f'buffer of priority {priority}')}")


def _size(at: NicAt, buffer: Buffer, priority: int) -> Verdict:
    speed = (at.nic.link.speed if at.nic.link else None) or at.speed
    cable = at.nic.cable_m if at.cable is None else at.cable
    if speed is None or cable is None or at.nic.mtu is None:
        yield Missing("speed, cable length or MTU of the NIC")
        return
    need = _mlx5(speed, cable, at.nic.mtu) + at.nic.mtu + _CELL
    size = buffer.size[buffer.prio_buffer[priority]]
    if size < need:
        evidence = f"buffer of lossless priority {priority} has {size} B; xoff + MTU + cell is {need} B"
        yield Hit(at.place, evidence, f"{_AUTO}; {apply(at, f'buffer of priority {priority}: at least {need} B')}")


@cache
def _mlx5(speed: int, metres: float, mtu: int) -> int:
    """The model reckons in exact fractions; a fabric has few kinds of NIC."""
    return headroom.mlx5(speed, metres, mtu)


@rule(
    "H08",
    Severity.MEDIUM,
    Scope.NIC,
    title="Cable length that the NIC was told is not the cable's",
    why="mlx5 reckons its headroom from it (pfc.delay counts metres there). Too short loses packets under pause; too"
    " long takes buffer from the other classes.",
    source="Linux mlx5 port_buffer.c, calculate_xoff; mlnx_qos --cable_len",
    fix="`roceway-tune apply` sets it from nodeTypes.*.cable.",
)
def cable_length(at: NicAt) -> Verdict:
    told = at.nic.cable_m
    if at.cable is None:
        yield Missing("cable length in fabric.yaml (nodeTypes.*.cable)")
    elif told is None:
        yield Missing("cable length of the NIC")
    elif abs(told - at.cable) >= 1:
        evidence = f"the NIC reckons with {told:g} m, the cable has {at.cable:g} m"
        yield Hit(at.place, evidence, apply(at, f"cable length {at.cable:g} m"))


@rule(
    "H10",
    Severity.HIGH,
    Scope.NIC,
    title="CNPs are paused, unmapped, or marked in two ways",
    why="A CNP tells the sender to slow down. On a PFC priority it waits behind the congestion it reports; unmapped,"
    " or with a DSCP and a priority that disagree, it queues with bulk traffic.",
    source="Zhu et al., Congestion Control for Large-Scale RDMA Deployments (SIGCOMM 2015); CNP_DSCP, CNP_802P_PRIO",
    fix="Map the CNPs' DSCP to a priority of their own, without PFC: `roceway-tune apply`.",
)
def cnp(at: NicAt) -> Verdict:
    if at.qos and not at.qos.ecn.enabled:
        return  # no marks, no CNPs
    dscp = at.nic.ecn.cnp_dscp if at.nic.ecn.cnp_dscp is not None else (at.qos.cnp.dscp if at.qos else None)
    if dscp is None:
        yield Missing("DSCP of CNPs (fabric.yaml, or the NIC's cnp_dscp)")
    elif at.nic.apps is None:
        yield _NO_APPS
    elif at.nic.pfc is None:
        yield _NO_PFC
    else:
        yield from _cnp_class(at, dscp)


def _cnp_class(at: NicAt, dscp: int) -> Verdict:
    found, own = at.nic.priorities_of(dscp) or (), at.nic.ecn.cnp_prio
    enabled = at.nic.pfc.enabled if at.nic.pfc else ()
    fix = apply(at, f"CNPs: DSCP {at.qos.cnp.dscp} to priority {at.qos.cnp.priority}" if at.qos else "CNPs")
    if at.qos and dscp != at.qos.cnp.dscp:
        yield Hit(at.place, f"CNPs have DSCP {dscp}, wanted is {at.qos.cnp.dscp}", fix)
    if not found:
        yield Hit(at.place, f"DSCP {dscp} of CNPs is not mapped", fix)
    elif set(found) & set(enabled):
        yield Hit(at.place, f"DSCP {dscp} of CNPs maps to priority {numbers(found)}, which has PFC", fix)
    if found and own is not None and own not in found:
        yield Hit(at.place, f"CNPs have 802.1p priority {own}, their DSCP {dscp} maps to {numbers(found)}", fix)


@rule(
    "H11",
    Severity.HIGH,
    Scope.NIC,
    title="ECN is off on the lossless priority",
    why="Without a notification point nobody answers a mark; without a reaction point nobody slows down. What is"
    " left is PFC, which spreads one hot receiver over the fabric.",
    source="DCQCN (SIGCOMM 2015); OFED ecn/roce_np and roce_rp; mlxconfig ROCE_CC_PRIO_MASK (default 255)",
    fix="Enable both on the lossless priority: `roceway-tune apply`; for the mask: mlxconfig ROCE_CC_PRIO_MASK_P1=255.",
)
def ecn_off(at: NicAt) -> Verdict:
    if at.qos and not at.qos.ecn.enabled:
        return
    if at.qos:
        priorities: tuple[int, ...] = (at.qos.lossless.priority,)
    elif at.nic.pfc is None:
        yield _NO_PFC
        return
    else:
        priorities = at.nic.pfc.enabled
    for word, flags in (("notification point (NP)", at.nic.ecn.np), ("reaction point (RP)", at.nic.ecn.rp)):
        if flags is None:
            yield Missing(f"ECN {word} of the NIC")
            continue
        off = [priority for priority in priorities if priority < len(flags) and not flags[priority]]
        if off:
            yield Hit(at.place, f"ECN {word} is off on lossless priority {numbers(off)}", apply(at, "ECN NP and RP"))


RULES: tuple[Rule, ...] = (buffer, cable_length, cnp, ecn_off)
