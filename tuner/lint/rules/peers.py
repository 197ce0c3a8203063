"""X01-X05: NICs of one rail against each other. The majority is taken for what was meant; the others are named."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from tuner.lint.classes import roce_dscp, tos_sources
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.majority import odd
from tuner.lint.rules.words import apply, numbers
from tuner.lint.subjects import NicAt, RailAt
from tuner.nic import Ets, Pause

__all__ = ["RULES"]

_NO_PEER = Missing("a second host on the rail")


def _compare(rail: RailAt, what: str, value: Callable[[NicAt], Hashable]) -> Verdict:
    values = [(nic, value(nic)) for nic in rail.nics]
    if len({nic.host.node for nic, each in values if each is not None}) < 2:
        yield _NO_PEER
    for nic, own, usual, agree in odd(values):
        others = f"{agree} NICs of {_rail(rail)} have {usual}" if agree else f"the NICs of {_rail(rail)} do not agree"
        yield Hit(nic.place, f"{what} is {own}; {others}", apply(nic, what))


def _rail(rail: RailAt) -> str:
    return rail.rail or "the rail"


_FIELDS: Mapping[str, Callable[[NicAt], Hashable]] = {
    "trust": lambda at: at.nic.trust,
    "PFC": lambda at: numbers(at.nic.pfc.enabled) if at.nic.pfc else None,
    "priority of RoCE's DSCP": lambda at: _roce_priority(at),
    "priority to traffic class": lambda at: " ".join(map(str, at.nic.ets.prio_tc)) if at.nic.ets else None,
    "ETS": lambda at: _ets(at.nic.ets) if at.nic.ets else None,
    "global pause": lambda at: _pause(at.nic.pause) if at.nic.pause else None,
    "MTU": lambda at: at.nic.mtu,
    "ECN NP": lambda at: _flags(at.nic.ecn.np),
    "ECN RP": lambda at: _flags(at.nic.ecn.rp),
}


def _ets(ets: Ets) -> str:
    """``0: ets 50 %, 3: ets 50 %, 6: strict``, the classes in use."""
    used = sorted(set(ets.prio_tc))
    return ", ".join(f"{tc}: {ets.tsa[tc]}" + (f" {ets.tc_bw[tc]} %" if ets.tsa[tc] == "ets" else "") for tc in used)


def _pause(pause: Pause) -> str:
    return " and ".join(word for word, flag in (("rx", pause.rx), ("tx", pause.tx)) if flag) or "off"


def _flags(flags: tuple[bool, ...] | None) -> str | None:
    """The priorities where it is on."""
    if flags is None:
        return None
    return "on priority " + numbers(each for each, flag in enumerate(flags) if flag) if any(flags) else "off"


def _roce_priority(at: NicAt) -> str | None:
    dscp = roce_dscp(at)
    priorities = None if dscp is None else at.nic.priorities_of(dscp)
    return None if priorities is None else numbers(priorities)


@rule(
    "X01",
    Severity.HIGH,
    Scope.RAIL,
    title="NICs of one rail are set differently",
    why="A rail is as good as its worst NIC: a collective waits for it. One host that was set up by hand, or missed,"
    " drops what all others protect.",
    source="what H rules look at, compared within a rail",
    fix="`roceway-tune apply -f fabric.yaml` on the hosts named; `roceway-tune verify` on all.",
)
def settings(rail: RailAt) -> Verdict:
    for what, value in _FIELDS.items():
        yield from _compare(rail, what, value)


@rule(
    "X02",
    Severity.CRITICAL,
    Scope.RAIL,
    title="ToS differs by direction",
    why="One direction runs lossless, the other in best effort. ACKs, or the data of half the ring, drop; a test"
    " from A to B is fine and from B to A is not.",
    source="RoCEv2: each sender marks its own packets; nothing is negotiated",
    fix="Set one ToS on all hosts: `roceway-tune apply`.",
)
def tos(rail: RailAt) -> Verdict:
    sources = [tos_sources(nic) for nic in rail.nics]
    names = sorted({name for each in sources for name in each})
    if not names:
        yield Missing("ToS of RoCE (rdma_cm, traffic_class, nccl.conf, ucx.conf)")
    for name in names:
        yield from _compare(rail, f"RoCE's DSCP by {name}", _dscp(name))


def _dscp(name: str) -> Callable[[NicAt], Hashable]:
    def of(at: NicAt) -> int | None:
        tos = tos_sources(at).get(name)
        return None if tos is None else tos >> 2

    return of


@rule(
    "X03",
    Severity.HIGH,
    Scope.RAIL,
    title="CNPs have different DSCPs on one rail",
    why="Switches give one DSCP the fast queue. The other hosts' CNPs queue with bulk traffic, their senders slow"
    " down late, and the rail is unfair.",
    source="DCQCN (SIGCOMM 2015)",
    fix="Set cnp_dscp alike on all hosts: `roceway-tune apply`.",
)
def cnp_dscp(rail: RailAt) -> Verdict:
    yield from _compare(rail, "DSCP of CNPs", lambda at: at.nic.ecn.cnp_dscp)


@rule(
    "X04",
    Severity.MEDIUM,
    Scope.RAIL,
    title="RoCE MTU differs on one rail",
    why="rdma_cm settles for the smaller one; verbs programs that set the path MTU themselves get nothing through.",
    source="InfiniBand Architecture Specification: path MTU of a connection",
    fix="Set one netdev MTU on the rail's hosts: `roceway-tune apply`.",
)
def active_mtu(rail: RailAt) -> Verdict:
    yield from _compare(rail, "active_mtu", lambda at: at.nic.active_mtu)


@rule(
    "X05",
    Severity.MEDIUM,
    Scope.RAIL,
    title="DCQCN parameters differ on one rail",
    why="The sender with the larger increase takes the share of the others. It looks like a slow NIC.",
    source="Zhu et al. (SIGCOMM 2015): fairness needs equal parameters",
    fix="Set them alike: `roceway-tune apply`, or cc_params by hand.",
)
def parameters(rail: RailAt) -> Verdict:
    names = sorted({name for nic in rail.nics for name in nic.nic.ecn.params})
    if not names:
        yield Missing("DCQCN parameters of the NICs")
    for name in names:
        yield from _compare(rail, f"DCQCN {name}", _parameter(name))


def _parameter(name: str) -> Callable[[NicAt], Hashable]:
    return lambda at: at.nic.ecn.params.get(name)


RULES: tuple[Rule, ...] = (settings, tos, cnp_dscp, active_mtu, parameters)
