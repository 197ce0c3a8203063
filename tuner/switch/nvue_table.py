"""The table that ``nv show qos roce`` prints without ``-o json``, as the same tree. Pure."""

from __future__ import annotations

import re
from typing import Any

from tuner.switch.text import Reading, UnreadableError, shown

__all__ = ["parse_table"]

_HEADER = re.compile(r"^( +)operational( +)applied", re.MULTILINE)
_SECTIONS = {"RoCE PCP/DSCP->SP mapping": "prio-map", "RoCE SP->TC mapping": "tc-map", "RoCE pool config": "pool-map"}
_RULE = re.compile(r"\s*[-=][-= ]*")
_MOST_LINES = 10_000


def parse_table(text: str, reading: Reading) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configured (the applied column, or what is operational where that is empty), and operational.

    UnreadableError for text that is not this table.
    """
    header = _HEADER.search(text)
    if header is None:
        raise UnreadableError("is neither JSON nor the table of nv show qos roce")
    first = len(header[1])
    second = first + len("operational") + len(header[2])
    lines = text[header.end() :].splitlines()[:_MOST_LINES]
    applied: dict[str, Any] = {}
    running: dict[str, Any] = {}
    section, block = "", ""
    for line in lines:
        title = next((name for start, name in _SECTIONS.items() if line.startswith(start)), None)
        if title is not None or line.startswith("Exception List"):
            section = title or "exceptions"
            columns: list[str] = []
        elif _RULE.fullmatch(line) or not line.strip():
            continue
        elif section:
            columns = _section_row(line, section, columns, applied, running)
        else:
            block = _field(line, first, second, block, applied, running, reading)
    return applied, running


def _field(
    line: str, first: int, second: int, block: str, applied: dict[str, Any], running: dict[str, Any], reading: Reading
) -> str:
    """``  pfc-priority      3   3``: a name and up to two values; a name alone opens a block."""
    name = line[:first].strip()
    values = line[first:second].strip(), line[second:].strip().split("  ")[0]
    if not name:
        reading.say("bad-value", "nv show qos roce", f"{shown(line)} is not a line of the table")
        return block
    if not any(values):
        return name
    block = block if line.startswith(" ") else ""
    for tree, value in ((running, values[0]), (applied, values[1] or values[0])):
        if value:
            (tree.setdefault(block, {}) if block else tree)[name] = value
    return block


def _section_row(
    line: str, section: str, columns: list[str], applied: dict[str, Any], running: dict[str, Any]
) -> list[str]:
    """The first line of a section names its columns; a row begins with its key."""
    words = line.split()
    if not columns:
        return words
    if len(words) == len(columns) + 1:
        row = dict(zip(columns, words[1:], strict=True))
        for tree in (applied, running):
            tree.setdefault(section, {})[words[0]] = row
    return columns
