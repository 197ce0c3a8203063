"""What a run of the linter found: findings grouped by cause, rules not evaluated, findings that are accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tuner.lint.rule import Severity

__all__ = ["Finding", "Gap", "Report", "Suppressed"]


class Finding(NamedTuple):
    """One cause, with every place where it shows."""

    rule: str
    severity: Severity
    title: str
    where: tuple[str, ...]
    """In the order of the fabric; each place once."""
    evidence: str
    fix: str


class Gap(NamedTuple):
    """A rule that could not be evaluated somewhere, and what was missing."""

    rule: str
    missing: str
    places: int
    """Subjects on which it was missing; 0: there was none to look at."""
    evaluated: int
    """Subjects on which the same rule was evaluated."""


class Suppressed(NamedTuple):
    """A finding that is accepted for a time."""

    finding: Finding
    reason: str
    expires: str
    """The last day, as 2030-12-31."""


class Report(NamedTuple):
    """Everything that a run has to say."""

    findings: tuple[Finding, ...]
    """The gravest first."""
    gaps: tuple[Gap, ...]
    suppressed: tuple[Suppressed, ...] = ()

    def worst(self) -> Severity | None:
        """The gravest severity; None without findings."""
        return max((finding.severity for finding in self.findings), default=None)


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The gravest first, then by rule; where these are equal, as they came."""
    return tuple(sorted(findings, key=_rank))


def _rank(finding: Finding) -> tuple[int, int, str]:
    return -finding.severity, "HXLSTR".find(finding.rule[0]), finding.rule
