"""The report for machines: ``lint --json`` and SARIF 2.1.0 (OASIS)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tuner.lint.report import Finding, Report
from tuner.lint.rule import Rule, Severity

__all__ = ["as_json", "as_sarif"]

_LEVELS = {Severity.CRITICAL: "error", Severity.HIGH: "error", Severity.MEDIUM: "warning", Severity.INFO: "note"}
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_json(report: Report) -> dict[str, Any]:
    """``{"findings": [{"rule", "severity", "where", "evidence", "fix"}]}``, and beside it what was not evaluated
    (``{"rule", "missing", "places", "evaluated"}``) and what is accepted (a finding with ``reason`` and ``expires``).
    """
    return {
        "findings": [_finding(each) for each in report.findings],
        "not_evaluated": [gap._asdict() for gap in report.gaps],
        "suppressed": [
            {**_finding(each.finding), "reason": each.reason, "expires": each.expires} for each in report.suppressed
        ],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "where": list(finding.where),
        "evidence": finding.evidence,
        "fix": finding.fix,
    }


def as_sarif(report: Report, rules: Sequence[Rule], files: Mapping[str, str]) -> dict[str, Any]:
    """A SARIF log with one run. ``files``: device → the file that describes it; ``""`` → the file for all others."""
    results = [_result(each, files) for each in report.findings]
    results += [
        {**_result(each.finding, files), "suppressions": [{"kind": "external", "justification": each.reason}]}
        for each in report.suppressed
    ]
    notes = [
        {
            "level": "note",
            "message": {"text": f"{gap.rule} not evaluated: {gap.missing}"},
            "associatedRule": {"id": gap.rule},
        }
        for gap in report.gaps
    ]
    driver = {"name": "roceway-tune lint", "version": _version(), "rules": [_rule(each) for each in rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _version() -> str:
    try:
        return version("roceway")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"severity": str(rule.severity), "source": rule.source},
    }


def _result(finding: Finding, files: Mapping[str, str]) -> dict[str, Any]:
    print_of = hashlib.sha256(f"{finding.rule}\n{finding.evidence}".encode()).hexdigest()
    return {
        "ruleId": finding.rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.title}: {finding.evidence}. Fix: {finding.fix}"},
        "locations": [_location(each, files) for each in finding.where],
        "partialFingerprints": {"cause/v1": print_of},
        "properties": {"severity": str(finding.severity)},
    }


def _location(where: str, files: Mapping[str, str]) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": where}]}
    file = files.get(where.partition(" ")[0], files.get(""))
    if file:
        location["physicalLocation"] = {"artifactLocation": {"uri": file}}
    return location
