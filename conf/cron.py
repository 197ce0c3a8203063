"""Five-field cron schedules: ``0 * * * *``; minute, hour, day of month, month, day of week."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

__all__ = ["Cron", "CronFields", "parse_cron"]

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: n for n, name in enumerate(_DAY_NAMES)}
# name, lowest, highest, names
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_PART = re.compile(r"(?:\*|([0-9a-z]{1,3})(?:-([0-9a-z]{1,3}))?)(?:/([0-9]{1,3}))?", re.IGNORECASE)


class CronFields(NamedTuple):
    """What each field of a schedule allows. Day of week: Sunday is 0."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]


def parse_cron(text: str) -> CronFields:
    """The values that a schedule of five fields allows. Raises ValueError naming the field that is wrong."""
    words = text.split()
    if len(words) != 5:
        raise ValueError(
            f"a schedule has five fields (minute, hour, day, month, weekday), such as 0 * * * *; here are {len(words)}"
        )
    minutes, hours, days, months, weekdays = (_field(word, *field) for word, field in zip(words, _FIELDS, strict=True))
    return CronFields(minutes, hours, days, months, frozenset(day % 7 for day in weekdays))


def _check(text: str) -> str:
    parse_cron(text)
    return text


Cron = Annotated[
    str,
    AfterValidator(_check),
    Field(max_length=200, json_schema_extra={"pattern": r"^\s*\S+(\s+\S+){4}\s*$"}, examples=["0 * * * *"]),
]
"""A schedule as text, checked."""


def _field(word: str, name: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    values: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part} is no {name}; write *, a number, 1-5, */15 or a list of these")
        first, last, step = match.groups()
        start = low if first is None else _number(first, name, low, high, names)
        stop = _number(last, name, low, high, names) if last else (start if first and not step else high)
        if stop < start:
            raise ValueError(f"{part} runs backwards ({name})")
        if step and int(step) == 0:
            raise ValueError(f"{part} has a step of 0 ({name})")
        values.update(range(start, stop + 1, int(step or 1)))
    return frozenset(values)


def _number(text: str, name: str, low: int, high: int, names: dict[str, int]) -> int:
    value = names.get(text.lower(), int(text) if text.isascii() and text.isdigit() else -1)
    if not low <= value <= high:
        raise ValueError(f"{text} is no {name}; it runs from {low} to {high}")
    return value
