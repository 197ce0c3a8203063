"""Fixtures of the netns ring: a world per test, removed whatever happens."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.world import Host, World


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here changes namespaces and needs root."""
    for item in items:
        if "tests/netns/" in str(item.path):
            item.add_marker(pytest.mark.netns)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root: network namespaces"))


@pytest.fixture
def world() -> Iterator[World]:
    """A fabric of two rails."""
    with World(rails=2) as made:
        yield made


@pytest.fixture
def host(world: World) -> Host:
    """The first host of the world."""
    return world.host()
