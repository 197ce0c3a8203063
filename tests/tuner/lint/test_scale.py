"""A generated fabric with planted faults: found, all of them and nothing else, in time that grows with its size."""

from __future__ import annotations

import time
from datetime import date

import pytest

from tests.tuner.lint import big
from tuner.lint.run import lint


@pytest.mark.parametrize("leaves", [8, 32])
def test_the_planted_faults_are_found_and_nothing_else(leaves: int) -> None:
    report = lint(big.planted(leaves), date(2030, 6, 1))
    assert {(finding.rule, finding.where) for finding in report.findings} == big.EXPECTED


def test_four_times_the_fabric_takes_about_four_times_as_long() -> None:
    def seconds(leaves: int) -> float:
        given = big.planted(leaves)
        times = []
        for _ in range(3):
            before = time.process_time()
            lint(given, date(2030, 6, 1))
            times.append(time.process_time() - before)
        return min(times)

    assert seconds(64) < 8 * seconds(16)  # a quadratic rule would take 16 times as long
