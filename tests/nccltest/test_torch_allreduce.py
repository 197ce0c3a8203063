"""The torch.distributed driver, with gloo where torch is installed: nccl-tests' table, right data, its exit codes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from nccltest.parse import parse_text
from tests.world import ROOT

HAVE_TORCH = importlib.util.find_spec("torch") is not None


def torchrun(*words: str) -> subprocess.CompletedProcess[str]:
    """Two ranks on this machine."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    return subprocess.run(
        [sys.executable, *launcher, "-m", "nccltest.torch_allreduce", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=180,
    )


@pytest.mark.skipif(not HAVE_TORCH, reason="torch is not installed here")
def test_two_ranks_print_nccl_tests_table() -> None:
    done = torchrun("-b", "1M", "-e", "4M", "-f", "2", "-n", "2", "-w", "1", "-c", "1", "-g", "1")
    assert done.returncode == 0, done.stderr
    (run,) = parse_text(done.stdout, "out")
    assert (run.status, run.collective, run.ranks) == ("ok", "all_reduce", 2)
    assert [row.size for row in run.rows] == [1 << 20, 2 << 20, 4 << 20]
    assert all(row.out_of_place.wrong == 0 and row.in_place and row.in_place.wrong == 0 for row in run.rows)


@pytest.mark.skipif(HAVE_TORCH, reason="torch is installed here")
def test_without_torch_it_says_so_and_is_a_failed_launch() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nccltest.torch_allreduce", "-b", "1M", "-e", "1M"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 3
    assert "install PyTorch" in done.stderr
    (run,) = parse_text(done.stderr, "out")
    assert run.status == "failed"
    assert "no torch" in run.errors[0]
