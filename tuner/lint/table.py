"""The report for people: a table of causes, the fixes, and what was not evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuner.lint.report import Finding, Gap, Report
from tuner.lint.rule import Severity

__all__ = ["show", "spans", "summary"]

_STYLES = {Severity.CRITICAL: "bold red", Severity.HIGH: "red", Severity.MEDIUM: "yellow", Severity.INFO: "cyan"}
_PLACES = 3


def show(report: Report, console: Console, *, every_place: bool = False) -> None:
    """Print it. ``every_place`` prints all places of a cause, not only the first three and their number."""
    if report.findings:
        console.print(_findings(report.findings, every_place))
        console.print()
        for finding in report.findings:
            console.print(_line(f"{finding.rule}  {_places(finding, 1)[0]}", "bold"), soft_wrap=True)
            console.print(Text(_clean(f"  {finding.fix}")), soft_wrap=True)  # one line: it will be copied
        console.print()
    for accepted in report.suppressed:
        text = f"accepted until {accepted.expires}: {accepted.finding.rule} at {len(accepted.finding.where)} places"
        console.print(_line(f"{text} ({accepted.reason})"), soft_wrap=True)
    for line in gap_lines(report.gaps):
        console.print(_line(line), soft_wrap=True)
    console.print(_line(summary(report), "bold"), soft_wrap=True)


def _findings(findings: Sequence[Finding], every_place: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("severity", no_wrap=True)
    table.add_column("rule", no_wrap=True)
    table.add_column("cause", ratio=3)
    table.add_column("where", ratio=2)
    for finding in findings:
        cause = Text(_clean(finding.title), "bold").append("\n" + _clean(finding.evidence), "not bold")
        where = "\n".join(_places(finding, len(finding.where) if every_place else _PLACES))
        table.add_row(Text(str(finding.severity), _STYLES[finding.severity]), finding.rule, cause, Text(where))
    return table


def _places(finding: Finding, most: int) -> list[str]:
    shown = [_clean(each) for each in finding.where[:most]]
    more = len(finding.where) - len(shown)
    return [*shown[:-1], f"{shown[-1]} and {more} more"] if more else shown


def gap_lines(gaps: Sequence[Gap]) -> Iterable[str]:
    """One line for each thing that was missing, with the rules that wanted it."""
    wholly: dict[str, list[str]] = {}
    partly: dict[str, list[str]] = {}
    for gap in gaps:
        (partly if gap.evaluated else wholly).setdefault(gap.missing, []).append(gap.rule)
    for missing, rules in wholly.items():
        yield f"not evaluated: {spans(rules)}: {missing}"
    for missing, rules in partly.items():
        places = max(gap.places for gap in gaps if gap.missing == missing and gap.evaluated)
        yield f"not evaluated at up to {_count(places, 'place')}: {spans(rules)}: {missing}"


def spans(rules: Iterable[str]) -> str:
    """``H01-H03, S05``: ids with their neighbours folded."""
    folded: list[list[str]] = []
    for rule in dict.fromkeys(rules):
        if folded and _follows(folded[-1][-1], rule):
            folded[-1].append(rule)
        else:
            folded.append([rule])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(run) for run in folded)


def _follows(one: str, other: str) -> bool:
    numbered = one[1:].isdigit() and other[1:].isdigit() and one[0] == other[0]
    return numbered and int(other[1:]) == int(one[1:]) + 1


def summary(report: Report) -> str:
    """One line: how many causes and places, by severity, and how many rules were not evaluated."""
    if report.findings:
        counts = {severity: sum(each.severity == severity for each in report.findings) for severity in Severity}
        by_severity = ", ".join(f"{counts[each]} {each}" for each in reversed(Severity) if counts[each])
        places = sum(len(finding.where) for finding in report.findings)
        text = f"{_count(len(report.findings), 'cause')} at {_count(places, 'place')}: {by_severity}"
    else:
        text = "nothing found"
    missed = {gap.rule for gap in report.gaps}
    wholly = {gap.rule for gap in report.gaps if not gap.evaluated}
    if missed:
        text += f"; {len(wholly)} rules not evaluated, {len(missed - wholly)} only in part"
    return text + (f"; {len(report.suppressed)} accepted" if report.suppressed else "")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _line(text: str, style: str = "") -> Text:
    return Text(_clean(text), style)


def _clean(text: str) -> str:
    """Without control characters: names come from switches, and a terminal obeys what they say."""
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)
