"""READ: what could not be read, or not wholly."""

from __future__ import annotations

from tuner.lint.rule import Hit, Rule, Scope, Severity, Verdict, rule
from tuner.lint.subjects import Source

__all__ = ["RULES"]

_KINDS = {
    "unreadable": (Severity.HIGH, "save it again; nothing of it was checked"),
    "bad-value": (Severity.MEDIUM, "correct the value; rules that need it are not evaluated"),
    "partial": (Severity.INFO, "save all of the configuration, if more than this part is to be checked"),
}


@rule(
    "READ",
    Severity.HIGH,
    Scope.SOURCE,
    title="A source could not be read, or not wholly",
    why="What was not read was not checked. A damaged file must not look like a clean one.",
    source="the reader of the platform",
    fix="Save the configuration or the host's state again, all of it.",
)
def reading(source: Source) -> Verdict:
    for finding in source.findings:
        if finding.kind in _KINDS:
            severity, fix = _KINDS[finding.kind]
            where = f"{source.name} {finding.place}" if finding.place else source.name
            yield Hit(where, finding.message.removeprefix(f"read {finding.place}: "), fix, severity)


RULES: tuple[Rule, ...] = (reading,)
