"""A run while its log is read, and what is concluded at its end: status, collective, number of ranks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from nccltest import busbw
from nccltest.model import Device, Row, Run, Status
from nccltest.parse.table import Header, number
from nccltest.redact import kept_environment, printable, redact

__all__ = ["Draft", "collective_of", "ranks_from", "status_of"]

_MOST_ERRORS, _LONGEST_ERROR = 16, 400
_MOST_VARIABLES = 256


class Draft:
    """What is known of one run so far."""

    def __init__(self) -> None:
        self.stage = 0
        """How far the run has come: 0 nothing of it yet, 5 devices, 6 header, 7 rows, 8 and more the footer."""
        self.version = ""
        self.collective = ""
        self.nccl = ""
        self.header: Header | None = None
        self.devices: list[Device] = []
        self.rows: list[Row] = []
        self.wrong: int | None = None
        """The footer's wrong elements; None before it."""
        self.average_text: str | None = None
        self.cut = False
        """A row ended too early."""
        self.errors: list[str] = []
        """These make the run a failed one."""
        self.complaints: list[str] = []
        """Those of them that do so only where the table never ended."""
        self.notes: list[str] = []
        """These are told with whatever status it has."""
        self.warnings: list[str] = []
        """NCCL's own: told where the run failed."""
        self.variables: set[str] = set()

    @property
    def ranks(self) -> int:
        """Ranks in one communicator, from the list of devices; 0 before it."""
        groups = Counter(device.group for device in self.devices)
        return max(groups.values(), default=0)

    def hint(self, collective: str) -> None:
        """A command line named a collective: worth less than the run's own word."""
        if self.stage < 7 and not self.collective and collective in busbw.COLLECTIVES:
            self.collective = collective

    def variable(self, text: str) -> None:
        """An environment variable, as ``NAME=value``."""
        if len(self.variables) < _MOST_VARIABLES:
            self.variables.add(text)

    def footer(self, average: str) -> None:
        """The last line of the table."""
        self.average_text = average

    def error(self, text: str) -> None:
        """A failure of the test itself."""
        _add(self.errors, text)

    def frame(self, text: str) -> None:
        """A line of a failure's stack: counts where the failure itself was not printed."""
        if not self.errors:
            _add(self.errors, text)

    def launcher(self, text: str) -> None:
        """A launcher's or a rank's complaint: no failure where the whole table came all the same, for which every rank
        is needed. Before it, it was a library's warning; after it, it only repeats the exit code."""
        if self.average_text is None:
            _add(self.errors, text)
            _add(self.complaints, text)
        else:
            _add(self.notes, text)

    def note(self, text: str) -> None:
        """NCCL's last error, which follows a whole table as well."""
        _add(self.notes, text)

    def warning(self, text: str) -> None:
        """NCCL WARN."""
        _add(self.warnings, text)

    def run(self, source: str) -> Run:
        """The run, as far as the log told of it."""
        rows = tuple(self.rows)
        ranks = self.ranks or ranks_from(rows)
        hosts = tuple(dict.fromkeys(device.host for device in sorted(self.devices, key=lambda each: each.rank)))
        excused = self.complaints if self.average_text is not None and rows and not self.cut else []
        errors = [each for each in self.errors if each not in excused]
        status = status_of(
            rows, ranks, wrong=self.wrong, errors=errors, complete=bool(rows) and self.complete and not self.cut
        )
        told = [*self.errors, *(self.warnings if status in ("failed", "incomplete") else []), *self.notes]
        if not told and not rows and status == "incomplete":
            told = [_NOTHING if not self.stage else _NO_ROWS]
        return Run(
            source=source,
            collective=self.collective or collective_of(rows, ranks, self.header),
            version=self.version or self._format(),
            ranks=ranks,
            nodes=len(hosts),
            status=status,
            errors=tuple(told[:_MOST_ERRORS]),
            rows=rows,
            hosts=hosts,
            devices=tuple(self.devices),
            nccl=self.nccl,
            average=number(self.average_text or ""),
            env=kept_environment(self.variables),
        )

    @property
    def complete(self) -> bool:
        """Whether the footer came."""
        return self.average_text is not None or self.wrong is not None

    def _format(self) -> str:
        if self.header is None:
            return ""
        return "1" if self.header.milliseconds else "2.0-2.11" if self.header.old else "2.13+"


_NOTHING, _NO_ROWS = "no output of nccl-tests in it", "no row of the table was printed"


def _add(texts: list[str], text: str) -> None:
    if len(texts) < _MOST_ERRORS and (told := printable(redact(text[:_LONGEST_ERROR]))) not in texts:
        texts.append(told)


def status_of(rows: Sequence[Row], ranks: int, *, wrong: int | None, errors: Sequence[str], complete: bool) -> Status:
    """What became of a run. Corruption first: a run that then failed was still corrupt."""
    halves = [half for row in rows for half in (row.out_of_place, row.in_place) if half is not None]
    if wrong or any(half.wrong for half in halves):
        return "wrong-data"
    if errors:
        return "failed"
    if rows and (ranks == 1 or _no_traffic(rows)):
        return "not-collective"
    return "ok" if complete else "incomplete"


def _no_traffic(rows: Sequence[Row]) -> bool:
    """Whether every communicator had one rank: data was copied, and nothing sent."""
    fast = [row.out_of_place for row in rows if (row.out_of_place.algbw or 0) >= 1]
    return bool(fast) and all(half.busbw == 0 for half in fast)


def _share(rows: Sequence[Row]) -> float:
    """busbw over algbw, from the rows whose rounding matters least; 0 where there are none."""
    pairs = [(row.out_of_place.algbw or 0.0, row.out_of_place.busbw or 0.0) for row in rows]
    best = sorted((pair for pair in pairs if pair[0] > 0), reverse=True)[:5]
    return median(bus / algorithm for algorithm, bus in best) if best and best[0][0] >= 1 else 0.0


_ONE = 5e-3
"""How far from 1 a rounded factor of 1 may be."""


def ranks_from(rows: Sequence[Row]) -> int:
    """The ranks that the ratio of the two bandwidths tells of; 0 where it does not."""
    share = _share(rows)
    if share > 1 + _ONE:
        return busbw.ranks_of(share / 2)  # only all_reduce has a factor above 1
    return busbw.ranks_of(share) if share < 1 - _ONE else 0


def collective_of(rows: Sequence[Row], ranks: int, header: Header | None) -> str:
    """The collective that columns and ratio allow; empty where they allow more than one."""
    share = _share(rows)
    if not rows or not share:
        return ""
    if header is not None and header.old:
        return _old_collective(header, rows, share)
    if any(row.root >= 0 for row in rows):
        return _rooted(rows[0].redop, share)
    if share > 1 + _ONE:
        return "all_reduce"
    checked = any(row.in_place is not None and row.in_place.wrong is not None for row in rows)
    if abs(share - 1) <= _ONE:
        # With two ranks all_reduce has the factor of sendrecv, which checks nothing in place.
        return "all_reduce" if ranks == 2 and checked else "sendrecv" if ranks > 2 else ""
    return "reduce_scatter" if rows[0].redop != "none" else "all_gather" if checked else ""


def _rooted(redop: str, share: float) -> str:
    if redop != "none":
        return "reduce"
    return "broadcast" if abs(share - 1) <= _ONE else ""


def _old_collective(header: Header, rows: Sequence[Row], share: float) -> str:
    if header.root:
        return _rooted(rows[0].redop, share)
    if not header.redop:
        return "all_gather" if share < 1 - _ONE else "sendrecv"
    if rows[0].redop == "none":
        return "alltoall"
    return "all_reduce" if share >= 1 - _ONE else "reduce_scatter"
