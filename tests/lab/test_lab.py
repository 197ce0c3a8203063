"""Every guest test as a test here: the guest is booted once with the selected tests, and their results are shown.

Where the lab cannot be had (no apt, no network for the first set-up, not x86-64) these are skipped with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.lab.conftest import AHEAD, SPENT
from tests.lab.vm import run
from tests.lab.vm.cache import UnavailableError
from tests.lab.vm.report import Report


def guest_tests() -> Iterator[str]:
    """``file::test`` for every test function; found without importing, which only the guest can."""
    for path in sorted(run.GUEST_TESTS.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.name}::{node.name}"


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Report:
    """The one boot of this session, which began before its first test."""
    try:
        report = request.config.stash[AHEAD].report()
    except UnavailableError as error:
        pytest.skip(f"the lab cannot be had here: {error}")
    request.config.stash[SPENT] = report.spent()
    return report


@pytest.mark.lab
@pytest.mark.parametrize("name", list(guest_tests()))
def test_guest(name: str, report: Report) -> None:
    """One guest test with all its parameters."""
    found = {key: outcome for key, outcome in report.outcomes.items() if key.partition("[")[0] == name}
    failures = [f"{key}\n{outcome.text}" for key, outcome in found.items() if outcome.status == "failed"]
    if failures:
        pytest.fail("\n\n".join(failures), pytrace=False)
    if not found:
        pytest.fail(f"no result from the guest: {report.trouble}", pytrace=False)
    if all(outcome.status == "skipped" for outcome in found.values()):
        pytest.skip(next(iter(found.values())).text)


@pytest.mark.lab
def test_guest_ended_well(report: Report) -> None:
    """Neither a hang nor a complaint of the kernel's."""
    assert not report.trouble, report.trouble


@pytest.mark.lab
def test_the_guest_boots_and_loads_its_modules(report: Report) -> None:
    """From QEMU's start to the first test: seconds on a quiet machine, never minutes."""
    assert report.seconds["boot"] + report.seconds["modules"] < 180, report.seconds
