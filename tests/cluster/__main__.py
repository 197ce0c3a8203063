"""``python -m tests.cluster [PATTERN]``: build what is missing, then the tests on a cluster of two nodes (root)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.cluster.binaries import UnavailableError
from tests.cluster.build import build
from tests.cluster.cluster import Cluster
from tests.world import ROOT

_HELP = """\
python -m tests.cluster            build what is missing, run all tests
python -m tests.cluster PATTERN    those whose names match (pytest -k)
python -m tests.cluster --build    only build: five minutes the first time
python -m tests.cluster --shell    a cluster with a shell on its first node, kubectl included; exit ends it"""


def main(words: list[str]) -> int:
    """Exit code."""
    if words[:1] in (["-h"], ["--help"]):
        print(_HELP)
        return 0
    started = time.monotonic()
    try:
        build()
    except UnavailableError as error:
        print(f"tests.cluster: {error}", file=sys.stderr)
        return 3
    print(f"tests.cluster: built in {time.monotonic() - started:.0f} s", file=sys.stderr)
    if words == ["--build"]:
        return 0
    if words == ["--shell"]:
        return _shell()
    chosen = ["-k", words[0]] if words else []
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).parent), *chosen]
    return subprocess.run(pytest, cwd=ROOT, check=False).returncode


def _shell() -> int:
    with Cluster(nodes=2) as cluster:
        cluster.start()
        first = cluster.nodes[0]
        environment = [
            f"KUBECONFIG={cluster.kubeconfig}",
            f"PATH={cluster.binaries.folder}:{Path(sys.executable).parent}:{_PATH}",
        ]
        print(cluster.kubectl("get", "nodes"), file=sys.stderr)
        return subprocess.run(first.words("env", *environment, "bash"), check=False).returncode


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
