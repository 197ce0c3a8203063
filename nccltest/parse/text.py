"""A log as lines: one pass, constant work for each line. Pure.

A run begins at any of the lines that come before a table, when its predecessor has come further than that line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from nccltest.model import Device, Run
from nccltest.parse import grammar
from nccltest.parse.draft import Draft
from nccltest.parse.grammar import TYPES, strip_prefix
from nccltest.parse.table import GUESSED, Partial, header_of, row_of, start_of_row, values_of
from nccltest.redact import printable

__all__ = ["LONGEST_LINE", "MOST_ROWS", "MOST_RUNS", "parse_lines"]

LONGEST_LINE = 4096
"""Characters; a row has 300 at most. The rest of a longer line is not read."""
MOST_RUNS, MOST_ROWS = 10_000, 100_000
"""In one file, and in one run: more is no log of nccl-tests."""
_PATIENCE = 10_000
"""Lines of other ranks that may come between the first and the last number of one row."""

_BLANKS = re.compile(r"\s{24,}")
_INFO = " NCCL INFO "
_SPOKEN = re.compile(
    r"[nN]ccl-tests version|Collective test|nThread|Using devices|Rank |busbw|Out of bounds|Avg bus|version|_perf"
    r"|run_nccl|(?:NCCL|RCCL|UCX)_|# error: |[fF]ail|rror|WARN|timed out|imeout|No route|slots|[Tt]raceback|invalid"
    r"|unable|exited|denied|resolve|not found|MPI_ABORT|CANCELLED|DUE TO|noticed|terminated|fault|memory|libraries"
    r"|does not|lost|refused|reset|[Kk]illed|_allreduce:|Deadline|probe:|closed by|unrecognized"
)
"""A line without any of these is a row, a part of a row, or nothing."""


def parse_lines(lines: Iterable[str], source: str) -> tuple[Run, ...]:
    """The runs of a log, at least one. Lines may end with a newline; what is longer than LONGEST_LINE is cut there."""
    reader = _Reader(source)
    for line in lines:
        reader.feed(line[:LONGEST_LINE])
        if len(reader.done) >= MOST_RUNS:
            break
    return reader.finish()


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.done: list[Run] = []
        self.draft = Draft()
        self.waiting: Partial | None = None
        self.waited = 0
        self.blank = False

    def finish(self) -> tuple[Run, ...]:
        self._close()
        return tuple(run if len(self.done) == 1 else _numbered(run, number) for number, run in enumerate(self.done, 1))

    def feed(self, line: str) -> None:
        info = line.find(_INFO)
        if info >= 0:
            self._library(line)
            head = line[:info]
            # Most lines of a debug log end here; a row in front of the text is rare.
            if not any(word in TYPES for word in head.split()[:12]) and self.waiting is None:
                return
            line = head
        text = strip_prefix(line)
        if not text:
            return
        if _SPOKEN.search(text) is not None and self._statement(text):
            return
        self._numbers(text, line)

    def _library(self, line: str) -> None:
        if not self.draft.nccl and "version" in line and (found := grammar.LIBRARY.search(line)):
            self.draft.nccl = found[1]

    def _statement(self, text: str) -> bool:
        """Whether the line was one of nccl-tests' own, or a failure's."""
        for pattern, take in _STATEMENTS:
            if found := pattern.search(text):
                take(self, found)
                return True
        header = header_of(text) if "busbw" in text.lower() else None
        if header is not None:
            self._reach(6, again=True)
            self.draft.header = header
            return True
        self._hints(text)
        return False

    def _hints(self, text: str) -> None:
        """What a command line or an NCCL message tells of the run that is under way, or of the next."""
        if found := grammar.LIBRARY.search(text):
            self.draft.nccl = self.draft.nccl or found[1]
        if found := grammar.COLLECTIVE.search(text) or grammar.OPTION.search(text):
            self.draft.hint(found[1])
        for variable in grammar.ENVIRONMENT.findall(text):
            self.draft.variable(variable)
        if found := grammar.NCCL_ERROR.search(text):
            self.draft.warning(text)

    def _reach(self, stage: int, *, again: bool = False) -> None:
        """Go to a stage of the run; one that lies behind begins the next run."""
        self._give_up()
        behind = stage < self.draft.stage and not (again and self.draft.stage <= 7)
        if behind or (stage == self.draft.stage and not again):
            self._close()
        self.draft.stage = max(stage, self.draft.stage)

    def _close(self) -> None:
        self._give_up()
        if self.draft.stage or self.draft.errors or not self.done:
            last = self.draft.stage == 0 and bool(self.done)
            if not last:
                self.done.append(self.draft.run(self.source))
        self.draft = Draft()

    def _give_up(self) -> None:
        """A row whose end never came: its first half is kept where that is whole."""
        cut, self.waiting = self.waiting, None
        if cut is not None:
            self._row(cut)
            self.draft.cut = True

    def _numbers(self, text: str, line: str) -> None:
        words = text.split(None, 48)
        header = self.draft.header or GUESSED
        begun = start_of_row(words, header)
        if begun is not None:
            self._give_up()
            self.blank = _BLANKS.search(line.rstrip()) is not None and len(begun.values) < header.width
            self._take(begun)
        elif self.waiting is not None:
            self._continue(words)

    def _continue(self, words: list[str]) -> None:
        assert self.waiting is not None  # noqa: S101  # the caller looked
        header = self.draft.header or GUESSED
        self.waited += 1
        more = values_of(words, header.columns[len(self.waiting.values) :])
        if more:
            self._take(self.waiting._replace(values=self.waiting.values + more))
        elif self.waited > _PATIENCE:
            self._give_up()

    def _take(self, partial: Partial) -> None:
        header = self.draft.header or GUESSED
        self.waiting, self.waited = None, 0 if self.waiting is None else self.waited
        if len(partial.values) < header.width and not (self.blank and partial.values):
            self.waiting = partial
        else:
            self._row(partial)

    def _row(self, partial: Partial) -> None:
        header = self.draft.header or GUESSED
        row = row_of(partial, header, self.draft.ranks, left_blank=self.blank)
        if row is None:
            return
        if self.draft.stage > 7:
            self._close()
        self.draft.stage = 7
        if len(self.draft.rows) < MOST_ROWS:
            self.draft.rows.append(row)

    # What each statement does; ``found.string`` is the whole line.

    def version(self, found: re.Match[str]) -> None:
        self._reach(1)
        self.draft.version = found[1]

    def starting(self, found: re.Match[str]) -> None:
        self._reach(2)
        self.draft.collective = found[1]

    def parameters(self, _found: re.Match[str]) -> None:
        self._reach(3)

    def devices(self, _found: re.Match[str]) -> None:
        self._reach(4)

    def device(self, found: re.Match[str]) -> None:
        self._reach(5, again=self.draft.stage <= 5)
        rank, group, pid, host, number, bus, name = found.groups(default="0")
        device = Device(
            int(rank), int(group), int(pid), printable(host), int(number), printable(bus), printable(name.strip())
        )
        if len(self.draft.devices) < MOST_ROWS:
            self.draft.devices.append(device)

    def bounds(self, found: re.Match[str]) -> None:
        self._reach(8)
        self.draft.wrong = int(found[1])

    def average(self, found: re.Match[str]) -> None:
        self._reach(9)
        self.draft.footer(found[1])

    def concluded(self, _found: re.Match[str]) -> None:
        self._reach(10)

    def error(self, found: re.Match[str]) -> None:
        self.draft.error(found.string)

    def stack(self, found: re.Match[str]) -> None:
        self.draft.frame(found.string)

    def launcher(self, found: re.Match[str]) -> None:
        self.draft.launcher(found.string)

    def last_error(self, found: re.Match[str]) -> None:
        self.draft.note(found.string)


_Take = Callable[[_Reader, "re.Match[str]"], None]
_STATEMENTS: tuple[tuple[re.Pattern[str], _Take], ...] = (
    (grammar.VERSION, _Reader.version),
    (grammar.STARTING, _Reader.starting),
    (grammar.CONCLUDED, _Reader.concluded),
    (grammar.PARAMETERS, _Reader.parameters),
    (grammar.DEVICES, _Reader.devices),
    (grammar.DEVICE, _Reader.device),
    (grammar.BOUNDS, _Reader.bounds),
    (grammar.AVERAGE, _Reader.average),
    (grammar.STACK, _Reader.stack),
    (grammar.TEST_ERROR, _Reader.error),
    (grammar.LAST_ERROR, _Reader.last_error),
    (grammar.LAUNCHER_ERROR, _Reader.launcher),
    (grammar.RANK_ERROR, _Reader.launcher),
)


def _numbered(run: Run, number: int) -> Run:
    return replace(run, source=f"{run.source}#{number}")
