from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from conf import units


@pytest.mark.parametrize(
    ("parse", "text", "number"),
    [
        (units.parse_speed, "400G", 400_000),
        (units.parse_speed, "400M", 400),
        (units.parse_speed, "2.5G", 2500),
        (units.parse_speed, "1.6T", 1_600_000),
        (units.parse_bytes, "1MiB", 1 << 20),
        (units.parse_bytes, "150000B", 150_000),
        (units.parse_bytes, "64KiB", 65_536),
        (units.parse_bytes, "4GiB", 4 << 30),
        (units.parse_bytes, "1600KB", 1_600_000),
        (units.parse_bytes, " 8 GiB ", 8 << 30),
        (units.parse_length, "3m", 3.0),
        (units.parse_length, "0.5m", 0.5),
        (units.parse_percent, "50%", 50.0),
        (units.parse_percent, "0.5%", 0.5),
        (units.parse_whole_percent, "50%", 50),
        (units.parse_duration, "100ms", 100_000),
        (units.parse_duration, "10min", 600_000_000),
    ],
)
def test_a_quantity_is_held_in_its_fixed_unit(parse: Callable[[object], float], text: str, number: float) -> None:
    assert parse(text) == number


@pytest.mark.parametrize(
    ("parse", "value", "message"),
    [
        (units.parse_speed, 400, "a speed needs its unit; write 400M or 400G or 400T"),
        (units.parse_speed, "400", "a speed needs its unit; write 400M or 400G or 400T"),
        (units.parse_speed, "400Gbps", "400Gbps has an unknown unit; a speed is written in T, G, M"),
        (units.parse_speed, "0.0001M", "0.0001M is a speed finer than 1M"),
        (units.parse_speed, "fast", "fast is not a speed; write it as 400G or 400M"),
        (units.parse_speed, "-1G", "-1G is not a speed; write it as 400G or 400M"),
        (units.parse_speed, True, "a speed with its unit is wanted, such as 400G or 400M"),
        (units.parse_speed, None, "a speed with its unit is wanted, such as 400G or 400M"),
        (units.parse_bytes, 4096, "a size needs its unit; write 4096B or 4096KB or 4096KiB"),
        (units.parse_bytes, "1K", "1K has an unknown unit; a size is written in TiB, GiB, MiB, KiB, B, TB, GB, MB, KB"),
        (units.parse_bytes, "0.5B", "0.5B is a size finer than 1B"),
        (units.parse_bytes, "9999TiB", "9999TiB is larger than any size here can be"),
        (units.parse_length, 3, "a length needs its unit; write 3m"),
        (units.parse_length, "3km", "3km has an unknown unit; a length is written in m"),
        (units.parse_length, "999999m", "999999m is longer than any cable"),
        (units.parse_percent, 0.05, "a share needs its unit; write 0.05%"),
        (units.parse_percent, "101%", "101% is more than 100%"),
        (units.parse_whole_percent, "12.5%", "12.5% is not a whole percent; write 12%"),
        (units.parse_duration, 200, "a time needs its unit; write 200us or 200ms or 200s"),
        (units.parse_duration, "2m", "2m has an unknown unit; a time is written in h, min, s, ms, us"),
        (units.parse_bytes, "9" * 5000 + "B", "9" * 37 + "… is not a size; write it as 1MiB or 150000B"),
        (units.parse_speed, "nanG", "nanG is not a speed; write it as 400G or 400M"),
    ],
)
def test_what_is_no_quantity_is_refused_with_the_way_to_write_it(
    parse: Callable[[object], float], value: object, message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse(value)
    assert str(caught.value) == message


@given(st.integers(0, 10**12))
def test_whole_quantities_survive_being_written_and_read(number: int) -> None:
    assert units.parse_speed(units.format_speed(number)) == number
    assert units.parse_bytes(units.format_bytes(number)) == number
    assert units.parse_duration(units.format_duration(number)) == number


@given(st.decimals(0, 100_000, places=6))
def test_lengths_survive_being_written_and_read(metres: Any) -> None:
    assert units.parse_length(units.format_length(float(metres))) == float(metres)


@given(st.decimals(0, 100, places=6))
def test_shares_survive_being_written_and_read(percent: Any) -> None:
    assert units.parse_percent(units.format_percent(float(percent))) == float(percent)


class Everything(BaseModel):
    speed: units.Speed
    size: units.Bytes
    length: units.Length
    share: units.Percent
    whole: units.WholePercent
    time: units.Duration


AS_TEXT = {"speed": "400G", "size": "1MiB", "length": "0.5m", "share": "5%", "whole": "50%", "time": "200ms"}


def test_the_types_read_text_and_write_the_same_text() -> None:
    everything = Everything.model_validate(AS_TEXT)
    assert everything.speed == 400_000
    assert everything.time == 200_000
    assert everything.model_dump() == AS_TEXT


def test_the_types_schema_takes_what_they_take_and_no_bare_number() -> None:
    validator = Draft202012Validator(Everything.model_json_schema())
    assert validator.is_valid(AS_TEXT)
    for field in AS_TEXT:
        assert not validator.is_valid(AS_TEXT | {field: 5})
        assert not validator.is_valid(AS_TEXT | {field: "5"})
        with pytest.raises(ValidationError):
            Everything.model_validate(AS_TEXT | {field: 5})


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    for parse in (units.parse_speed, units.parse_bytes, units.parse_length, units.parse_percent, units.parse_duration):
        with suppress(ValueError):
            assert parse(text) >= 0
