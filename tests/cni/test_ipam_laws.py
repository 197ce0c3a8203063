"""Laws of the next free address, held against a brute-force search."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from cni.ipam import Pool, next_free, parse_ranges, pools

BASE = {4: int(ipaddress.ip_address("10.0.0.0")), 6: int(ipaddress.ip_address("fd00::"))}


class Case(NamedTuple):
    """A pool, what it may hand out by brute force, and what is held."""

    pool: Pool
    allowed: tuple[int, ...]
    held: frozenset[int]
    last: int | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """One to three small ranges with gateways and exclusions, in any order."""
    family = draw(st.sampled_from([4, 6]))
    kind = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
    raw: list[dict[str, Any]] = []
    allowed: list[int] = []
    for number in draw(st.permutations(range(draw(st.integers(1, 3))))):
        bits = draw(st.integers(0, 4))
        base = BASE[family] + number * 256
        inside = st.integers(base, base + 2**bits - 1)
        each: dict[str, Any] = {"subnet": f"{kind(base)}/{(32 if family == 4 else 128) - bits}"}
        start, end = draw(st.none() | inside), draw(st.none() | inside)
        gateway, exclude = draw(st.none() | inside), draw(st.lists(inside, max_size=3))
        for key, value in (("rangeStart", start), ("rangeEnd", end), ("gateway", gateway)):
            if value is not None:
                each[key] = str(kind(value))
        each["exclude"] = [str(kind(value)) for value in exclude]
        network = range(base, base + 2**bits)
        reserved = set() if bits <= 1 else {base, base + 2**bits - 1} if family == 4 else {base}
        mine = [
            address
            for address in network
            if address not in reserved | {gateway} | set(exclude)
            and (start is None or address >= start)
            and (end is None or address <= end)
        ]
        assume(mine)
        raw.append(each)
        allowed += mine
    ranges, findings = parse_ranges(raw, "r")
    assert not findings
    (pool,) = pools(ranges)
    held = frozenset(draw(st.sets(st.sampled_from(allowed))))
    return Case(pool, tuple(allowed), held, draw(st.none() | st.sampled_from(allowed)))


def between(held: Iterable[int]) -> Callable[[int, int], Iterator[int]]:
    """As the store answers: ascending, within bounds."""
    ordered = sorted(held)
    return lambda low, high: (address for address in ordered if low <= address <= high)


def brute(case: Case) -> int | None:
    """The first allowed address after the last one, going round, that nobody holds."""
    order = case.allowed
    start = order.index(case.last) + 1 if case.last is not None else 0
    return next((address for address in (*order[start:], *order[:start]) if address not in case.held), None)


@given(cases())
def test_the_pool_is_what_brute_force_allows(case: Case) -> None:
    free = [address for low, high in case.pool.free for address in range(low, high + 1)]
    assert sorted(free) == sorted(case.allowed)


@given(cases())
def test_the_next_free_address_is_brute_forces(case: Case) -> None:
    assert next_free(case.pool.free, case.last, between(case.held)) == brute(case)


@given(cases())
def test_it_is_allowed_and_nobodys_and_none_only_when_all_are_held(case: Case) -> None:
    found = next_free(case.pool.free, case.last, between(case.held))
    if found is None:
        assert case.held == set(case.allowed)
    else:
        assert found in case.allowed
        assert found not in case.held
        assert case.pool.range_of(found).first <= found <= case.pool.range_of(found).last


@given(cases())
def test_going_round_visits_every_address_once_before_repeating_one(case: Case) -> None:
    seen, last = [], case.last
    for _ in range(2 * len(case.allowed)):
        last = next_free(case.pool.free, last, between(()))
        assert last is not None
        seen.append(last)
    assert sorted(seen[: len(case.allowed)]) == sorted(case.allowed)
    assert seen[len(case.allowed) :] == seen[: len(case.allowed)]


@given(cases())
def test_filling_a_pool_hands_every_address_to_one(case: Case) -> None:
    held: set[int] = set()
    last = None
    while (found := next_free(case.pool.free, last, between(held))) is not None:
        assert found not in held
        held.add(found)
        last = found
    assert held == set(case.allowed)


def test_a_cursor_outside_the_pool_begins_anew() -> None:
    assert next_free([(10, 12)], 99, between(())) == 10
    assert next_free([(10, 12)], 9, between({10})) == 11


def test_what_is_held_is_read_only_as_far_as_the_first_gap() -> None:
    read: list[int] = []

    def held(low: int, high: int) -> Iterator[int]:
        for address in range(low, high + 1):
            if address != 5:
                read.append(address)
                yield address

    assert next_free([(0, 1_000_000)], None, held) == 5
    assert read == [0, 1, 2, 3, 4, 6]


def test_a_whole_ipv6_subnet_costs_nothing() -> None:
    assert next_free([(0, 2**64)], 2**63, between(range(100))) == 2**63 + 1
