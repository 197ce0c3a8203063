"""The linter as one pure function: what was read goes in, a report comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date

from tuner.lint.engine import evaluate
from tuner.lint.report import Report
from tuner.lint.rule import Rule, Scope
from tuner.lint.rules import RULES
from tuner.lint.suppress import suppress
from tuner.lint.world import Given, World

__all__ = ["lint"]


Evaluate = Callable[[Sequence[Rule], Mapping[Scope, Sequence[object]]], Report]


def lint(given: Given, today: date, evaluated: Evaluate = evaluate) -> Report:
    """Every rule on everything that was given, without what fabric.yaml accepts today.

    ``evaluated`` looks at the subjects: :func:`tuner.lint.halves.evaluate_on_two` does it on two cores.
    """
    report = evaluated(RULES, World(given).subjects())
    suppressions = given.fabric.lint.suppressions if given.fabric else ()
    return suppress(report, suppressions, today)
