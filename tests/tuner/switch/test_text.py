"""JSON of unknown origin: names twice, depth, huge numbers, control codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.switch.text import (
    AMBIGUOUS,
    MAX_BYTES,
    Reading,
    UnreadableError,
    decode,
    number,
    parse_json,
    printable,
    shown,
)


def test_a_key_named_twice_is_a_finding_with_its_path_and_its_value_is_unknown() -> None:
    reading = Reading()
    document = parse_json('{"A": {"x": {"k": "1", "k": "2"}}}', reading)
    assert document["A"]["x"]["k"] is AMBIGUOUS
    (finding,) = reading.findings()
    assert (finding.kind, finding.place, finding.rule) == ("duplicate-key", "A|x|k", "S14")
    assert "differently" in finding.message


def test_the_same_said_twice_is_kept_and_still_a_finding() -> None:
    reading = Reading()
    assert parse_json('{"k": {"a": 1}, "k": {"a": 1}}', reading) == {"k": {"a": 1}}
    assert [finding.place for finding in reading.findings()] == ["k"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "nests deeper"),
        ('{"a":' * 50_000, "nests deeper"),
        ('{"a": 1,}', "not JSON"),
        ('{"a": "\x00"}', "not JSON"),
        ('{"a": 1} trailing', "not JSON"),
    ],
)
def test_what_is_not_json_says_why(text: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        parse_json(text, Reading())


@pytest.mark.parametrize(
    ("data", "why"), [(b"", "empty"), (b" \n\t", "empty"), (b"\xff\xfe{", "byte 0"), (b"x" * (MAX_BYTES + 1), "24 MiB")]
)
def test_what_is_not_text_says_why(data: bytes, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        decode(data)


def test_a_byte_order_mark_is_no_fault() -> None:
    assert decode(b"\xef\xbb\xbf{}") == "{}"


def test_huge_and_odd_numbers_are_no_numbers() -> None:
    document = parse_json('{"a": ' + "9" * 5000 + ', "b": 1e999, "c": NaN, "d": -0}', Reading())
    assert [number(document[key], -10, 10**18) for key in "abcd"] == [None, None, None, 0]


@given(st.integers(-(10**18) + 1, 10**18 - 1))
def test_a_number_is_the_same_as_text(value: int) -> None:
    assert number(str(value), -(10**18), 10**18) == number(value, -(10**18), 10**18) == value


@pytest.mark.parametrize("value", ["", "1.5", "0x10", "१२", "1_000", "--1", " ", True, None, [], {}, 1.5, "9" * 30])
def test_what_is_no_whole_number(value: object) -> None:
    assert number(value, -100, 100) is None


@given(st.text(max_size=300))
def test_what_is_shown_cannot_drive_a_terminal(text: str) -> None:
    assert shown(text).isprintable()
    assert len(shown(text)) <= 60
    shown(text).encode()


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.lists(st.none()), st.text()))
def test_anything_can_be_shown(value: object) -> None:
    assert shown(value).isprintable()


def test_names_are_printable_and_short() -> None:
    assert printable("Ethernet0") == "Ethernet0"
    assert [printable(value) for value in ("", "a\x1b[2J", "\ud800", "x" * 257, 5, None)] == [None] * 6


def test_findings_of_one_kind_are_one_with_their_number() -> None:
    reading = Reading()
    for row in range(5):
        reading.say("dangling", f"T|{row}", "is not there", group="T")
    (finding,) = reading.findings()
    assert (finding.place, finding.message) == ("T|0", "is not there (and 4 more like it)")


def test_a_file_of_nothing_but_mistakes_does_not_grow_without_end() -> None:
    reading = Reading()
    for row in range(5000):
        reading.bad(f"T|{row}", "x", "a number")
    assert len(reading.findings()) == 1001
    assert "there is more" in reading.findings()[-1].message
