"""YAML, read strictly: plain mappings, lists and scalars, every duplicate key told, nothing clever.

Scalars follow YAML 1.2's core schema. PyYAML's 1.1 rules would read ``on`` as true, and the PCI address
``0000:18:00.0`` as a number in base 60. Aliases and tags are refused, and size, depth and count are bounded before
anything is built: a hostile file costs its own length, and no more.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from conf.errors import ConfigError, Finding
from conf.paths import Path, show

__all__ = ["MAX_BYTES", "read"]

MAX_BYTES = 4 << 20
"""The largest file that is read. A fabric of thousands of nodes is some tens of KiB."""
MAX_DEPTH = 32
MAX_VALUES = 500_000

# libyaml's parser where PyYAML was built with it: the one in Python needs a minute for the largest file.
_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]{1,20}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}|0o[0-7]{1,21}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,40}|[0-9]{1,40}(\.[0-9]{0,40})?)([eE][-+]?[0-9]{1,3})?")


def read(text: str, source: str) -> tuple[object, tuple[Finding, ...]]:
    """The one document in ``text``, and a finding for each key that is written twice (the last one counts).

    ConfigError where there is no reading at all: bad syntax (with line and column), aliases, tags, several documents,
    or a file beyond the bounds.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError(source, [Finding("", f"the file is larger than {MAX_BYTES >> 20} MiB")])
    try:
        loader = _Loader(text)
        try:
            reader = _Reader(loader)
            return reader.document(), tuple(reader.duplicates)
        finally:
            loader.dispose()
    except _RefusedError as refused:
        raise ConfigError(source, [_at(source, refused.mark, refused.message)]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(source, [_at(source, mark, message)]) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise ConfigError(source, [Finding("", " ".join(str(error).split()))]) from None


class _RefusedError(Exception):
    def __init__(self, mark: Any, message: str) -> None:
        self.mark, self.message = mark, message
        super().__init__(message)


def _at(source: str, mark: Any, message: str) -> Finding:
    place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    return Finding(place, message)


class _Reader:
    """Builds values from parser events, so that every bound holds before there is anything to hold."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._values = 0
        self.duplicates: list[Finding] = []

    def document(self) -> object:
        """The only document; None for an empty file."""
        event = self._next()
        while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            return None
        value = self._value(event, ())
        self._next()  # the document's end
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise _RefusedError(event.start_mark, "a second document begins here; fabric.yaml is one document")
        return value

    def _next(self) -> Any:
        return self._loader.get_event()

    def _value(self, event: Any, path: Path) -> object:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _RefusedError(event.start_mark, f"more than {MAX_VALUES} values")
        if len(path) > MAX_DEPTH:
            raise _RefusedError(event.start_mark, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            raise _RefusedError(event.start_mark, f"alias *{event.anchor}: write the value out, aliases are not read")
        if event.tag is not None and event.tag != "!":
            raise _RefusedError(event.start_mark, f"tag {event.tag}: tags are not read")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        return _scalar(event.value) if event.implicit[0] else str(event.value)

    def _sequence(self, path: Path) -> list[object]:
        items: list[object] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, object]:
        mapping: dict[str, object] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _RefusedError(event.start_mark, "a key is a plain word here; quote it if it has brackets or a *")
            key, line = str(event.value), _line(event)
            if key in mapping:
                message = f"written twice, in lines {lines[key]} and {line}; keep one"
                self.duplicates.append(Finding(show((*path, key)), message))
            mapping[key], lines[key] = self._value(self._next(), (*path, key)), line
        return mapping


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _scalar(text: str) -> object:
    """A plain scalar by the core schema of YAML 1.2. What is too long for a number stays text."""
    if _INT.fullmatch(text):
        return int(text)
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _HEX.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text
