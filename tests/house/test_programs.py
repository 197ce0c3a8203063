"""What all four programs have in common."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.world import ROOT

PROGRAMS = {"roceway-cni": "cni", "roceway-agent": "cni.agent", "roceway-tune": "tuner", "roceway-probe": "nccltest"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_its_release(program: str) -> None:
    release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    words = [sys.executable, "-m", PROGRAMS[program], "--version"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout) == (0, f"{program} {release}\n"), done.stderr
