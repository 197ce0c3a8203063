"""Hostlist syntax: ``gpu-[001-064]``, ``a[1-3,7]b``, ``Ethernet[0-252:4]``, ``rack[1-2]-n[1-4],login0``.

Order matters here (the nth name gets the nth address block), so names come out as written and the last bracket
varies fastest. ClusterShell sorts, writes a step as ``/4`` (our separator of node and rail) and is LGPL;
python-hostlist has no step and is GPL. Hence these hundred lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

__all__ = ["MAX_NAMES", "HostList", "count", "expand", "index_of"]

MAX_NAMES = 1_000_000
"""The most names that one list may expand to."""
_MAX_CHARACTERS = 64 * MAX_NAMES  # a long literal times many names is as hostile as many names
_MAX_BRACKETS = 8

_TOKEN = re.compile(r"\[(?P<ranges>[^\[\]]*)\]|(?P<literal>[^\[\],\s]+)|\s*(?P<comma>,)\s*")
_RANGE = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15})(?::([0-9]{1,15}))?)?")


class _Range(NamedTuple):
    values: range
    width: int  # of the zero padding, 1 for none

    def names(self) -> Iterator[str]:
        return (f"{value:0{self.width}d}" for value in self.values)


_Item = list[list[_Range] | str]  # literals and brackets, from left to right


def expand(text: str) -> tuple[str, ...]:
    """The names that ``text`` stands for, in the order written.

    Raises ValueError for bad syntax, for a name that occurs twice, and for more than MAX_NAMES names.
    """
    items = _parse(text)
    _bounded_count(text, items)
    names = tuple("".join(parts) for item in items for parts in product(*map(_choices, item)))
    if len(set(names)) != len(names):
        raise ValueError(f"{_shown(text)} names {_repeated(names)} twice")
    return names


def index_of(text: str, name: str) -> int | None:
    """The position of ``name`` in ``expand(text)``, from 0, or None. Raises as ``expand`` does."""
    return _positions(text).get(name)


@lru_cache(maxsize=16)
def _positions(text: str) -> Mapping[str, int]:
    """Kept: every one of ten thousand recorded hosts is looked up in the same list."""
    return {name: position for position, name in enumerate(expand(text))}


def count(text: str) -> int:
    """How many names ``text`` stands for, without expanding it. Raises ValueError for bad syntax or too many."""
    return _bounded_count(text, _parse(text))


def _check(text: str) -> str:
    count(text)
    return text


HostList = Annotated[
    str,
    AfterValidator(_check),
    Field(description="Names in hostlist syntax: gpu-[001-064], a[1-3,7]b, Ethernet[0-252:4]."),
]
"""Text in hostlist syntax, checked but kept as written."""


def _parse(text: str) -> list[_Item]:
    text = text.strip()
    items: list[_Item] = [[]]
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"{_shown(text)} is not a hostlist: {_shown(text[position:])} cannot be read")
        position = match.end()
        if match["comma"]:
            items.append([])
        else:
            items[-1].append(match["literal"] or [_range(part) for part in match["ranges"].split(",")])
    if not all(items):
        raise ValueError(f"{_shown(text)} has an empty name" if text else "a hostlist may not be empty")
    if any(sum(isinstance(part, list) for part in item) > _MAX_BRACKETS for item in items):
        raise ValueError(f"{_shown(text)} has a name with more than {_MAX_BRACKETS} brackets")
    return items


def _range(text: str) -> _Range:
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"[{_shown(text)}] is not a range; write 1, 1-9 or 0-252:4")
    low, high, step = match[1], match[2] or match[1], int(match[3] or 1)
    if int(high) < int(low):
        raise ValueError(f"[{text}] runs backwards; write [{high}-{low}]")
    if step == 0:
        raise ValueError(f"[{text}] has a step of 0")
    padded = low.startswith("0") and len(low) > 1
    return _Range(range(int(low), int(high) + 1, step), len(low) if padded else 1)


def _choices(part: list[_Range] | str) -> Iterator[str]:
    return iter([part]) if isinstance(part, str) else (name for one in part for name in one.names())


def _bounded_count(text: str, items: list[_Item]) -> int:
    names = characters = 0
    for item in items:
        size = 1
        for part in item:
            size *= 1 if isinstance(part, str) else sum(len(one.values) for one in part)
        names += size
        characters += size * sum(len(part) if isinstance(part, str) else 15 for part in item)
    if names > MAX_NAMES or characters > _MAX_CHARACTERS:
        raise ValueError(
            f"{_shown(text)} stands for {names} names, too many (at most {MAX_NAMES}, and less if they are long)"
        )
    return names


def _repeated(names: tuple[str, ...]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name is repeated")


def _shown(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
