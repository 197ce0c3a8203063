from __future__ import annotations

import pytest

from conf.cron import parse_cron


def test_a_schedule_is_the_set_of_values_of_each_field() -> None:
    fields = parse_cron("*/30 0,12 1-3 JAN mon-fri")
    assert fields.minutes == {0, 30}
    assert fields.hours == {0, 12}
    assert fields.days == {1, 2, 3}
    assert fields.months == {1}
    assert fields.weekdays == {1, 2, 3, 4, 5}


def test_a_step_after_a_number_runs_to_the_end() -> None:
    assert parse_cron("50/5 * * * *").minutes == {50, 55}


def test_sunday_is_0_and_7() -> None:
    assert parse_cron("0 0 * * 7").weekdays == parse_cron("0 0 * * sun").weekdays == {0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 * * *", "five fields"),
        ("@hourly", "five fields"),
        ("60 * * * *", "60 is no minute; it runs from 0 to 59"),
        ("0 24 * * *", "24 is no hour"),
        ("0 0 0 * *", "0 is no day of month"),
        ("0 0 * 13 *", "13 is no month"),
        ("0 0 * * fry", "fry is no day of week"),
        ("*/0 * * * *", "step of 0"),
        ("9-1 * * * *", "runs backwards"),
        ("1,,2 * * * *", "is no minute"),
        ("² * * * *", "is no minute"),
    ],
)
def test_what_is_no_schedule_is_refused_by_field(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_cron(text)
