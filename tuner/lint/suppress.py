"""Accepted findings: taken out of the report while the acceptance lasts, never without a trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from fnmatch import translate
from re import compile

from conf.lint import Suppression
from tuner.lint.report import Finding, Report, Suppressed, ordered
from tuner.lint.rule import Severity

__all__ = ["suppress"]

_TITLE = "a suppression in fabric.yaml is of no use"


def suppress(report: Report, suppressions: Sequence[Suppression], today: date) -> Report:
    """The report without what is accepted today.

    A finding whose places are only partly accepted keeps the others. An expired suppression hides nothing and is
    itself a finding (SUPPRESSION, info), as is one that matches nothing: both are lines to delete.
    """
    findings: tuple[Finding, ...] = report.findings
    accepted: list[Suppressed] = []
    notes: list[Finding] = []
    for number, suppression in enumerate(suppressions):
        if suppression.expires < today:
            notes.append(_note(number, suppression, f"expired on {suppression.expires}: {suppression.reason}"))
            continue
        kept, taken = _split(findings, suppression)
        findings = tuple(kept)
        accepted += (Suppressed(each, suppression.reason, str(suppression.expires)) for each in taken)
        if not taken:
            notes.append(_note(number, suppression, "matches no finding"))
    return report._replace(findings=ordered([*findings, *notes]), suppressed=tuple(accepted))


def _split(findings: Iterable[Finding], suppression: Suppression) -> tuple[list[Finding], list[Finding]]:
    kept: list[Finding] = []
    taken: list[Finding] = []
    matches = compile(translate(suppression.where or "*")).match
    for finding in findings:
        if finding.rule != suppression.rule:
            kept.append(finding)
            continue
        inside = tuple(where for where in finding.where if matches(where))
        outside = tuple(where for where in finding.where if not matches(where))
        if inside:
            taken.append(finding._replace(where=inside))
        if outside:
            kept.append(finding._replace(where=outside))
    return kept, taken


def _note(number: int, suppression: Suppression, what: str) -> Finding:
    item = f"lint.suppressions[{number}]"
    evidence = f"the suppression of {suppression.rule} {what}"
    return Finding(
        "SUPPRESSION", Severity.INFO, _TITLE, (f"fabric.yaml {item}",), evidence, f"delete {item}, or renew it"
    )
