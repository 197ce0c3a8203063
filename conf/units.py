"""Quantities with their units written out: ``400G``, ``1MiB``, ``3m``, ``50%``, ``200ms``.

A bare number is refused wherever it could be read in two ways: ``mtu: 9000`` is bytes to everyone, ``speed: 400`` is
not. Every type here reads text, holds one number in a fixed unit, and writes itself back as text.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

__all__ = [
    "Bytes",
    "Duration",
    "Length",
    "Percent",
    "Speed",
    "WholePercent",
    "format_bytes",
    "format_duration",
    "format_length",
    "format_percent",
    "format_speed",
    "parse_bytes",
    "parse_duration",
    "parse_length",
    "parse_percent",
    "parse_speed",
    "parse_whole_percent",
]

# Unit -> factor to the unit that is held, largest first: formatting takes the first that divides exactly.
SPEED_UNITS = {"T": 1_000_000, "G": 1000, "M": 1}  # Mb/s
BINARY_UNITS = {"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}
BYTE_UNITS = BINARY_UNITS | {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3}
DURATION_UNITS = {"h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1}  # µs

# Bounded, so that a hostile number cannot become a huge integer and what is written back is what was read.
_NUMBER = r"[0-9]{1,15}(\.[0-9]{1,6})?"
_LARGEST = 10**15 - 1  # Mb/s, bytes, µs
_LONGEST = 100_000  # metres
_SPLIT = re.compile(r"([0-9.]*) ?(.*)", re.DOTALL)


def parse_speed(value: object) -> int:
    """``"400G"`` → 400000: a rate in Mb/s, from ``M``, ``G`` or ``T`` bits per second. ValueError otherwise."""
    return _whole(_quantity(value, SPEED_UNITS, "a speed", "400G or 400M"), value, "a speed", "1M")


def parse_bytes(value: object) -> int:
    """``"1MiB"`` → 1048576, ``"1501500B"`` → 1501500: a size in bytes. ValueError otherwise.

    ``KiB MiB GiB TiB`` count in 1024, ``KB MB GB TB`` in 1000; a bare ``K`` could be either and is refused.
    """
    return _whole(_quantity(value, BYTE_UNITS, "a size", "1MiB or 150000B"), value, "a size", "1B")


def parse_length(value: object) -> float:
    """``"3m"`` → 3.0: a cable length in metres. ValueError otherwise."""
    metres = _quantity(value, {"m": 1}, "a length", "3m or 0.5m")
    if metres > _LONGEST:
        raise ValueError(f"{value} is longer than any cable")
    return float(metres)


def parse_percent(value: object) -> float:
    """``"5%"`` → 5.0: a share in percent, 0 to 100. ValueError otherwise."""
    percent = _quantity(value, {"%": 1}, "a share", "50%")
    if percent > 100:
        raise ValueError(f"{value} is more than 100%")
    return float(percent)


def parse_whole_percent(value: object) -> int:
    """``"50%"`` → 50: a share in whole percent, 0 to 100 (ETS knows no fractions). ValueError otherwise."""
    percent = parse_percent(value)
    if not percent.is_integer():
        raise ValueError(f"{value} is not a whole percent; write {percent:.0f}%")
    return int(percent)


def parse_duration(value: object) -> int:
    """``"200ms"`` → 200000: a time in microseconds, from ``us ms s min h``. ValueError otherwise."""
    return _whole(_quantity(value, DURATION_UNITS, "a time", "200ms or 10min"), value, "a time", "1us")


def format_speed(mbits: int) -> str:
    """400000 → ``"400G"`` (Mb/s)."""
    return _format(mbits, SPEED_UNITS)


def format_bytes(count: int) -> str:
    """1048576 → ``"1MiB"``."""
    return _format(count, BINARY_UNITS)


def format_length(metres: float) -> str:
    """3.0 → ``"3m"``."""
    return f"{_plain(metres)}m"


def format_percent(percent: float) -> str:
    """5.0 → ``"5%"``."""
    return f"{_plain(percent)}%"


def format_duration(microseconds: int) -> str:
    """200000 → ``"200ms"`` (µs)."""
    return _format(microseconds, DURATION_UNITS)


def _quantity(value: object, units: dict[str, int], what: str, example: str) -> Fraction:
    """The number that ``value`` says, exactly, in the unit whose factor is 1."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{what} with its unit is wanted, such as {example}")
    match = _SPLIT.fullmatch(str(value).strip())
    number, unit = match.groups() if match else ("", "")
    if not re.fullmatch(_NUMBER, number):
        raise ValueError(f"{_shown(str(value))} is not {what}; write it as {example}")
    if not unit:
        smallest = sorted(units, key=units.__getitem__)[:3]
        raise ValueError(f"{what} needs its unit; write {' or '.join(number + unit for unit in smallest)}")
    if unit not in units:
        raise ValueError(f"{_shown(str(value))} has an unknown unit; {what} is written in {', '.join(units)}")
    return Fraction(number) * units[unit]


def _whole(quantity: Fraction, value: object, what: str, smallest: str) -> int:
    if quantity.denominator != 1:
        raise ValueError(f"{value} is {what} finer than {smallest}")
    if quantity > _LARGEST:
        raise ValueError(f"{value} is larger than any {what.split()[-1]} here can be")
    return int(quantity)


def _format(quantity: int, units: dict[str, int]) -> str:
    unit = next((unit for unit, factor in units.items() if quantity and quantity % factor == 0), [*units][-1])
    return f"{quantity // units[unit]}{unit}"


def _plain(number: float) -> str:
    """A float without exponent or a trailing ``.0``."""
    text = format(Decimal(repr(float(number))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"


def _schema(units: dict[str, int], description: str, example: str, number: str = _NUMBER) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^{number} ?({'|'.join(units)})$",
            "description": description,
            "examples": [example],
        }
    )


Speed = Annotated[
    int,
    BeforeValidator(parse_speed),
    PlainSerializer(format_speed, return_type=str),
    _schema(SPEED_UNITS, "A rate in bits per second.", "400G"),
]
"""Mb/s; ``400G`` in the file."""

Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    PlainSerializer(format_bytes, return_type=str),
    _schema(BYTE_UNITS, "A size; KiB, MiB … count in 1024, KB, MB … in 1000.", "1MiB"),
]
"""Bytes; ``1MiB`` in the file."""

Length = Annotated[
    float,
    BeforeValidator(parse_length),
    PlainSerializer(format_length, return_type=str),
    _schema({"m": 1}, "A cable length in metres.", "3m"),
]
"""Metres; ``3m`` in the file."""

Percent = Annotated[
    float,
    BeforeValidator(parse_percent),
    PlainSerializer(format_percent, return_type=str),
    _schema({"%": 1}, "A share, 0% to 100%.", "5%"),
]
"""Percent, 0 to 100; ``5%`` in the file."""

WholePercent = Annotated[
    int,
    BeforeValidator(parse_whole_percent),
    PlainSerializer(format_percent, return_type=str),
    _schema({"%": 1}, "A share in whole percent.", "50%", "[0-9]{1,3}"),
]
"""Whole percent, 0 to 100; ``50%`` in the file."""

Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    _schema(DURATION_UNITS, "A time.", "200ms"),
]
"""Microseconds; ``200ms`` in the file."""
