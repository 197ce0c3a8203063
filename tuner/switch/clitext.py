"""Configurations that are indented lines (EOS, NX-OS) as a tree, and the words they share. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tuner.switch.text import UnreadableError, number, shown

__all__ = ["DSCP_NAMES", "Line", "bytes_of", "dscps", "interfaces", "parse"]

_DEEPEST = 32
_MOST_LINES = 500_000
_MOST_INTERFACES = 4096
_RANGE = re.compile(r"(.*?)([0-9]{1,4})-([0-9]{1,4})")
_UNITS = {"bytes": 1, "kbytes": 1000, "mbytes": 1000_000, "segments": None}

DSCP_NAMES = {
    "default": 0,
    "ef": 46,
    **{f"cs{selector}": 8 * selector for selector in range(8)},
    **{f"af{high}{low}": 8 * high + 2 * low for high in range(1, 5) for low in range(1, 4)},
}
"""Names of code points (RFC 2474, 2597, 3246) as command lines write them."""


@dataclass(slots=True)
class Line:
    """One line and what is indented below it."""

    words: tuple[str, ...]
    number: int
    children: list[Line] = field(default_factory=list)
    read: bool = False
    """Some reader knew what to do with it."""

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def below(self, *start: str) -> Iterator[Line]:
        """The children that begin with these words; they count as read."""
        for child in self.children:
            if child.words[: len(start)] == start:
                child.read = True
                yield child

    def has(self, *words: str) -> bool:
        """Whether one of the children says exactly this; it counts as read."""
        return any(len(child.words) == len(words) for child in self.below(*words))

    def after(self, *start: str) -> tuple[str, ...] | None:
        """What follows these words in the last child that begins with them; None where there is none."""
        found = None
        for child in self.below(*start):
            found = child.words[len(start) :]
        return found


def parse(text: str) -> Line:
    """The lines of a configuration, by indentation; comments (``!``, ``#``) and blank lines left out.

    UnreadableError for more lines than any switch has.
    """
    if text.count("\n") > _MOST_LINES:
        raise UnreadableError(f"has more than {_MOST_LINES} lines")
    root = Line((), 0)
    stack: list[tuple[int, Line]] = [(-1, root)]
    for at, raw in enumerate(text.splitlines(), 1):
        words = tuple(raw.partition(" !")[0].split())
        if not words or words[0][0] in "!#":
            continue
        indent = len(raw) - len(raw.lstrip())
        while len(stack) > 1 and (stack[-1][0] >= indent or len(stack) > _DEEPEST):
            stack.pop()
        line = Line(words, at)
        stack[-1][1].children.append(line)
        stack.append((indent, line))
    return root


def interfaces(words: Sequence[str]) -> list[str]:
    """``["Ethernet1/1-4,1/7"]`` → the names. A lone name is itself; a list that makes no sense is empty."""
    names: list[str] = []
    stem = ""
    for part in "".join(words).split(","):
        text = part if part[:1].isalpha() else stem + part
        stem = re.match(r"[A-Za-z-]*", text)[0]  # type: ignore[index] # matches the empty string at least
        match = _RANGE.fullmatch(text)
        if match is None:
            names.append(text)
            continue
        low, high = int(match[2]), int(match[3])
        if high < low or high - low > _MOST_INTERFACES or len(names) > _MOST_INTERFACES:
            return []
        names += [f"{match[1]}{index}" for index in range(low, high + 1)]
    return [name for name in names if name]


def dscps(words: Sequence[str]) -> frozenset[int] | None:
    """``["26,48-50", "af31"]`` → code points; None where one of them is none."""
    found: set[int] = set()
    for word in ",".join(words).replace(" ", "").split(","):
        low, dash, high = word.lower().partition("-")
        first = DSCP_NAMES.get(low, number(low, 0, 63))
        last = DSCP_NAMES.get(high, number(high, 0, 63)) if dash else first
        if first is None or last is None or last < first:
            return None
        found |= set(range(first, last + 1))
    return frozenset(found)


def bytes_of(words: Sequence[str]) -> int | None:
    """``["150", "kbytes"]`` → 150000; None for another unit or no number. k is taken for 1000: no manual says which."""
    factor = _UNITS.get(words[1]) if len(words) > 1 else None
    count = number(words[0], 0, 10**12) if words else None
    return None if count is None or factor is None else count * factor


def option(words: Sequence[str], name: str, length: int = 1) -> tuple[str, ...]:
    """The words after ``name``, at most ``length``; empty where it is not there."""
    at = list(words).index(name) if name in words else -1
    return () if at < 0 else tuple(words[at + 1 : at + 1 + length])


def unread(line: Line, path: str = "") -> Iterator[tuple[str, int]]:
    """What no reader knew, as its first words below the headings it stands in, with its line's number."""
    for child in line.children:
        where = f"{path}{' ' if path else ''}{shown(' '.join(child.words[:3]))}"
        if not child.read:
            yield where, child.number
        else:
            yield from unread(child, child.words[0])
