"""docs/rules says what the rules say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.lint.pages import pages
from tuner.lint.rule import Rule
from tuner.lint.rules import RULES

FOLDER = Path(__file__).parents[3] / "docs" / "rules"


@pytest.mark.parametrize("name", pages())
def test_a_page_is_what_its_declaration_makes(name: str) -> None:
    made = pages()[name]
    assert (FOLDER / name).read_text(encoding="utf-8") == made, "run: python -m tuner.lint.pages docs/rules"


def test_no_page_is_left_of_a_rule_that_is_gone() -> None:
    assert {each.name for each in FOLDER.iterdir()} == set(pages())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_says_why_what_and_whence(rule: Rule) -> None:
    for text in (rule.title, rule.why, rule.source, rule.fix):
        assert text
        assert text == text.strip()
    assert not rule.title.endswith(".")  # a heading, not a sentence
