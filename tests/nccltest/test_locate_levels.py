"""What is normal among values at several levels, and how likely nodes are parted into leaves by chance."""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nccltest.locate.evidence import Floats
from nccltest.locate.levels import upper_mode
from nccltest.locate.pathguess import choices


def levels_of(*shares: tuple[float, int], sigma: float = 0.012, seed: int = 1) -> Floats:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(level, sigma, count) for level, count in shares])


@pytest.mark.parametrize("upper", [25, 40, 60, 90])
def test_the_upper_of_two_levels_is_normal_from_a_fifth_of_the_values_on(upper: int) -> None:
    assert upper_mode(levels_of((0.0, upper), (-0.105, 100 - upper)))[0] == pytest.approx(0.0, abs=0.006)


def test_a_few_groups_on_a_better_path_are_not_what_is_normal() -> None:
    assert upper_mode(levels_of((0.1, 10), (0.0, 90)))[0] == pytest.approx(0.0, abs=0.006)


def test_paths_five_percent_apart_are_one_level() -> None:
    assert -0.05 < upper_mode(levels_of((0.0, 60), (-0.045, 40)))[0] < 0.0


def test_most_of_them_slow_at_many_levels_leave_the_healthy_ones_normal() -> None:
    slow = [(-0.1 * depth, 12) for depth in range(2, 8)]
    assert upper_mode(levels_of((0.0, 30), *slow))[0] == pytest.approx(0.0, abs=0.01)


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=60))
def test_it_is_one_of_the_levels_that_are_there(values: list[float]) -> None:
    assert min(values) <= upper_mode(np.array(values))[0] <= max(values)


@given(st.integers(0, 60), st.integers(0, 60))
def test_choices_are_binomial(count: int, chosen: int) -> None:
    if chosen <= count:
        assert choices(count, chosen) == pytest.approx(log(comb(count, chosen)), abs=1e-6)
