"""The lab's marker, and a line on where its time went."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.ahead import Ahead, ordered

SPENT = pytest.StashKey[str]()
"""Of the one boot of a session."""


AHEAD = pytest.StashKey[Ahead]()
"""The guest, while other tests run."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The guest's tests after those that may run beside it."""
    items[:] = ordered(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Boot the guest, for the tests that were chosen."""
    here = Path(__file__).with_name("test_lab.py")
    wanted = [item for item in session.items if item.path == here]
    names = [str(item.callspec.params["name"]) for item in wanted if hasattr(item, "callspec")]
    if wanted and not session.config.option.collectonly:
        session.config.stash[AHEAD] = Ahead(names or [""])  # "": all of them


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Also where nobody came to ask for its results."""
    if AHEAD in session.config.stash:
        session.config.stash[AHEAD].stop()


def pytest_configure(config: pytest.Config) -> None:
    """Known here, so that the lab needs nothing outside its folder."""
    config.addinivalue_line("markers", "lab: boots a virtual machine (about four minutes)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How long the guest took: it depends on what else this machine does, so no test judges it."""
    if SPENT in config.stash:
        terminalreporter.write_line(f"lab: {config.stash[SPENT]}")
