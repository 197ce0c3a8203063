"""Evaluation: every rule on every subject of its scope, the hits grouped by cause."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from tuner.lint.report import Finding, Gap, Report, ordered
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity

__all__ = ["evaluate"]

_log = logging.getLogger(__name__)
_Cause = tuple[Severity, str, str]  # severity, evidence, platform


class _Tally:
    """What one rule came to."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.places: dict[_Cause, dict[str, None]] = {}  # a dict for a set that keeps its order
        self.fixes: dict[_Cause, str | Callable[[], str]] = {}
        self.missing: Counter[str] = Counter()
        self.lacking = 0
        self.subjects = 0

    def look(self, subjects: Sequence[object]) -> None:
        """The inner loop of a run: hundreds of thousands of subjects, nearly all of which yield nothing."""
        check = self.rule.check
        self.subjects += len(subjects)
        for subject in subjects:
            try:
                verdicts: list[Hit | Missing] = [*check(subject)]
            except Exception as error:  # noqa: BLE001 - one strange switch or host must not end a run over thousands
                verdicts = [self._failed(error)]
            if verdicts:
                self._note(verdicts)

    def _failed(self, error: Exception) -> Missing:
        """What is told of a subject that the rule cannot digest; the first one is in the log with its traceback."""
        what = f"the rule failed ({type(error).__name__}); this is a bug of roceway, the log has the details"
        if what not in self.missing:
            _log.exception("rule %s failed", self.rule.id)
        return Missing(what)

    def _note(self, verdicts: Iterable[Hit | Missing]) -> None:
        known = True
        for verdict in verdicts:
            if isinstance(verdict, Missing):
                self.missing[verdict.what] += 1
                known = False
            else:
                self._hit(verdict)
        self.lacking += not known

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

    def gaps(self) -> Iterable[Gap]:
        if not self.subjects:
            kinds = " or ".join(scope.value for scope in self.rule.scopes)
            yield Gap(self.rule.id, f"nothing to look at ({kinds})", 0, 0)
        for what, count in self.missing.items():
            yield Gap(self.rule.id, what, count, self.subjects - self.lacking)


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
        for scope in rule.scopes:
            tally.look(subjects.get(scope, ()))
        findings.extend(tally.findings())
        gaps.extend(tally.gaps())
    return Report(ordered(findings), tuple(gaps))
