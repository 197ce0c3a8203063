"""The table: which columns its header names, and what a row says under them. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from nccltest.model import Half, Row
from nccltest.parse.grammar import OPERATIONS, TYPES

__all__ = ["GUESSED", "Header", "Partial", "header_of", "number", "row_of", "start_of_row"]

_ALIASES = {"bytes": "size", "n": "count", "op": "redop", "res": "error", "wrong": "#wrong", "cputime": "time"}
_WRONG = {"#wrong", "error"}
_BEFORE = ("size", "count", "type", "redop", "root")
_HUGE = 1 << 62
_NUMBER = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,4})?")
_LEADING = re.compile(rf"({_NUMBER.pattern}|N/A)(?=[A-Za-z\[(_])")
_ROOT = re.compile(r"(-?\d{1,7})(?=[A-Za-z\[(_]|$)")
_NOT_NUMBERS = frozenset(("N/A", "n/a", "nan", "-nan", "inf", "-inf", "NaN", "Inf"))

_TOLERANCE = dict.fromkeys(("half", "float16", "bfloat16", "bf16"), 1e-2)
_TOLERANCE |= {"float": 1e-5, "float32": 1e-5, "double": 1e-12, "float64": 1e-12}
"""Largest difference that nccl-tests before 2.13 accepts for each addition (DeltaMaxValue in src/common.cu)."""


class Header(NamedTuple):
    """The columns of a table."""

    redop: bool
    root: bool
    halves: tuple[tuple[str, ...], ...]
    """Names in the out-of-place half, and in the in-place half where there is one."""
    tail: tuple[str, ...]
    """Names after them: timestamp, and 2.20's and rccl-tests' tuning columns."""
    milliseconds: bool
    """Version 1."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What a whole row holds after its root."""
        return tuple(name for half in self.halves for name in half)

    @property
    def width(self) -> int:
        """How many these are."""
        return len(self.columns)

    @property
    def old(self) -> bool:
        """Before 2.13: an ``error`` column, and only the columns that the collective needs."""
        return any("error" in half for half in self.halves)


_HALF_NAMES = {"time", "algbw", "busbw", "#wrong", "error", "#bitdiff", "i_min", "i_max", "i_p99", "i_cv%"}
"""Columns of numbers; 2.20's and rccl-tests' tuning columns hold words."""
_HALF = ("time", "algbw", "busbw", "#wrong")
GUESSED = Header(redop=True, root=True, halves=(_HALF, _HALF), tail=(), milliseconds=False)
"""Where a log begins below its header: 2.13 and later without options."""


class Partial(NamedTuple):
    """A row of which the first part was printed; other ranks' text may come in between."""

    size: int
    elements: int
    type: str
    redop: str
    root: int
    values: tuple[str, ...]


def header_of(line: str) -> Header | None:
    """The header that this line is, if it is one: it names size (or bytes), time and busbw."""
    words = line.lstrip("# \t").lower().split()
    if "busbw" not in words or not words or words[0] not in ("size", "bytes"):
        return None
    names = [_ALIASES.get(word, word) for word in words[:64]]
    starts = [place for place, name in enumerate(names) if name == "time"][:2]
    if not starts:
        return None
    halves, tail = _halves(names, starts)
    before = names[: starts[0]]
    return Header("redop" in before, "root" in before, halves, tail, words[0] == "bytes")


def _halves(names: Sequence[str], starts: Sequence[int]) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    if len(starts) == 1:
        end = next((at for at in range(starts[0], len(names)) if names[at] not in _HALF_NAMES), len(names))
        return (tuple(names[starts[0] : end]),), tuple(names[end:])
    first, second = starts
    half = tuple(names[first:second])
    length = len(half)
    return (half, half), tuple(names[second + length :])


def number(text: str) -> float | None:
    """A finite number, or None."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def start_of_row(words: Sequence[str], header: Header) -> Partial | None:
    """The row that begins in these words, as far as it goes; None where none begins.

    Size and count stand before the element type; what stands before them is of a launcher.
    """
    for place in range(2, min(len(words), 12)):
        if words[place] in TYPES and words[place - 1].isdecimal() and words[place - 1].isascii():
            size = _trailing_digits(words[place - 2])
            if size and len(size) <= 18 and len(words[place - 1]) <= 18:
                return _after_type(int(size), int(words[place - 1]), words[place], words[place + 1 :], header)
    return None


def _trailing_digits(word: str) -> str:
    """``<stdout>:1024`` -> ``1024``."""
    digits = re.search(r"(?:^|[>:\]|])(\d{1,18})$", word[-24:])
    return digits[1] if digits else ""


def _after_type(size: int, count: int, kind: str, words: Sequence[str], header: Header) -> Partial:
    redop, root = "none", -1
    rest = list(words)
    if rest and rest[0] in OPERATIONS:
        redop = rest.pop(0)
    if header.root and rest and (found := _ROOT.match(rest[0])):
        root = int(found[1])
        rest = rest[1:] if found.end() == len(rest[0]) else []  # other ranks' text, glued to it
    return Partial(size, count, kind, redop, root, values_of(rest, header.columns))


def values_of(words: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The values that these words begin with; what other ranks printed ends them, also glued to the last."""
    values: list[str] = []
    for word, column in zip(words, columns, strict=False):
        if _NUMBER.fullmatch(word) or word in _NOT_NUMBERS or column not in _HALF_NAMES:
            values.append(word)
            continue
        glued = _LEADING.match(word)
        if glued:
            values.append(glued[1])
        break
    return tuple(values)


def row_of(partial: Partial, header: Header, ranks: int, *, left_blank: bool) -> Row | None:
    """The row with its whole halves; None without one. ``left_blank``: it has an in-place half only."""
    width = len(header.halves[0])
    whole = len(partial.values) // width
    if whole == 0:
        return None
    groups = [partial.values[at * width : (at + 1) * width] for at in range(whole)]
    tolerance = _TOLERANCE.get(partial.type, 0.0) * max(ranks - 1, 1)
    halves = [_half(header.halves[0], group, tolerance, header.milliseconds) for group in groups]
    if len(halves) == 1 and left_blank:
        halves.insert(0, Half(None, None, None, None))
    in_place = halves[1] if len(halves) > 1 else None
    return Row(partial.size, partial.elements, partial.type, partial.redop, partial.root, halves[0], in_place)


def _half(names: Sequence[str], values: Sequence[str], tolerance: float, milliseconds: bool) -> Half:
    cells = dict(zip(names, values, strict=True))
    time = number(cells["time"])
    name = next((name for name in names if name in _WRONG), "")
    return Half(
        time_us=time * 1000 if time is not None and milliseconds else time,
        algbw=_at_least_zero(cells.get("algbw")),
        busbw=_at_least_zero(cells.get("busbw")),
        wrong=_wrong(name, number(cells.get(name, "")), tolerance),
        cv_pct=number(cells.get("i_cv%", "")),
    )


def _at_least_zero(text: str | None) -> float | None:
    value = number(text or "")
    return value if value is not None and value >= 0 else None


def _wrong(name: str, value: float | None, tolerance: float) -> int | None:
    if value is None:
        return None
    if name == "error":
        return int(value > tolerance)
    return int(min(max(value, 0), _HUGE))
