"""One cluster for a session; none unless it was asked for by name."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.binaries import UnavailableError
from tests.cluster.cluster import Cluster

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Known here, so that the cluster needs nothing outside its folder."""
    config.addinivalue_line("markers", "cluster: starts a Kubernetes cluster (root; python -m tests.cluster)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Minutes long: only where the folder or the marker is named."""
    named = [Path(word.partition("::")[0]).resolve() for word in config.args]
    wanted = "cluster" in (config.option.markexpr or "") or any(_HERE in (path, *path.parents) for path in named)
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if not wanted:
                item.add_marker(pytest.mark.skip(reason="a Kubernetes cluster: python -m tests.cluster runs it"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two nodes that are ready, with a primary network and without roceway."""
    try:
        made = Cluster(nodes=2)
    except UnavailableError as error:
        pytest.skip(str(error))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was made is removed
    with made:
        made.start()
        yield made
