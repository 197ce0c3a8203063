"""X01-X05: NICs of one rail against each other. The majority is taken for what was meant; the others are named."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from tuner.lint.classes import roce_dscp, tos_sources
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.majority import odd
from tuner.lint.rules.words import apply, numbers
from tuner.lint.subjects import NicAt, RailAt

__all__ = ["RULES"]

Words = Callable[[Any], str]  # of one field's value
_NO_PEER = Missing("a second host on the rail")


def _compare(rail: RailAt, what: str, values: Sequence[Hashable], words: Words = str) -> Verdict:
    """A hit for each NIC that differs; ``values`` are the rail's NICs', in order, and become words only then."""
    pairs = [*zip(rail.nics, values, strict=True)]
    known = (nic.host for nic, value in pairs if value is not None)
    first = next(known, None)
    if all(host is first for host in known):
        yield _NO_PEER
    elif len({*values} - {None}) > 1:  # nearly always it is one
        for nic, own, usual, agree in odd(pairs):
            others = f"{agree} NICs of {_rail(rail)} have {words(usual)}" if agree else "the rail's NICs do not agree"
            yield Hit(nic.place, f"{what} is {words(own)}; {others}", apply(nic, what))


def _rail(rail: RailAt) -> str:
    return rail.rail or "the rail"


class _Field(NamedTuple):
    """What is compared."""

    value: Callable[[NicAt], Hashable]
    """None for unknown."""
    words: Words = str


_FIELDS: Mapping[str, _Field] = {
    "trust": _Field(lambda at: at.nic.trust),
    "PFC": _Field(lambda at: at.nic.pfc.enabled if at.nic.pfc else None, lambda value: numbers(value)),
    "priority of RoCE's DSCP": _Field(lambda at: _roce_priority(at), lambda value: numbers(value)),
    "priority to traffic class": _Field(lambda at: at.nic.ets.prio_tc if at.nic.ets else None),
    "ETS": _Field(lambda at: (at.nic.ets.tsa, at.nic.ets.tc_bw) if at.nic.ets else None, lambda value: _ets(*value)),
    "global pause": _Field(
        lambda at: (at.nic.pause.rx, at.nic.pause.tx) if at.nic.pause else None, lambda value: _pause(*value)
    ),
    "MTU": _Field(lambda at: at.nic.mtu),
    "ECN NP": _Field(lambda at: at.nic.ecn.np, lambda value: _flags(value)),
    "ECN RP": _Field(lambda at: at.nic.ecn.rp, lambda value: _flags(value)),
}


def _ets(tsa: tuple[str, ...], shares: tuple[int, ...]) -> str:
    """``0: ets 50 %, 3: ets 50 %, others strict``."""
    listed = [
        f"{tc}: {kind}" + (f" {shares[tc]} %" if kind == "ets" else "")
        for tc, kind in enumerate(tsa)
        if kind != "strict"
    ]
    return ", ".join([*listed, "others strict"])


def _pause(rx: bool, tx: bool) -> str:
    return " and ".join(word for word, flag in (("rx", rx), ("tx", tx)) if flag) or "off"


def _flags(flags: tuple[bool, ...]) -> str:
    """The priorities where it is on."""
    return "on priority " + numbers(each for each, flag in enumerate(flags) if flag) if any(flags) else "off"


def _roce_priority(at: NicAt) -> tuple[int, ...] | None:
    dscp = roce_dscp(at)
    return None if dscp is None else at.nic.priorities_of(dscp)


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
    for what, field in _FIELDS.items():
        yield from _compare(rail, what, [field.value(nic) for nic in rail.nics], field.words)


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
        dscps = [each[name] >> 2 if name in each else None for each in sources]
        yield from _compare(rail, f"RoCE's DSCP by {name}", dscps)


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
    yield from _compare(rail, "DSCP of CNPs", [nic.nic.ecn.cnp_dscp for nic in rail.nics])


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
    yield from _compare(rail, "active_mtu", [nic.nic.active_mtu for nic in rail.nics])


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
        yield from _compare(rail, f"DCQCN {name}", [nic.nic.ecn.params.get(name) for nic in rail.nics])


RULES: tuple[Rule, ...] = (settings, tos, cnp_dscp, active_mtu, parameters)
