"""The door to recorded logs: files and standard input, of any size, hostile ones included."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from conf.errors import ConfigError, Finding
from nccltest.model import Run
from nccltest.parse import parse_lines, parse_text
from nccltest.parse.jsonlog import CSV_HEAD
from nccltest.parse.text import LONGEST_LINE

__all__ = ["MAX_BYTES", "MAX_DOCUMENT", "read_runs"]

MAX_BYTES = 4 << 30
"""Of a text log; it is read line by line."""
MAX_DOCUMENT = 64 << 20
"""Of a JSON or CSV file, which is held in memory."""
_STDIN = Path("-")
_BLANK = b"\xef\xbb\xbf \t\r\n"


def read_runs(path: Path) -> tuple[Run, ...]:
    """The runs in a log, at least one; ``-`` is standard input. ConfigError where it cannot be read or is too large."""
    name = "stdin" if path == _STDIN else str(path)
    try:
        if path == _STDIN:
            return _runs(sys.stdin.buffer, name)
        with path.open("rb") as file:
            return _runs(file, name)
    except OSError as error:
        raise ConfigError(name, [Finding("", f"cannot be read: {error.strerror or error}")]) from None


def _runs(file: BinaryIO, name: str) -> tuple[Run, ...]:
    first = file.readline(LONGEST_LINE)
    while first and not first.strip(_BLANK):
        first = file.readline(LONGEST_LINE)
    start = first.lstrip(_BLANK)
    if start[:1] in (b"{", b"[") or start.startswith(CSV_HEAD.encode()):
        text = (first + file.read(MAX_DOCUMENT)).decode(errors="replace")
        return parse_text(text, name)  # one that is larger is cut there: incomplete, as it were in fact
    return parse_lines(_lines(first, file, name), name)


def _lines(first: bytes, file: BinaryIO, name: str) -> Iterator[str]:
    """Lines as text; the rest of one that is longer than LONGEST_LINE is left out."""
    line, seen, inside = first, 0, False
    while line:
        seen += len(line)
        if seen > MAX_BYTES:
            raise ConfigError(name, [Finding("", f"is larger than {MAX_BYTES >> 30} GiB")])
        if not inside:
            yield line.decode(errors="replace")
        inside = not line.endswith(b"\n")
        line = file.readline(LONGEST_LINE)
