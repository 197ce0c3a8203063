"""nccl-tests' output of every version, as values: text, ``-J`` JSON, and rccl-tests' own. Pure.

By the names in the table's header, never by counting tokens: versions, forks and options add columns.
"""

from __future__ import annotations

from nccltest.model import Run
from nccltest.parse.jsonlog import CSV_HEAD, parse_csv, parse_json
from nccltest.parse.text import parse_lines

__all__ = ["parse_json", "parse_lines", "parse_text"]


def parse_text(text: str, source: str) -> tuple[Run, ...]:
    """The runs in a log, text or JSON: at least one, with status ``incomplete`` where there is nothing of nccl-tests.

    Nothing in ``text`` makes it raise; the time it takes grows with the length of the text.
    """
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start in ("{", "["):
        runs = parse_json(text, source)
        if runs:
            return runs
    if start == "n" and text.lstrip("\ufeff \t\r\n").startswith(CSV_HEAD):
        return parse_csv(text.splitlines(), source) or parse_lines((), source)
    return parse_lines(text.split("\n"), source)
