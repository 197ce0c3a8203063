"""Receive buffers: enough for what arrives after a pause, left alone where they are, in moves that mlx5 takes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner import headroom
from tuner.buffers import UNIT, enough, laid_out, moves, need, of_sizes
from tuner.nic import Buffer

TOTAL = 262_016
FIRST = Buffer(prio_buffer=(0,) * 8, size=(130_944, 0, 0, 0, 0, 0, 0, 0), total=TOTAL)

lossless = st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True)


def test_the_least_is_what_the_driver_checks() -> None:
    assert need(400_000, 3, 9000) == need(400_000, 7, 9000) == 161_280
    assert need(400_000, 7, 9000) >= headroom.mlx5(400_000, 7, 9000) + 9978 + 256


@given(st.sampled_from([25_000, 100_000, 200_000, 400_000, 800_000]), st.floats(0.5, 500), st.integers(576, 9216))
def test_the_least_covers_headroom_a_frame_and_a_cell_of_any_size(speed: int, metres: float, mtu: int) -> None:
    found = need(speed, metres, mtu)
    assert 0 <= found - (headroom.mlx5(speed, max(metres, 7), mtu) + 9978 + 256) < UNIT
    assert all(found % cell == 0 for cell in (96, 128, 144, 192, 256))


def test_one_lossless_priority_of_a_connectx_at_power_on() -> None:
    found = laid_out((3,), 158_976, FIRST)
    assert found is not None
    assert found.prio_buffer == (0, 0, 0, 1, 0, 0, 0, 0)
    assert found.size == (29_952, 158_976, 0, 0, 0, 0, 0, 0)


def test_what_is_over_is_shared_and_the_sum_stays() -> None:
    roomy = Buffer(prio_buffer=(0,) * 8, size=(1_000_064, 0, 0, 0, 0, 0, 0, 0), total=2_000_000)
    found = laid_out((3, 4), 158_976, roomy)
    assert found is not None
    assert sum(found.size) == 1_000_064
    assert found.size[1] == found.size[2] > 350_000
    assert found.size[0] > 200_000


def test_what_is_enough_stays_as_it_is() -> None:
    own = Buffer(prio_buffer=(2, 2, 2, 5, 2, 2, 2, 2), size=(0, 0, 9000, 0, 0, 158_976, 0, 0), total=TOTAL)
    assert laid_out((3,), 158_976, own) is own
    assert laid_out((3,), 158_977, own) is not own
    assert laid_out((3, 4), 158_976, own) is None, "4 shares with lossy ones, and two do not fit"


def test_without_room_there_is_none() -> None:
    assert laid_out((3, 4), 158_976, FIRST) is None
    assert laid_out((3,), 158_976, Buffer(prio_buffer=(0,) * 8, size=(130_944, *(0,) * 7))) is None


@given(lossless, st.integers(1, 120), st.integers(0, 1500), st.integers(0, 1500))
def test_a_layout_is_enough_fits_and_is_its_own(priorities: list[int], units: int, first: int, more: int) -> None:
    seen = Buffer(prio_buffer=(0,) * 8, size=(first * 1024, *(0,) * 7), total=(first + more) * 1024)
    found = laid_out(priorities, units * UNIT, seen)
    if found is None:
        assert len(priorities) * units * UNIT + 13 * UNIT > seen.total
        return
    assert enough(found, priorities, units * UNIT)
    assert sum(found.size) <= max(seen.total, sum(seen.size))
    assert laid_out(priorities, units * UNIT, found) is found


def refused(seen: Buffer, asked: Buffer, pfc: set[int], least: int) -> str:
    """As mlx5e_port_manual_buffer_config: priorities are mapped on the old sizes, then sizes are looked at."""

    def lossless_in(layout: Buffer) -> set[int]:
        return {layout.prio_buffer[priority] for priority in pfc}

    mapped = asked.prio_buffer != seen.prio_buffer and lossless_in(asked) != lossless_in(seen)
    if mapped and any(seen.size[number] < least for number in lossless_in(asked)):
        return "ENOMEM"
    if asked.size != seen.size:
        if sum(asked.size) > seen.total:
            return "EINVAL"
        if any(asked.size[number] < least for number in lossless_in(asked)):
            return "ENOMEM"
    return ""


@pytest.mark.parametrize("pfc", [set(), {3}])
def test_every_move_is_one_that_mlx5_takes_and_the_way_back_too(pfc: set[int]) -> None:
    seen = Buffer(prio_buffer=(0,) * 8, size=(400_128, 0, 0, 0, 0, 0, 0, 0), total=1_000_000)
    wanted = laid_out((3,), 158_976, seen)
    assert wanted is not None
    assert not pfc or refused(seen, wanted, pfc, 158_976) == "ENOMEM", "in one it is refused"
    for one, other in ((seen, wanted), (wanted, seen)):
        path = [one, *moves(one, other)]
        assert path[-1] == other
        for here, there in pairwise(path):
            assert refused(here, there, pfc, 158_976) == ""


def test_sizes_alone_are_one_move_and_nothing_is_none() -> None:
    one, other = of_sizes((3,), 200_448, 23_040), of_sizes((3,), 158_976, 23_040)
    assert list(moves(one, other)) == [other]
    assert list(moves(one, one)) == []
