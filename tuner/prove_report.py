"""What ``prove`` found, for people and machines. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tuner.nic import Counters
from tuner.prove import BACK, OUT, Plan, Result, Tally, judge
from tuner.switch.model import Counters as PortCounters

__all__ = ["Findings", "SwitchPort", "counter_changes", "findings", "hint", "switch_changes", "to_json"]

_SHOWN = ("tx_packets", "rx_packets", "tx_pause", "rx_pause", "rx_discards")
_WAYS = {OUT: "out", BACK: "back"}


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """The switch port that a NIC is plugged into, before and after."""

    place: str
    """``leaf-r0 Ethernet0``."""
    before: PortCounters
    after: PortCounters


@dataclass(frozen=True, slots=True)
class Findings:
    """One exchange, judged."""

    results: tuple[Result, ...]
    missed: tuple[int, int]
    """Frames that the listener and the sender were themselves too slow for."""
    sender: dict[str, dict[int, int]]
    """What changed on the sender's NIC: counter → priority → difference; empty where its driver counts none."""
    listener: dict[str, dict[int, int]]
    switch: dict[str, Any]
    """What changed on the switch port, by counter; empty where it was not read."""

    @property
    def well(self) -> bool:
        """Everything arrived, and as it was sent."""
        return all(result.verdict == "ok" for result in self.results)


def findings(
    plan: Plan,
    tallies: tuple[Tally, Tally],
    missed: tuple[int, int],
    before: tuple[Counters | None, Counters | None],
    after: tuple[Counters | None, Counters | None],
    switch: SwitchPort | None = None,
) -> Findings:
    """Judge both directions, and take the counters' differences."""
    results = tuple(
        result for way, counts in zip((OUT, BACK), tallies, strict=True) for result in judge(plan, way, counts)
    )
    changes = [counter_changes(one, other) for one, other in zip(before, after, strict=True)]
    return Findings(results, missed, changes[0], changes[1], switch_changes(switch))


def counter_changes(before: Counters | None, after: Counters | None) -> dict[str, dict[int, int]]:
    """Counter → priority → difference, for those that moved."""
    found: dict[str, dict[int, int]] = {}
    for name in _SHOWN:
        one, other = (getattr(each, name) if each else None for each in (before, after))
        if one is not None and other is not None:
            moved = {at: new - old for at, (old, new) in enumerate(zip(one, other, strict=False)) if new > old}
            if moved:
                found[name] = moved
    return found


def switch_changes(port: SwitchPort | None) -> dict[str, Any]:
    """The same of a switch port: PFC frames by priority, and packets and marks by queue."""
    if port is None:
        return {}
    found: dict[str, Any] = {"port": port.place}
    for name in ("pfc_rx", "pfc_tx"):
        found[name] = _moved(getattr(port.before, name), getattr(port.after, name))
    for name in ("packets", "ecn_marked", "dropped"):
        one, other = (
            {queue: getattr(each, name) for queue, each in (counters.queues or {}).items()}
            for counters in (port.before, port.after)
        )
        found[f"queue_{name}"] = _moved(one, other)
    return {name: value for name, value in found.items() if value}


def _moved(before: Any, after: Any) -> dict[int, int]:
    return {
        at: new - before[at]
        for at, new in (after or {}).items()
        if new is not None and (before or {}).get(at) is not None and new > before[at]
    }


def hint(result: Result) -> str:
    """What a result mostly means, in a few words; empty for a good one."""
    if result.verdict == "dropped":
        return "nothing arrives: an ACL or policer drops the class, or it is paused for good"
    if result.verdict == "re-marked":
        now = result.remarked[0][0]
        if now.dscp != result.sent_as.dscp:
            return f"a switch rewrites DSCP {result.sent_as.dscp} to {now.dscp} (lint: L10)"
        return "a switch changes the ECN bits: congestion control is blind behind it"
    if result.verdict == "lost":
        return "the class drops under little load: look at its queue's and buffer's drop counters"
    return ""


def _rows(results: tuple[Result, ...]) -> Iterator[dict[str, Any]]:
    for result in results:
        yield {
            "direction": _WAYS[result.way],
            "dscp": result.sent_as.dscp,
            "ecn": result.sent_as.ecn,
            "sent": result.sent,
            "arrived": result.arrived,
            "lost": result.lost,
            "congestion_marks": result.congested,
            "remarked": [{"dscp": mark.dscp, "ecn": mark.ecn, "count": count} for mark, count in result.remarked],
            "verdict": result.verdict,
        }


def to_json(found: Findings) -> dict[str, Any]:
    """The whole, for machines."""
    return {
        "ok": found.well,
        "results": list(_rows(found.results)),
        "missed_by_host": {"listener": found.missed[0], "sender": found.missed[1]},
        "counters": {"sender": found.sender, "listener": found.listener, "switch": found.switch},
    }
