"""Tables for a terminal or a pipe."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from conf.units import format_bytes
from nccltest.causes import Cause
from nccltest.conclude import Conclusion
from nccltest.judgement import Judgement, bad
from nccltest.locate.pathstory import AS_BUILT
from nccltest.locate.verdict import Suspect, Verdict

__all__ = ["conclusion_table", "headline", "name_of", "place_of", "show", "verdict_table", "when"]

_MOST_ROWS = 40
_MOST_FOLLOWED = 4
_NAMES = {"nic": "NIC", "uplink": "uplink of", "global": "everything"}


def show(*parts: RenderableType) -> None:
    """Print to stdout: as wide as the terminal, 120 columns in a pipe."""
    Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(*parts)


def when(seconds: float) -> str:
    """``2026-01-31 04:00 UTC``; ``time unknown`` for 0."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC") if seconds else "time unknown"


def verdict_table(verdict: Verdict, causes: Sequence[Cause] = ()) -> RenderableType:
    """The verdict in a sentence, its suspects in a table, what may be behind them, and what else is worth knowing."""
    parts: list[RenderableType] = [Text(headline(verdict))]
    if verdict.suspects:
        parts.append(_suspects(verdict.suspects))
    if causes:
        parts.append(_causes(causes))
    if more := _next_test(verdict):
        parts.append(Text(more))
    if verdict.unexplained:
        parts.append(Text(_strange(verdict)))
    parts += [Text(f"note: {note}") for note in verdict.notes]
    return Group(*parts)


def conclusion_table(conclusion: Conclusion) -> RenderableType:
    """What regressed or broke, then where it is. In health two lines."""
    parts: list[RenderableType] = [Text(_summary(conclusion))]
    told = [*bad(conclusion.judgements), *(each for each in conclusion.judgements if each.status == "improved")]
    if told:
        parts.append(_judgements(told[:_MOST_ROWS]))
    if len(told) > _MOST_ROWS:
        parts.append(Text(f"… and {len(told) - _MOST_ROWS} more (--json tells all)"))
    return Group(*parts, verdict_table(conclusion.verdict, conclusion.causes))


def _summary(conclusion: Conclusion) -> str:
    counted: dict[str, int] = {}
    for each in conclusion.judgements:
        counted[each.status] = counted.get(each.status, 0) + 1
    groups = ", ".join(f"{count} {status}" for status, count in sorted(counted.items(), key=lambda one: -one[1]))
    suspected = sum(each.suspected for each in conclusion.judgements)
    more = f"; {suspected} to be run again before it is believed" if suspected else ""
    return f"run {conclusion.schedule}: {groups or 'nothing measured'}{more}"


def _judgements(judgements: list[Judgement]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("status", "group", "rail", "size"):
        table.add_column(column, overflow="fold")
    for column in ("GB/s", "usual", "change", "alarm at", "z"):
        table.add_column(column, justify="right")
    table.add_column("why", overflow="fold")
    for each in judgements:
        status = f"{each.status}{', confirmed' if each.confirmed else ''}"
        group = f"{each.series.group} {each.members}" if each.series.group == "pair" else each.series.group
        cells = (status, group, each.series.rail or "all", format_bytes(each.series.size), _number(each.busbw, ".4g"))
        numbers = (
            _number(each.baseline, ".4g"),
            _number(each.change_pct, "+.1f", "%"),
            _number(None if each.limit_pct is None else -each.limit_pct, ".1f", "%"),
            _number(each.z, ".1f"),
        )
        table.add_row(*(Text(cell) for cell in (*cells, *numbers, each.reason)))
    return table


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "" if value is None else f"{value:{form}}{unit}"


def headline(verdict: Verdict) -> str:
    """One sentence."""
    base = f"{verdict.tested} group{'' if verdict.tested == 1 else 's'} compared, noise {verdict.noise:.1%}"
    if not verdict.tested:
        return "no verdict: nothing could be compared"
    if verdict.verdict == "healthy":
        return f"healthy: {base}"
    faults = {each.fault for each in verdict.suspects}
    sure = sum(each.sure for each in verdict.suspects)
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    doubted = len({each.fault for each in verdict.suspects if each.id == AS_BUILT})
    several = len(faults) - sure - doubted
    placed = f", {several} with more than one possible place" if several else ""
    which = " or none" if doubted == len(faults) else f", {doubted} of them perhaps none"
    perhaps = f"{which} (the fabric may be built so)" if doubted else ""
    return f"{verdict.verdict}: {count}{placed}{perhaps}; {base}"


def name_of(suspect: Suspect) -> str:
    """``NIC gpu-1/rail0``, ``uplink of leaf-2``, ``everything``; ``nothing: built so`` where health explains it too."""
    if (suspect.kind, suspect.id) == ("global", AS_BUILT):
        return "nothing: built so"
    kind = _NAMES.get(suspect.kind, suspect.kind)
    return kind if suspect.kind == "global" else f"{kind} {suspect.id}"


def _suspects(suspects: tuple[Suspect, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("fault", justify="right")
    table.add_column("suspect", overflow="fold")
    table.add_column("confidence", justify="right")
    table.add_column("left", justify="right")
    table.add_column("evidence", overflow="fold")
    for each in suspects:
        left = "none" if each.ratio == 0 else f"{each.ratio:.0%}"
        cells = (str(each.fault), name_of(each), _percent(each.confidence), left, each.evidence)
        table.add_row(*(Text(cell) for cell in cells))  # names are other people's input: no markup
    return table


def _causes(causes: Sequence[Cause]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("fault", justify="right")
    for column in ("probable cause", "seen", "look at", "next"):
        table.add_column(column, overflow="fold")
    for each in causes:
        cells = (place_of(each), each.cause or "not known", each.evidence, ", ".join(each.look), each.next)
        table.add_row(*(Text(cell) for cell in cells))
    return table


def place_of(cause: Cause) -> str:
    """The number of the fault; for what a log says, where it says so."""
    return str(cause.fault) if cause.fault else cause.id


def _next_test(verdict: Verdict) -> str:
    """The command that tells the suspects of a fault apart; empty where each is blamed alone, or no test would tell."""
    unsure = [each for each in verdict.suspects if not each.sure and each.kind in ("node", "nic")]
    chosen = " ".join(f"--suspect {shlex.quote(f'{each.kind}:{each.id}')}" for each in unsure[:_MOST_FOLLOWED])
    told = "next: it takes one more test, no spare part: roceway-probe run -f fabric.yaml"
    return f"{told} {chosen}" if chosen else ""


def _percent(confidence: float) -> str:
    return ">99%" if confidence > 0.99 else f"{confidence:.0%}"


def _strange(verdict: Verdict) -> str:
    shown = [
        " – ".join(f"{m.node}/{m.rail}" if m.rail else m.node for m in each.members[:4])
        for each in verdict.unexplained[:5]
    ]
    count = len(verdict.unexplained)
    more = f", and {count - 5} more" if count > 5 else ""
    return f"slow without a pattern: {'; '.join(shown)}{more} (test {'it' if count == 1 else 'them'} again)"
