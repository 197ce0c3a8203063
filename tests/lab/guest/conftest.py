"""Guest tests change the machine that they run on: never outside the lab. Their results leave it one by one."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

INSIDE = os.environ.get("ROCEWAY_LAB") == "1"
OUTCOMES = Path("/run/lab/outcomes")
"""A line of JSON when a test starts and one for each of its phases: a guest that dies has told what it knew."""
collect_ignore_glob = [] if INSIDE else ["test_*.py"]


def _tell(**record: object) -> None:
    if INSIDE:
        with OUTCOMES.open("a") as file:
            file.write(json.dumps(record) + "\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    """A test is about to start."""
    _tell(test=nodeid, phase="start")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A phase of a test has ended."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    _tell(test=report.nodeid, phase=report.when, outcome=report.outcome, seconds=report.duration, text=text)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: a collection in a forked child would otherwise copy all of its pages."""
    if INSIDE:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def _as_found() -> Iterator[None]:
    """One failed test must not fail those after it."""
    yield
    if INSIDE:
        from tests.lab.guest import kit  # not outside: it reads the machine

        kit.restore()
