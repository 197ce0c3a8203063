"""Text of unknown origin to values, and a list of what was wrong with it. Pure.

A switch's output is hostile until read: it may nest without end, name a key twice, or carry a terminal's control
codes. Nothing here raises for what it reads except :class:`UnreadableError`, which costs that one source and no more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from tuner.switch.model import Finding, FindingKind

__all__ = [
    "AMBIGUOUS",
    "MAX_BYTES",
    "Reading",
    "UnreadableError",
    "decode",
    "number",
    "parse_json",
    "printable",
    "shown",
]

MAX_BYTES = 24 << 20
"""CONFIG_DB of a 512-port switch with its counters is about 12 MB; JSON of this size can take 750 MB of memory."""

MAX_PORTS = 16_384
"""Of one switch: a chassis lists the ports of its other cards too, some 5,000."""

_LONGEST_NAME = 256
_LONGEST_NUMBER = 18  # digits; what is longer is not a size, a rate or a counter of a switch
_MOST_FINDINGS = 1000


class UnreadableError(Exception):
    """Nothing can be read from this source; the text says why."""


class _Ambiguous:
    """The value of a key that an object names twice with different values: unknown, and told already."""

    def __repr__(self) -> str:
        return "AMBIGUOUS"


AMBIGUOUS: Final = _Ambiguous()


class _Doubled(dict[str, Any]):
    """An object some of whose keys were named twice."""

    repeated: tuple[str, ...] = ()


class Reading:
    """Collects what reading brings up. Equal findings about many rows are kept once, with their number."""

    def __init__(self) -> None:
        self._found: dict[tuple[FindingKind, str, str, str], tuple[str, int]] = {}
        self.said = 0
        """How often something was said; a reader remembers only what resolved in silence."""

    def say(self, kind: FindingKind, place: str, message: str, rule: str = "", group: str = "") -> None:
        """Add a finding. With ``group`` all of one kind, group and message are one, told at the first place."""
        key = (kind, group or place, message, rule)
        self.said += 1
        first, count = self._found.get(key, (place, 0))
        if count or len(self._found) < _MOST_FINDINGS:
            self._found[key] = (first, count + 1)

    def bad(self, place: str, value: object, wanted: str) -> None:
        """A value that is not what it should be; silent for what a duplicate key left unknown."""
        if value is not AMBIGUOUS:
            self.say("bad-value", shown(place), f"{shown(value)} is not {wanted}")

    def room(self, known: Collection[str], port: str) -> bool:
        """Whether one more port may be known; a file that names hundreds of thousands is no switch."""
        if port in known or len(known) < MAX_PORTS:
            return True
        self.say("bad-value", "", f"names more than {MAX_PORTS} ports; the first are read", group="ports")
        return False

    def findings(self) -> tuple[Finding, ...]:
        """All, in the order they were found."""
        found = [
            Finding(kind, shown(place, 200), message + (f" (and {count - 1} more like it)" if count > 1 else ""), rule)
            for (kind, _, message, rule), (place, count) in self._found.items()
        ]
        if len(found) >= _MOST_FINDINGS:
            found.append(Finding("bad-value", "", f"there is more; the first {_MOST_FINDINGS} are shown"))
        return tuple(found)


def shown(value: object, longest: int = 60) -> str:
    """A value for a message: short, and without characters that a terminal would act on."""
    text = value if isinstance(value, str) else _described(value)
    text = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text[: longest + 1])
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _described(value: object) -> str:
    """Never the repr of a container, which may nest deeper than Python can print."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return {None: "null", True: "true", False: "false"}.get(cast(Any, value), str(value))


def printable(value: object) -> str | None:
    """A name from a source; None for what is not text, is empty, overlong, or has control characters."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable():
        return value
    return None


def number(value: object, low: int, high: int) -> int | None:
    """A whole number, given as such or in decimal text, within bounds; None otherwise."""
    if isinstance(value, str):
        text = value.strip()
        digits = text[1:] if text[:1] == "-" else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NUMBER):
            return None
        value = int(text)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    return None


def decode(data: bytes) -> str:
    """The text of a file. UnreadableError when it is too large, not UTF-8 or empty."""
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8 text (byte {error.start})") from None
    if not text.strip():
        raise UnreadableError("is empty")
    return text


def parse_json(text: str, reading: Reading) -> Any:
    """A JSON document; UnreadableError where it is none. A key named twice is a finding; its value, where two values
    differ, AMBIGUOUS."""
    doubled: list[_Doubled] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            merged = _merge(items)
            doubled.append(merged)
            return merged
        return result

    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_int=_integer, parse_constant=str)
    except RecursionError:
        raise UnreadableError("nests deeper than any switch's configuration") from None
    except json.JSONDecodeError as error:
        raise UnreadableError(f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    if doubled:
        _tell(document, reading)
    return document


def _integer(text: str) -> int | str:
    """Python refuses to make an int of thousands of digits; as text it is merely a bad value."""
    return int(text) if len(text) <= _LONGEST_NUMBER else text


def _merge(items: list[tuple[str, Any]]) -> _Doubled:
    merged = _Doubled()
    repeated = []
    for key, value in items:
        if key in merged:
            repeated.append(key)
            value = value if _same(merged[key], value) else AMBIGUOUS
        merged[key] = value
    merged.repeated = tuple(dict.fromkeys(repeated))
    return merged


def _same(one: object, other: object) -> bool:
    try:
        return one == other
    except RecursionError:
        return False


def _tell(document: object, reading: Reading) -> None:
    """Find the objects with doubled keys again, now with their path."""
    stack: list[tuple[object, str]] = [(document, "")]
    while stack:
        value, path = stack.pop()
        children: list[tuple[str, object]] = []
        if isinstance(value, dict):
            children = list(value.items())
        elif isinstance(value, list):
            children = [(str(index), item) for index, item in enumerate(value)]
        if isinstance(value, _Doubled):
            for key in value.repeated:
                which = "differently" if value[key] is AMBIGUOUS else "both times alike"
                message = f"the key is there twice, {which}; the switch keeps one of them"
                reading.say("duplicate-key", _below(path, key), message, "S14")
        stack += [(child, _below(path, key)) for key, child in reversed(children) if isinstance(child, dict | list)]


def _below(path: str, key: str) -> str:
    return f"{path[:200]}|{shown(key)}" if path else shown(key)
