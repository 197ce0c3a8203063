"""The published tables: every row that is measured is there, and what is promised is what was measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nccltest.figures import at_least, at_most, main
from nccltest.signatures import SIGNATURES

FIGURES = Path(__file__).parents[2] / "docs/figures"
REFUTED = 1e-4


def rows(page: str) -> dict[str, list[str]]:
    """First cell -> the other cells, of every table of a page."""
    text = (FIGURES / page).read_text()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    return {each[0]: each[1:] for each in cells}


def test_every_signature_is_published_with_what_it_promises() -> None:
    published = rows("locate.md")
    for signature in SIGNATURES:
        promised, trials, right, _, wrong = published[signature.name]
        assert promised == (f"≥ {signature.least:.0%}" if signature.least else "")
        count, good, bad = int(trials), float(right.rstrip("%")) / 100, float(wrong.rstrip("%")) / 100
        assert at_most(round(bad * count), count, 0.005) > REFUTED, signature.name
        if signature.least:
            assert at_least(round(good * count), count, signature.least) > REFUTED, signature.name


def test_promised_rates_hold_over_all_published_trials() -> None:
    text = (FIGURES / "locate.md").read_text()
    for least in (0.99, 0.95):
        found = re.search(rf"promised {least:.0%}\): (\d+) of (\d+) right", text)
        assert found
        assert int(found[1]) / int(found[2]) >= least
    found = re.search(r"wrong blame, all rows .*: (\d+) of (\d+)", text)
    assert found
    assert int(found[1]) / int(found[2]) <= 0.005


def test_published_rates_of_judging_hold() -> None:
    text = (FIGURES / "judge.md").read_text()
    table = [line.strip("| \n").split(" | ") for line in text.splitlines() if re.match(r"\| \d\.\d%", line)]
    assert len(table) == 7
    false = [tuple(int(word) for word in cells[2].split(" of ")) for cells in table]
    assert sum(each[0] for each in false) / sum(each[1] for each in false) <= 1e-4
    for cells in table:
        if cells[0] == "2.0%":
            assert float(cells[6].rstrip("%")) >= 99


def test_a_page_prints_the_same_twice(capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    for _ in range(2):
        assert main(["judge", "--trials", "1"]) == 0
        pages.append(capsys.readouterr().out)
    assert pages[0] == pages[1] != ""
