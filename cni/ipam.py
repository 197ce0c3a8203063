"""Addresses for rails: pools from ranges, and the next free one. Pure: integers in, an integer out.

Ranges have host-local's names (subnet, rangeStart, rangeEnd, gateway). A rail's ranges of one family form one pool.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from conf.errors import Finding

__all__ = ["Pool", "Range", "disjoint", "hands_out", "next_free", "overlaps", "parse_ranges", "pools", "size"]

Interval = tuple[int, int]
"""First and last address, both included."""

_RANGE_KEYS = frozenset({"subnet", "rangeStart", "rangeEnd", "gateway", "exclude"})
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Range(NamedTuple):
    """One range of a rail, checked."""

    family: int
    """4 or 6."""
    subnet: str
    first: int
    last: int
    gateway: int | None
    excluded: tuple[Interval, ...]
    whole: Interval
    """First and last address of the subnet."""

    @property
    def prefix_length(self) -> int:
        """Of the subnet: what an address of this range carries."""
        return int(self.subnet.rpartition("/")[2])


class Pool(NamedTuple):
    """What a rail can hand out in one family, in the order of its ranges."""

    family: int
    ranges: tuple[Range, ...]
    free: tuple[Interval, ...]
    """Intervals without gateways and exclusions."""

    def range_of(self, address: int) -> Range:
        """The range that holds ``address``."""
        return next(each for each in self.ranges if each.first <= address <= each.last)


def parse_ranges(raw: object, path: str) -> tuple[tuple[Range, ...], list[Finding]]:
    """``ipam.ranges`` of a netconf as values, with every mistake found."""
    if not isinstance(raw, list) or not raw:
        return (), [Finding(path, "at least one range {subnet: …} is needed")]
    ranges: list[Range] = []
    findings: list[Finding] = []
    for number, item in enumerate(raw):
        parsed, wrong = _parse_range(item, f"{path}[{number}]")
        findings += wrong
        if parsed is not None:
            ranges.append(parsed)
    findings += _overlapping(ranges, path)
    return tuple(ranges), findings


def _parse_range(item: object, path: str) -> tuple[Range | None, list[Finding]]:
    if not isinstance(item, Mapping):
        return None, [Finding(path, "must be an object with a subnet")]
    findings = [
        Finding(f"{path}.{key}", f"unknown key (value {item[key]!r})") for key in item if key not in _RANGE_KEYS
    ]
    network, problem = _network(item.get("subnet"))
    if network is None:
        return None, [*findings, Finding(f"{path}.subnet", problem)]
    first, last = usable(network)
    wanted: dict[str, int | None] = {}
    for key in ("rangeStart", "rangeEnd", "gateway"):
        wanted[key], problem = _address_in(item.get(key), network)
        if problem:
            findings.append(Finding(f"{path}.{key}", problem))
    excluded, wrong = _exclusions(item.get("exclude", []), network, f"{path}.exclude")
    findings += wrong
    # As in host-local, a bound at the network or broadcast address means the nearest usable one.
    start, end = wanted["rangeStart"], wanted["rangeEnd"]
    result = Range(
        family=network.version,
        subnet=str(network),
        first=first if start is None else max(first, start),
        last=last if end is None else min(last, end),
        gateway=wanted["gateway"],
        excluded=excluded,
        whole=(int(network.network_address), int(network.broadcast_address)),
    )
    if not findings and not size(_free(result)):
        where = "this subnet" if start is None and end is None else "this range"
        findings.append(Finding(path, f"{where} ({result.subnet}) is too small: it holds no address for a pod"))
    return (None if findings else result), findings


def _network(text: object) -> tuple[_Network | None, str]:
    if not isinstance(text, str) or "/" not in text or "%" in text:
        return None, f"{text!r} is no subnet; write it as 10.200.0.0/24" if text else "is missing"
    try:
        return ipaddress.ip_network(text), ""
    except ValueError:
        pass
    try:
        loose = ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        return None, str(error)
    return None, f"{text} has host bits set; write {loose}"


def _address_in(text: object, network: _Network) -> tuple[int | None, str]:
    if text is None:
        return None, ""
    try:
        address = ipaddress.ip_address(text if isinstance(text, str) and "%" not in text else "")
    except ValueError:
        return None, f"{text!r} is no IP address"
    if address not in network:
        return None, f"{address} lies outside {network}"
    return int(address), ""


def _exclusions(raw: object, network: _Network, path: str) -> tuple[tuple[Interval, ...], list[Finding]]:
    if not isinstance(raw, list):
        return (), [Finding(path, "must be a list of addresses or subnets")]
    intervals, findings = [], []
    for number, text in enumerate(raw):
        try:
            block = ipaddress.ip_network(text if isinstance(text, str) and "%" not in text else "", strict=True)
        except ValueError as error:
            findings.append(Finding(f"{path}[{number}]", str(error)))
            continue
        if block.version != network.version or not block.overlaps(network):
            findings.append(Finding(f"{path}[{number}]", f"{block} lies outside {network}"))
        intervals.append((int(block.network_address), int(block.broadcast_address)))
    return tuple(intervals), findings


def usable(network: _Network) -> Interval:
    """Addresses that a host may carry.

    Point to point (/31: RFC 3021, /127: RFC 6164) and single-address subnets: all. Else without the first
    (IPv4 network address, IPv6 subnet-router anycast, RFC 4291 2.6.1) and, for IPv4, the broadcast address.
    """
    first, last = int(network.network_address), int(network.broadcast_address)
    if network.max_prefixlen - network.prefixlen <= 1:
        return first, last
    return first + 1, last - 1 if network.version == 4 else last


def _free(each: Range) -> tuple[Interval, ...]:
    holes = [*each.excluded, *([(each.gateway, each.gateway)] if each.gateway is not None else [])]
    return _without((each.first, each.last), holes)


def _without(whole: Interval, holes: Iterable[Interval]) -> tuple[Interval, ...]:
    rest: list[Interval] = []
    low, high = whole
    for start, end in sorted(holes):
        if end < low or start > high:
            continue
        if start > low:
            rest.append((low, start - 1))
        low = max(low, end + 1)
    if low <= high:
        rest.append((low, high))
    return tuple(rest)


def overlaps(left: Interval, right: Interval) -> bool:
    """Whether two intervals share an address."""
    return left[0] <= right[1] and right[0] <= left[1]


def disjoint(left: Range, right: Range) -> str:
    """Why two ranges cannot live beside each other; empty when they can.

    One subnet may serve two ranges as long as no address is in both; two different subnets must not overlap.
    """
    if left.family != right.family:
        return ""
    if left.subnet == right.subnet:
        if overlaps((left.first, left.last), (right.first, right.last)):
            return f"hands out the same addresses of {left.subnet}"
        taken = any(a.gateway is not None and hands_out(b, a.gateway) for a, b in ((left, right), (right, left)))
        return f"the gateway of one range of {left.subnet} is an address that the other hands out" if taken else ""
    return f"{left.subnet} overlaps {right.subnet}" if overlaps(left.whole, right.whole) else ""


def hands_out(each: Range, address: int) -> bool:
    """Whether a pod may get ``address`` from a range."""
    return any(low <= address <= high for low, high in _free(each))


def _overlapping(ranges: Sequence[Range], path: str) -> list[Finding]:
    return [
        Finding(f"{path}[{number}]", f"{reason} (range {other})")
        for number, each in enumerate(ranges)
        for other, earlier in enumerate(ranges[:number])
        if (reason := disjoint(each, earlier))
    ]


def pools(ranges: Sequence[Range]) -> tuple[Pool, ...]:
    """One pool per family, IPv4 first."""
    result = []
    for family in (4, 6):
        own = tuple(each for each in ranges if each.family == family)
        if own:
            result.append(Pool(family, own, tuple(interval for each in own for interval in _free(each))))
    return tuple(result)


def size(intervals: Iterable[Interval]) -> int:
    """Number of addresses."""
    return sum(high - low + 1 for low, high in intervals)


def next_free(intervals: Sequence[Interval], last: int | None, held: Callable[[int, int], Iterable[int]]) -> int | None:
    """The first free address after ``last``, going round; None when every one is held.

    ``held(low, high)`` gives the held addresses within the bounds in ascending order; it is read only as far as the
    first gap, so a pool with ten thousand leases costs no more than an empty one. Going round keeps an address that
    was just freed out of use for as long as the pool allows: peers still have its old MAC in their ARP tables.
    """
    for low, high in _rotated(intervals, last):
        candidate = low
        for taken in held(low, high):
            if taken > candidate:
                break
            candidate = taken + 1
        if candidate <= high:
            return candidate
    return None


def _rotated(intervals: Sequence[Interval], last: int | None) -> list[Interval]:
    """The intervals from just after ``last`` on, then those before it."""
    for number, (low, high) in enumerate(intervals):
        if last is not None and low <= last <= high:
            after = [(last + 1, high)] if last < high else []
            return [*after, *intervals[number + 1 :], *intervals[:number], (low, last)]
    return list(intervals)
