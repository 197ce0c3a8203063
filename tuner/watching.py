"""What changed between two readings of a host, as events. Pure: notifications only say when to read again.

Rates and shares are over the time between the readings. A counter that went back (a reloaded driver) tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tuner.counters import paused_share
from tuner.nic import HostQos, HostWanted, InUse, Link, NicQos, NicWanted
from tuner.plan import plan_nic, unbound

__all__ = ["Event", "Limits", "Rates", "changed", "drift_of", "rates", "traffic"]

Kind = Literal[
    "drift", "mended", "link", "pause-storm", "drops", "wrong-priority", "no-cnp", "no-ecn", "gid", "gone", "back"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From where on something is an event."""

    paused: float = 0.1
    """Share of the time that the lossless class could not send."""
    marks: int = 100
    """ECN marks in an interval that must be answered by at least one CNP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to one rail."""

    rail: str
    nic: str
    kind: Kind
    text: str
    values: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.rail} ({self.nic}) {self.kind}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """One NIC over one interval; None where it is not counted."""

    paused: tuple[float | None, ...]
    """By priority, 0 to 1."""
    cnp_sent: float | None
    """Per second."""
    cnp_handled: float | None
    ecn_marked: float | None
    lossless_drops: int | None
    """Packets in the interval."""


def _grown(before: int | None, after: int | None) -> int | None:
    if before is None or after is None or after < before:
        return None
    return after - before


def _rdma(before: NicQos, after: NicQos, *names: str) -> int | None:
    """The growth of the first of these counters that both readings have."""
    for name in names:
        if name in after.counters.rdma:
            return _grown(before.counters.rdma.get(name), after.counters.rdma[name])
    return None


def _prio(before: tuple[int, ...] | None, after: tuple[int, ...] | None, priority: int) -> int | None:
    return None if before is None or after is None else _grown(before[priority], after[priority])


def rates(before: NicQos, after: NicQos, seconds: float, lossless: int) -> Rates:
    """What happened on a NIC between two readings."""

    def per_second(*names: str) -> float | None:
        grown = _rdma(before, after, *names)
        return None if grown is None or seconds <= 0 else grown / seconds

    return Rates(
        paused=tuple(paused_share(before.counters, after.counters, seconds, priority) for priority in range(8)),
        cnp_sent=per_second("np_cnp_sent", "tx_cnp_pkts", "cnpSent"),
        cnp_handled=per_second("rp_cnp_handled", "rx_cnp_pkts", "cnpHandled"),
        ecn_marked=per_second("np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "RxECNMrkd"),
        lossless_drops=_prio(before.counters.rx_discards, after.counters.rx_discards, lossless),
    )


def drift_of(wanted: NicWanted, seen: NicQos) -> tuple[str, ...]:
    """What is not as wanted, one sentence each; a NIC that a pod has can not be judged and has none."""
    if _absent(seen):
        return ()
    found = plan_nic(wanted, seen)
    return (*found.blocked, *(step.change for step in found.steps))


def changed(wanted: HostWanted, before: HostQos, after: HostQos) -> tuple[Event, ...]:
    """What changed in settings, links and GIDs between two readings."""
    return tuple(_events(wanted, before, after, _settings))


def traffic(
    wanted: HostWanted, before: HostQos, after: HostQos, seconds: float, limits: Limits | None = None
) -> tuple[Event, ...]:
    """What the traffic between two readings, ``seconds`` apart, says. Too short a time makes a storm of any burst."""
    allowed = limits or Limits()
    return tuple(_events(wanted, before, after, lambda one, then, now: _traffic(one, then, now, seconds, allowed)))


Found = tuple[Kind, str, dict[str, float]]


def _events(
    wanted: HostWanted,
    before: HostQos,
    after: HostQos,
    look: Callable[[NicWanted, NicQos, NicQos], Iterator[Found]],
) -> Iterator[Event]:
    for one in wanted.nics:
        then, now = (host.nic(one.rail) or host.nic(one.nic) or _missing(one) for host in (before, after))
        name = then.name if _absent(now) else now.name
        for kind, text, values in look(one, then, now):
            yield Event(rail=one.rail, nic=name, kind=kind, text=text, values=values)


def _missing(one: NicWanted) -> NicQos:
    """Stands for a NIC that is not there at all: its driver is gone, or the card is."""
    return NicQos(name=one.nic, in_use=InUse(reason="absent", detail="there is no such NIC"))


def _absent(nic: NicQos) -> bool:
    return unbound(nic) or (nic.in_use is not None and nic.in_use.reason == "absent")


def _settings(one: NicWanted, then: NicQos, now: NicQos) -> Iterator[Found]:
    if _absent(now) or _absent(then):
        if not _absent(then):
            yield "gone", "its network device is gone: to a pod, or with its driver", {}
        elif not _absent(now):
            yield "back", "its network device is here again", {}
    old, new = drift_of(one, then), drift_of(one, now)
    for sentence in new:
        if sentence not in old:
            yield "drift", sentence, {}
    if old and not new and not _absent(now):
        yield "mended", "as fabric.yaml says again", {}
    if then.link is not None and now.link is not None:
        yield from _link(then.link, now.link)
    yield from _gids(then, now)


def _link(then: Link, now: Link) -> Iterator[Found]:
    changes = _grown(then.changes, now.changes) or 0
    if then.carrier != now.carrier or changes:
        times = f", {changes} changes of the carrier" if changes else ""
        yield "link", f"{'up' if now.carrier else 'down'}{times}", {"changes": changes}


def _gids(then: NicQos, now: NicQos) -> Iterator[Found]:
    """An address whose index moved breaks every program that was given the old one."""
    old = {gid.address: gid.index for gid in then.gids or () if gid.type == "RoCE v2"}
    for gid in now.gids or ():
        was = old.get(gid.address)
        if gid.type == "RoCE v2" and was is not None and was != gid.index:
            yield "gid", f"RoCE v2 GID of {gid.address} moved from index {was} to {gid.index}", {"index": gid.index}


def _traffic(one: NicWanted, then: NicQos, now: NicQos, seconds: float, limits: Limits) -> Iterator[Found]:
    lossless = 0 if one.lossless is None else one.lossless
    found = rates(then, now, seconds, lossless)
    share = found.paused[lossless]
    if share is not None and share >= limits.paused:
        frames = _prio(then.counters.rx_pause, now.counters.rx_pause, lossless)
        text = f"priority {lossless} could not send for {share:.0%} of {seconds:.1f} s ({frames} pause frames received)"
        yield "pause-storm", text, {"share": share, "frames": float(frames or 0)}
    if found.lossless_drops:
        text = f"{found.lossless_drops} drops in lossless priority {lossless} in {seconds:.1f} s"
        yield "drops", text, {"drops": found.lossless_drops}
    yield from _misplaced(then, now, lossless)
    yield from _unanswered(then, now, lossless, limits)


def _misplaced(then: NicQos, now: NicQos, lossless: int) -> Iterator[Found]:
    """RDMA requests came in, bytes came in on priority 0, and none on the lossless one."""
    requests = _rdma(then, now, "rx_write_requests", "rx_roce_good_pkts", "InRdmaWrites")
    right = _prio(then.counters.rx_bytes, now.counters.rx_bytes, lossless)
    wrong = _prio(then.counters.rx_bytes, now.counters.rx_bytes, 0)
    if requests and wrong and right == 0 and lossless != 0:
        text = f"{requests} RDMA requests and {wrong} bytes on priority 0, none on {lossless}: wrong ToS or wrong map"
        yield "wrong-priority", text, {"bytes": wrong}


def _unanswered(then: NicQos, now: NicQos, lossless: int, limits: Limits) -> Iterator[Found]:
    marked = _rdma(then, now, "np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "RxECNMrkd")
    sent = _rdma(then, now, "np_cnp_sent", "tx_cnp_pkts", "cnpSent")
    if marked is not None and marked >= limits.marks and sent == 0:
        yield (
            "no-cnp",
            f"{marked} packets were marked and no CNP was sent: the notification point is off",
            {"marked": marked},
        )
    frames = _prio(then.counters.rx_pause, now.counters.rx_pause, lossless)
    handled = _rdma(then, now, "rp_cnp_handled", "rx_cnp_pkts", "cnpHandled")
    if frames and frames >= limits.marks and handled == 0 and marked == 0:
        text = (
            f"{frames} pause frames for priority {lossless} and no ECN mark: the switches mark too late or not at all"
        )
        yield "no-ecn", text, {"frames": frames}
