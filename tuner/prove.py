"""What probes show about a rail: which markings arrive, arrive changed, or do not arrive. Pure.

Every probe carries in its payload the DSCP and ECN bits that it was sent with, so the far end sees what became of them
on the way. Both directions are proven apart: maps and PFC are a port's own, and differ by direction.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Literal, NamedTuple

from conf.qos import Qos

__all__ = [
    "BACK",
    "ECN_NAMES",
    "LONGEST",
    "MAGIC",
    "OUT",
    "Marking",
    "Plan",
    "Probe",
    "Result",
    "Seen",
    "Verdict",
    "judge",
    "markings",
    "pack",
    "plan_from_json",
    "tally",
    "tally_from_json",
    "tally_to_json",
    "unpack",
]

MAGIC = b"roceway\x01"
OUT, BACK = 0, 1
"""From the sender to the listener, and back."""
ECN_NAMES = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
LONGEST = 45
"""Seconds of sending in one direction."""
_ECT, _CE = (1, 2), 3
_HEADER = struct.Struct("!8s8sBBBxI")  # magic, run, way, DSCP, ECN, sequence
_ROCE_PORT = 4791  # IANA: roce
_LEAST_SIZE, _MOST_SIZE = _HEADER.size, 8192
_MOST_MARKINGS, _MOST_COUNT = 256, 100_000

Verdict = Literal["ok", "lost", "dropped", "re-marked"]


class Marking(NamedTuple):
    """What a packet's traffic class byte says."""

    dscp: int
    ecn: int

    def __str__(self) -> str:
        return f"{self.dscp} {ECN_NAMES[self.ecn]}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent in each direction: ``count`` probes of every marking, ``size`` bytes of payload."""

    run: bytes
    """Eight random bytes, so that probes of another run are told apart."""
    markings: tuple[Marking, ...]
    count: int = 100
    size: int = 1024
    rate: int = 2000
    """Probes per second."""
    port: int = _ROCE_PORT

    @property
    def seconds(self) -> float:
        """How long sending takes in one direction."""
        return self.count * len(self.markings) / self.rate

    def json(self) -> dict[str, Any]:
        """As the two ends tell each other."""
        return {
            "run": self.run.hex(),
            "markings": [list(marking) for marking in self.markings],
            "count": self.count,
            "size": self.size,
            "rate": self.rate,
            "port": self.port,
        }


def plan_from_json(value: Any) -> Plan:
    """The plan that the other end sent. ValueError where it is none, or asks for too much."""
    if not isinstance(value, dict):
        raise ValueError("is not an object")
    found = value.get("markings")
    if not isinstance(found, list) or not 0 < len(found) <= _MOST_MARKINGS:
        raise ValueError(f"markings: from 1 to {_MOST_MARKINGS} of them")
    pairs = tuple(
        Marking(_whole(each, 0, 0, 63), _whole(each, 1, 0, 3)) if isinstance(each, list) else _no(each)
        for each in found
    )
    run = bytes.fromhex(value["run"]) if isinstance(value.get("run"), str) else b""
    if len(run) != 8:
        raise ValueError("run: eight bytes")
    plan = Plan(
        run=run,
        markings=pairs,
        count=_whole(value, "count", 1, _MOST_COUNT),
        size=_whole(value, "size", _LEAST_SIZE, _MOST_SIZE),
        rate=_whole(value, "rate", 1, 1_000_000),
        port=_whole(value, "port", 1, 65535),
    )
    if plan.seconds > LONGEST:
        raise ValueError(f"{plan.count} probes of {len(pairs)} markings last longer than {LONGEST} s at {plan.rate}/s")
    return plan


def _no(value: object) -> Marking:
    raise ValueError(f"{value!r:.40} is not a marking")


def _whole(value: Any, key: Any, low: int, high: int) -> int:
    try:
        number = value[key]
    except LookupError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
        raise ValueError(f"{key}: a whole number from {low} to {high}")
    return number


def markings(qos: Qos) -> tuple[Marking, ...]:
    """The markings of interest: RoCE's, its companions', the CNPs' and the default class, each without ECT, with ECT(0)
    and with CE (a switch that clears or sets those bits breaks congestion control as surely as one that drops)."""
    dscps = dict.fromkeys((qos.lossless.dscp, *(each.dscp for each in qos.also), qos.cnp.dscp, 0))
    return tuple(Marking(dscp, ecn) for dscp in dscps for ecn in (0, 2, 3))


@dataclass(frozen=True, slots=True)
class Probe:
    """One frame to send."""

    run: bytes
    way: int
    dscp: int
    ecn: int
    sequence: int
    source: IPv4Address | IPv6Address
    target: IPv4Address | IPv6Address
    source_mac: str
    target_mac: str
    size: int = 1024
    port: int = _ROCE_PORT


class Seen(NamedTuple):
    """One probe that arrived: what it was sent with, and what it says now."""

    run: bytes
    way: int
    sent: Marking
    sequence: int
    arrived: Marking


def pack(probe: Probe) -> bytes:
    """The payload: a header, padded to the probe's size."""
    header = _HEADER.pack(MAGIC, probe.run, probe.way, probe.dscp, probe.ecn, probe.sequence)
    return header.ljust(probe.size, b"\0")


def unpack(payload: bytes, tos: int) -> Seen:
    """A payload and the traffic class byte it came with. ValueError for a datagram that is no probe."""
    if len(payload) < _HEADER.size or payload[: len(MAGIC)] != MAGIC:
        raise ValueError("is no probe of roceway")
    _, run, way, dscp, ecn, sequence = _HEADER.unpack_from(payload)
    if way not in (OUT, BACK) or dscp > 63 or ecn > 3:
        raise ValueError("is a damaged probe")
    return Seen(run, way, Marking(dscp, ecn), sequence, Marking(tos >> 2, tos & 3))


Tally = Mapping[Marking, Mapping[Marking, int]]
"""Sent marking → marking on arrival → number of different probes."""


def tally(seen: Iterable[Seen], run: bytes, way: int) -> Tally:
    """Count the probes of a run and direction; a probe that came twice counts once."""
    known: set[tuple[Marking, int]] = set()
    counts: dict[Marking, Counter[Marking]] = {}
    for each in seen:
        key = each.sent, each.sequence
        if each.run == run and each.way == way and key not in known:
            known.add(key)
            counts.setdefault(each.sent, Counter())[each.arrived] += 1
    return counts


def tally_to_json(counts: Tally) -> list[list[int]]:
    """Rows of sent DSCP, sent ECN, arrived DSCP, arrived ECN, number."""
    return [[*sent, *arrived, count] for sent, each in counts.items() for arrived, count in each.items()]


def tally_from_json(value: Any) -> Tally:
    """What the other end counted. ValueError where it is nothing of the kind."""
    if not isinstance(value, list) or len(value) > _MOST_MARKINGS * _MOST_MARKINGS:
        raise ValueError("is not a list of counts")
    counts: dict[Marking, dict[Marking, int]] = {}
    for row in value:
        if not isinstance(row, list) or len(row) != 5:
            raise ValueError("is not a list of counts")
        dscp, ecn, dscp_then, ecn_then = (_whole(row, at, 0, 3 if at % 2 else 63) for at in range(4))
        counts.setdefault(Marking(dscp, ecn), {})[Marking(dscp_then, ecn_then)] = _whole(row, 4, 0, _MOST_COUNT)
    return counts


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one marking in one direction."""

    way: int
    sent_as: Marking
    sent: int
    arrived: int
    remarked: tuple[tuple[Marking, int], ...]
    """What they arrived as instead, most frequent first."""
    congested: int
    """Arrived with CE where ECT was sent: a queue was above its threshold. That is what ECN is for."""

    @property
    def lost(self) -> int:
        """Did not arrive."""
        return self.sent - self.arrived

    @property
    def verdict(self) -> Verdict:
        """The worst that can be said."""
        if self.arrived == 0:
            return "dropped"
        if self.remarked:
            return "re-marked"
        return "lost" if self.lost else "ok"


def judge(plan: Plan, way: int, counts: Tally) -> tuple[Result, ...]:
    """A result for every marking of the plan."""
    return tuple(_judge(marking, plan.count, way, counts.get(marking, {})) for marking in plan.markings)


def _judge(sent_as: Marking, sent: int, way: int, arrived: Mapping[Marking, int]) -> Result:
    congested = arrived.get(Marking(sent_as.dscp, _CE), 0) if sent_as.ecn in _ECT else 0
    changed = [
        (marking, count)
        for marking, count in arrived.items()
        if marking != sent_as and not (sent_as.ecn in _ECT and marking == Marking(sent_as.dscp, _CE))
    ]
    return Result(
        way=way,
        sent_as=sent_as,
        sent=sent,
        arrived=sum(arrived.values()),
        remarked=tuple(sorted(changed, key=lambda each: -each[1])),
        congested=congested,
    )
