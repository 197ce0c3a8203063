"""The scene that all rule tests start from: well, and wholly known."""

from __future__ import annotations

from tests.tuner.lint.scene import Scene
from tuner.lint.rules import RULES


def test_a_fabric_that_is_well_has_no_finding() -> None:
    assert Scene().report().findings == ()


def test_every_rule_is_evaluated_where_everything_is_known() -> None:
    gaps = {gap.rule: gap.missing for gap in Scene().report().gaps}
    assert set(gaps) == {"S15", "R02"}
    assert gaps["S15"].startswith("whether the switch floods")  # no source tells
    assert gaps["R02"].startswith("a second reading")


def test_the_rules_are_those_of_the_catalogue() -> None:
    counts = {"H": 23, "X": 5, "L": 12, "S": 15, "T": 4, "R": 5}
    catalogue = [f"{letter}{number:02}" for letter, most in counts.items() for number in range(1, most + 1)]
    assert [rule.id for rule in RULES] == [*catalogue, "READ"]
