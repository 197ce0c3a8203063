"""``lint --live``: the NICs of a real network namespace."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuner.lint.scene import FABRIC
from tests.world import ROOT, Ns

pytestmark = [pytest.mark.netns, pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")]


@pytest.fixture
def ns() -> Iterator[Ns]:
    """A namespace with a veth pair: NICs without DCB and RDMA."""
    made = Ns(f"rwlint-{os.getpid()}")
    try:
        made.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        for rail, name in enumerate(("eth0", "eth1")):
            made.ip("addr", "add", f"10.20{rail}.0.1/16", "dev", name)
        yield made
    finally:
        made.delete()


def test_this_host_is_read_and_what_its_kernel_hides_is_not_evaluated(ns: Ns, tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    words = [
        sys.executable,
        "-m",
        "tuner",
        "lint",
        "-f",
        str(tmp_path / "fabric.yaml"),
        "--node",
        "gpu-1",
        "--live",
        "--json",
    ]
    out = ns.run("env", f"PYTHONPATH={ROOT}", *words, "--state-dir", str(tmp_path), check=False)
    report = json.loads(out)
    mtu = [each for each in report["findings"] if each["rule"] == "H16"]
    assert [each["where"] for each in mtu] == [["gpu-1 rail0 (eth0)", "gpu-1 rail1 (eth1)"]]
    assert mtu[0]["evidence"] == "MTU is 1500, wanted is 9000"
    assert {"H01", "H05", "H06", "H11"} <= {gap["rule"] for gap in report["not_evaluated"]}
