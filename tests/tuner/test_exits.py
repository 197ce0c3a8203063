"""Errors become one sentence and a code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_full_disk_is_one_sentence_and_exit_3() -> None:
    command = [
        sys.executable,
        "-m",
        "tuner",
        "headroom",
        "--model",
        "mlx5",
        "--speed",
        "100G",
        "--cable",
        "7m",
        "--json",
    ]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stderr) == (3, "roceway-tune: cannot write: No space left on device\n")
