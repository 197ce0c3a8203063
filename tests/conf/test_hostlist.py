from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.hostlist import MAX_NAMES, count, expand, index_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("login0", ("login0",)),
        ("gpu-[001-003]", ("gpu-001", "gpu-002", "gpu-003")),
        ("gpu-[8-11]", ("gpu-8", "gpu-9", "gpu-10", "gpu-11")),
        ("gpu-[08-11]", ("gpu-08", "gpu-09", "gpu-10", "gpu-11")),
        ("a[1-3,7]b", ("a1b", "a2b", "a3b", "a7b")),
        ("Ethernet[0-12:4]", ("Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12")),
        ("Ethernet[0-11:4]", ("Ethernet0", "Ethernet4", "Ethernet8")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("b,a[2-1000:998], c", ("b", "a2", "a1000", "c")),
        ("gpu-[1-2]/rail0", ("gpu-1/rail0", "gpu-2/rail0")),
        ("Ethernet[1-2]/1/1", ("Ethernet1/1/1", "Ethernet2/1/1")),
        ("leaf-r[0-1]:swp1s[0-1]", ("leaf-r0:swp1s0", "leaf-r0:swp1s1", "leaf-r1:swp1s0", "leaf-r1:swp1s1")),
        ("[0-1]", ("0", "1")),
    ],
)
def test_a_list_expands_in_the_order_written(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names
    assert count(text) == len(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "may not be empty"),
        ("a,,b", "empty name"),
        ("a,", "empty name"),
        ("a b", "cannot be read"),
        ("a[1-3", "cannot be read"),
        ("a]1", "cannot be read"),
        ("a[[1]]", "cannot be read"),
        ("a[]", "is not a range"),
        ("a[x-y]", "is not a range"),
        ("a[1-9/2]", "is not a range"),
        ("a[3-1]", r"runs backwards; write \[1-3\]"),
        ("a[1-3:0]", "step of 0"),
        ("a[1-3,2]", "names a2 twice"),
        ("a1,a[1-2]", "names a1 twice"),
    ],
)
def test_what_is_no_list_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expand(text)


@pytest.mark.parametrize(
    "text",
    [
        "a[0-999999999999999]",
        "a[0-999][0-999][0-999]",
        "[0-9]" * 9,
        "[0-9]" * 100_000,
        "x" * 10_000 + "[0-999999]",
        "a[" + "9" * 5000 + "]",
        "[" * 100_000,
        f"a[1-{MAX_NAMES + 1}]",
    ],
)
def test_hostile_lists_are_refused_before_they_cost_anything(text: str) -> None:
    started = time.monotonic()
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        expand(text)
    assert time.monotonic() - started < 2
    assert len(str(caught.value)) < 300


def test_the_index_is_the_position_in_the_list() -> None:
    assert index_of("gpu-[001-064],login0", "gpu-003") == 2
    assert index_of("gpu-[001-064],login0", "login0") == 64
    assert index_of("gpu-[001-064]", "gpu-3") is None


def test_ten_thousand_hosts_are_found_in_a_list_of_as_many() -> None:
    before = time.process_time()
    for number in range(10_000):
        assert index_of("gpu-[0-9999]", f"gpu-{number}") == number
    assert time.process_time() - before < 5  # to expand the list each time took a minute


ranges = st.tuples(st.integers(0, 200), st.integers(0, 12), st.integers(1, 5), st.integers(1, 4))


@given(st.text("abc-_.", max_size=4), ranges, st.text("xyz/:", max_size=4))
def test_a_range_names_what_python_counts(head: str, numbers: tuple[int, int, int, int], tail: str) -> None:
    low, length, step, width = numbers
    text = f"{head}[{low:0{width}d}-{low + length:0{width}d}:{step}]{tail}"
    padding = width if f"{low:0{width}d}".startswith("0") else 1
    names = tuple(f"{head}{value:0{padding}d}{tail}" for value in range(low, low + length + 1, step))
    assert expand(text) == names
    assert [index_of(text, name) for name in names] == list(range(len(names)))


@given(st.lists(st.from_regex(r"\A[a-z][a-z0-9.-]{0,6}\Z"), min_size=1, max_size=8, unique=True))
def test_names_joined_by_commas_expand_to_themselves(names: list[str]) -> None:
    assert expand(",".join(names)) == tuple(names)
    assert expand(" , ".join(names)) == tuple(names)


@given(st.text("ab[]-,:0129 /", max_size=30))
def test_any_text_expands_to_as_many_names_as_counted_or_is_refused(text: str) -> None:
    try:
        names = expand(text)
    except ValueError:
        return
    assert len(names) == count(text) == len(set(names))
    assert all(names)
