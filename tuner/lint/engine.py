"""Evaluation: every rule on every subject of its scope, the hits grouped by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from tuner.lint.report import Finding, Gap, Report, ordered
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity

__all__ = ["evaluate"]

_Cause = tuple[Severity, str, str]  # severity, evidence, platform


class _Tally:
    """What one rule came to so far."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.places: dict[_Cause, dict[str, None]] = {}  # a dict for a set that keeps its order
        self.fixes: dict[_Cause, str | Callable[[], str]] = {}
        self.missing: Counter[str] = Counter()
        self.evaluated = 0

    def look(self, subject: object) -> None:
        known = True
        for verdict in self.rule.check(subject):
            if isinstance(verdict, Missing):
                self.missing[verdict.what] += 1
                known = False
            else:
                self._hit(verdict)
        self.evaluated += known

    def _hit(self, hit: Hit) -> None:
        severity = self.rule.severity if hit.severity is None else hit.severity
        cause = (severity, hit.evidence, hit.platform)
        self.places.setdefault(cause, {})[hit.where] = None
        self.fixes.setdefault(cause, hit.fix)

    def findings(self) -> Iterable[Finding]:
        for cause, places in self.places.items():
            severity, evidence, _ = cause
            where = tuple(places)
            yield Finding(self.rule.id, severity, self.rule.title, where, evidence, _fix(self.fixes[cause], where))

    def gaps(self, subjects: int) -> Iterable[Gap]:
        if not subjects:
            kinds = " or ".join(scope.value for scope in self.rule.scopes)
            yield Gap(self.rule.id, f"nothing to look at ({kinds})", 0, 0)
        for what, count in self.missing.items():
            yield Gap(self.rule.id, what, count, self.evaluated)


def _fix(fix: str | Callable[[], str], where: tuple[str, ...]) -> str:
    text = fix if isinstance(fix, str) else fix()
    others = len(where) - 1
    return f"{text}\n(written for {where[0]}; alike at the other {others})" if others else text


def evaluate(rules: Iterable[Rule], subjects: Mapping[Scope, Sequence[object]]) -> Report:
    """Every rule on every subject of its scopes. The time is that of the rules' own functions: linear in subjects."""
    findings: list[Finding] = []
    gaps: list[Gap] = []
    for rule in rules:
        tally = _Tally(rule)
        own = [subject for scope in rule.scopes for subject in subjects.get(scope, ())]
        for subject in own:
            tally.look(subject)
        findings.extend(tally.findings())
        gaps.extend(tally.gaps(len(own)))
    return Report(ordered(findings), tuple(gaps))
