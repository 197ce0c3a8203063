"""The lab's marker."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Known here, so that the lab needs nothing outside its folder."""
    config.addinivalue_line("markers", "lab: boots a virtual machine (about a minute)")
