"""The scene that all rule tests start from: well, and wholly known."""

from __future__ import annotations

from tests.tuner.lint.scene import Scene
from tuner.lint.rules import RULES


def test_a_fabric_that_is_well_has_no_finding() -> None:
    assert Scene().report().findings == ()


def test_every_rule_is_evaluated_where_everything_is_known() -> None:
    gaps = {gap.rule: gap.missing for gap in Scene().report().gaps}
    assert set(gaps) == {"R02"}
    assert gaps["R02"].startswith("a second reading")


CATALOGUE = """
H01 C H02 C H03 C H04 H H05 C H06 H H07 H H08 M H09 H H10 H H11 H H12 C H13 H H14 C H15 H H16 H H17 H H18 H H19 H H20 M
H21 M H22 M H23 H X01 H X02 C X03 H X04 M X05 M L01 C L02 C L03 H L04 C L05 C L06 H L07 H L08 H L09 C L10 H L11 H L12 H
S01 C S02 C S03 C S04 C S05 M S06 H S07 H S08 I S09 H S10 M S11 M S12 M S13 H S14 I S15 H S16 M T01 C T02 H T03 H T04 I
R01 C R02 C R03 H R04 H R05 M READ H
"""


def test_the_rules_are_those_of_the_catalogue_with_its_severities() -> None:
    declared = [word for rule in RULES for word in (rule.id, str(rule.severity)[0].upper())]
    assert declared == CATALOGUE.split()
