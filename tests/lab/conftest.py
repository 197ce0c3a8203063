"""The lab's marker, and a line on where its time went."""

from __future__ import annotations

import pytest

SPENT = pytest.StashKey[str]()
"""Of the one boot of a session."""


def pytest_configure(config: pytest.Config) -> None:
    """Known here, so that the lab needs nothing outside its folder."""
    config.addinivalue_line("markers", "lab: boots a virtual machine (about four minutes)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How long the guest took: it depends on what else this machine does, so no test judges it."""
    if SPENT in config.stash:
        terminalreporter.write_line(f"lab: {config.stash[SPENT]}")
