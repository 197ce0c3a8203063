"""The linter as one pure function: what was read goes in, a report comes out."""

from __future__ import annotations

from datetime import date

from tuner.lint.halves import evaluate_on_two
from tuner.lint.report import Report
from tuner.lint.rules import RULES
from tuner.lint.suppress import suppress
from tuner.lint.world import Given, World

__all__ = ["lint"]


def lint(given: Given, today: date) -> Report:
    """Every rule on everything that was given, without what fabric.yaml accepts today."""
    report = evaluate_on_two(RULES, World(given).subjects())
    suppressions = given.fabric.lint.suppressions if given.fabric else ()
    return suppress(report, suppressions, today)
