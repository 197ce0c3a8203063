"""How the rules' tests are written: one change to a well fabric, and what must, or must not, be found.

A positive case names the place and what the evidence says. A negative case is a near miss: something that looks like
the mistake and is none. An unknown case takes away what the rule needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.tuner.lint.scene import Scene

Change = Callable[[Scene], Scene]


class Positive(NamedTuple):
    """It must be found."""

    rule: str
    change: Change
    where: str
    """One of the finding's places."""
    evidence: str
    """In the finding's evidence."""
    severity: str = ""
    """Where it is not the rule's usual one."""


class Negative(NamedTuple):
    """It must not be found, and must have been looked at."""

    rule: str
    why: str
    change: Change


class Unknown(NamedTuple):
    """The rule cannot be evaluated, says what it lacks, and finds nothing."""

    rule: str
    change: Change
    missing: str


def _found(case: Positive) -> None:
    """Found in this place with this evidence, and by no change at all not found."""
    found = case.change(Scene()).findings(case.rule)
    matching = [each for each in found if case.evidence in each.evidence]
    assert matching, [each.evidence for each in found]
    places = [where for each in matching for where in each.where]
    assert case.where in places
    assert matching[0].fix
    if case.severity:
        assert str(matching[0].severity) == case.severity


def _not_found(case: Negative) -> None:
    """Not found, though evaluated."""
    report = case.change(Scene()).report()
    assert [each for each in report.findings if each.rule == case.rule] == []
    assert not [gap for gap in report.gaps if gap.rule == case.rule and not gap.evaluated]


def _not_evaluated(case: Unknown) -> None:
    """Neither found nor silently fine."""
    scene = case.change(Scene())
    assert case.missing in scene.missing(case.rule)
    assert scene.findings(case.rule) == []


Case = Positive | Negative | Unknown


def check(case: Case) -> None:
    """The case holds."""
    if isinstance(case, Positive):
        _found(case)
    elif isinstance(case, Negative):
        _not_found(case)
    else:
        _not_evaluated(case)


def cases(*several: Case) -> pytest.MarkDecorator:
    """A test for each case, named after what it says."""
    return pytest.mark.parametrize("case", several, ids=[_name(case) for case in several])


def _name(case: Case) -> str:
    if isinstance(case, Positive):
        words = f"{case.rule} finds {case.evidence}"
    elif isinstance(case, Negative):
        words = f"{case.rule} spares {case.why}"
    else:
        words = f"{case.rule} lacks {case.missing}"
    return words.replace(" ", "_")[:60]
