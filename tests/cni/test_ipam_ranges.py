"""Ranges: which addresses a rail may hand out, and every mistake found."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from cni.ipam import Pool, disjoint, parse_ranges, pools, size


def pool(*ranges: dict[str, Any], family: int = 4) -> Pool:
    parsed, findings = parse_ranges(list(ranges), "r")
    assert not findings
    (found,) = [each for each in pools(parsed) if each.family == family]
    return found


def addresses(*ranges: dict[str, Any], family: int = 4) -> list[str]:
    kind = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
    free = pool(*ranges, family=family).free
    return [str(kind(number)) for low, high in free for number in range(low, high + 1)]


def told(*ranges: Any) -> dict[str, str]:
    _, findings = parse_ranges(list(ranges), "r")
    return {finding.path: finding.message for finding in findings}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"subnet": "10.0.0.0/29"}, [1, 2, 3, 4, 5, 6]),
        ({"subnet": "10.0.0.0/29", "gateway": "10.0.0.1"}, [2, 3, 4, 5, 6]),
        ({"subnet": "10.0.0.0/29", "gateway": "10.0.0.4"}, [1, 2, 3, 5, 6]),
        ({"subnet": "10.0.0.0/29", "rangeStart": "10.0.0.3"}, [3, 4, 5, 6]),
        ({"subnet": "10.0.0.0/29", "rangeEnd": "10.0.0.3"}, [1, 2, 3]),
        ({"subnet": "10.0.0.0/29", "rangeStart": "10.0.0.0", "rangeEnd": "10.0.0.7"}, [1, 2, 3, 4, 5, 6]),
        ({"subnet": "10.0.0.0/29", "rangeStart": "10.0.0.3", "rangeEnd": "10.0.0.3"}, [3]),
        ({"subnet": "10.0.0.0/29", "exclude": ["10.0.0.2", "10.0.0.4/31"]}, [1, 3, 6]),
        ({"subnet": "10.0.0.0/29", "exclude": ["10.0.0.4/30"], "gateway": "10.0.0.5"}, [1, 2, 3]),
        ({"subnet": "10.0.0.0/29", "exclude": ["10.0.0.1", "10.0.0.1", "10.0.0.0/30"]}, [4, 5, 6]),
        ({"subnet": "10.0.0.0/30"}, [1, 2]),
        ({"subnet": "10.0.0.4/31"}, [4, 5]),
        ({"subnet": "10.0.0.4/31", "gateway": "10.0.0.4"}, [5]),
        ({"subnet": "10.0.0.7/32"}, [7]),
    ],
)
def test_what_a_range_hands_out(given: dict[str, Any], wanted: list[int]) -> None:
    assert addresses(given) == [f"10.0.0.{number}" for number in wanted]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"subnet": "fd00::/126"}, ["fd00::1", "fd00::2", "fd00::3"]),
        ({"subnet": "fd00::4/127"}, ["fd00::4", "fd00::5"]),
        ({"subnet": "fd00::4/127", "gateway": "fd00::5"}, ["fd00::4"]),
        ({"subnet": "fd00::7/128"}, ["fd00::7"]),
        ({"subnet": "fd00::/64", "rangeEnd": "fd00::3", "gateway": "fd00::2"}, ["fd00::1", "fd00::3"]),
    ],
)
def test_what_an_ipv6_range_hands_out(given: dict[str, Any], wanted: list[str]) -> None:
    assert addresses(given, family=6) == wanted


def test_an_ipv6_subnet_is_as_large_as_it_is() -> None:
    assert size(pool({"subnet": "fd00::/64"}, family=6).free) == 2**64 - 1


def test_ranges_of_one_family_are_one_pool_in_their_order() -> None:
    given = (
        {"subnet": "10.0.1.0/30"},
        {"subnet": "fd00::/126"},
        {"subnet": "10.0.0.0/30"},
    )
    assert addresses(*given) == ["10.0.1.1", "10.0.1.2", "10.0.0.1", "10.0.0.2"]
    assert addresses(*given, family=6) == ["fd00::1", "fd00::2", "fd00::3"]
    first = pool(*given)
    assert first.range_of(int(ipaddress.ip_address("10.0.0.1"))).subnet == "10.0.0.0/30"
    assert first.range_of(int(ipaddress.ip_address("10.0.1.1"))).prefix_length == 30


def test_ipv4_comes_first() -> None:
    parsed, _ = parse_ranges([{"subnet": "fd00::/64"}, {"subnet": "10.0.0.0/24"}], "r")
    assert [each.family for each in pools(parsed)] == [4, 6]


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({}, "r[0].subnet", "is missing"),
        ({"subnet": "10.0.0.1/24"}, "r[0].subnet", "write 10.0.0.0/24"),
        ({"subnet": "10.0.0.0"}, "r[0].subnet", "no subnet"),
        ({"subnet": 5}, "r[0].subnet", "no subnet"),
        ({"subnet": "10.0.0.0/33"}, "r[0].subnet", "10.0.0.0/33"),
        ({"subnet": "10.0.0.0/24", "gateway": "10.0.1.1"}, "r[0].gateway", "outside 10.0.0.0/24"),
        ({"subnet": "10.0.0.0/24", "gateway": "fd00::1"}, "r[0].gateway", "outside"),
        ({"subnet": "10.0.0.0/24", "gateway": 167772161}, "r[0].gateway", "no IP address"),
        ({"subnet": "10.0.0.0/24", "rangeStart": "10.1.0.0"}, "r[0].rangeStart", "outside"),
        ({"subnet": "10.0.0.0/24", "rangeEnd": "x"}, "r[0].rangeEnd", "no IP address"),
        ({"subnet": "10.0.0.0/24", "exclude": "10.0.0.1"}, "r[0].exclude", "list"),
        ({"subnet": "10.0.0.0/24", "exclude": ["10.0.0.1/24"]}, "r[0].exclude[0]", "host bits"),
        ({"subnet": "10.0.0.0/24", "exclude": ["10.0.0.1", 7]}, "r[0].exclude[1]", ""),
        ({"subnet": "10.0.0.0/24", "exclude": ["10.9.0.0/24"]}, "r[0].exclude[0]", "outside"),
        ({"subnet": "10.0.0.0/24", "exclude": ["fd00::/64"]}, "r[0].exclude[0]", "outside"),
        ({"subnet": "10.0.0.4/32", "gateway": "10.0.0.4"}, "r[0]", "too small"),
        ({"subnet": "10.0.0.0/24", "exclude": ["10.0.0.0/24"]}, "r[0]", "too small"),
        ({"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.8"}, "r[0]", "too small"),
        ({"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.255"}, "r[0]", "too small"),
        ({"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.0"}, "r[0]", "too small"),
        ({"subnet": "10.0.0.0/24", "surprise": 1}, "r[0].surprise", "unknown key"),
        (7, "r[0]", "object"),
    ],
)
def test_a_range_that_cannot_be(given: object, path: str, words: str) -> None:
    ((where, message),) = told(given).items()
    assert where == path
    assert words in message


def test_every_mistake_of_a_range_is_told_at_once() -> None:
    given = {"subnet": "10.0.0.0/24", "gateway": "x", "rangeStart": "y", "exclude": ["z"], "oops": 1}
    assert set(told(given)) == {"r[0].gateway", "r[0].rangeStart", "r[0].exclude[0]", "r[0].oops"}


@pytest.mark.parametrize("raw", [None, [], {}, "10.0.0.0/24", 5])
def test_at_least_one_range_is_needed(raw: object) -> None:
    ranges, findings = parse_ranges(raw, "r")
    assert ranges == ()
    assert [finding.path for finding in findings] == ["r"]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"subnet": "10.0.0.0/24"}, {"subnet": "10.0.0.0/24"}, "same addresses"),
        ({"subnet": "10.0.0.0/24"}, {"subnet": "10.0.0.128/25"}, "overlaps"),
        ({"subnet": "10.0.0.0/8"}, {"subnet": "10.200.0.0/16"}, "overlaps"),
        ({"subnet": "fd00::/48"}, {"subnet": "fd00:0:0:1::/64"}, "overlaps"),
        (
            {"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.100"},
            {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.100"},
            "same addresses",
        ),
        (
            {"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.99", "gateway": "10.0.0.200"},
            {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.100"},
            "gateway",
        ),
    ],
)
def test_ranges_that_cannot_live_beside_each_other(one: dict[str, Any], other: dict[str, Any], words: str) -> None:
    assert words in told(one, other)["r[1]"]
    assert words in told(other, one)["r[1]"]
    (left,), (right,) = parse_ranges([one], "r")[0], parse_ranges([other], "r")[0]
    assert words in disjoint(left, right)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"subnet": "10.0.0.0/24"}, {"subnet": "10.0.1.0/24"}),
        ({"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/64"}),
        (
            {"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.99", "gateway": "10.0.0.1"},
            {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.100", "gateway": "10.0.0.1"},
        ),
    ],
)
def test_ranges_that_can(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert told(one, other) == {}
