"""conf/deploy/install.sh: all four programs in a folder of their own, and nothing half done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world import ROOT

INSTALL = ROOT / "conf/deploy/install.sh"


def install(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    words = ["bash", str(INSTALL), str(folder)]
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHON": sys.executable, **environment},
    )


def test_the_programs_run_from_their_folder_with_what_they_need_and_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "roceway"
    done = install(folder)
    if "No matching distribution" in done.stderr:
        pytest.skip("no package index here")
    assert done.returncode == 0, done.stderr
    for program in ("roceway-cni", "roceway-agent", "roceway-tune", "roceway-probe"):
        said = subprocess.run(
            [folder / "bin" / program, "--version"], capture_output=True, text=True, cwd="/", check=False
        )
        assert said.stdout.startswith(f"{program} "), said.stderr
    site = next(folder.glob("lib/python3*/site-packages"))
    assert (site / "cni/shim/roceway-cni").stat().st_mode & 0o111  # the compiled plugin
    assert not list(site.glob("pytest*"))
    assert not list(tmp_path.glob("*.new"))


def test_a_python_without_venv_is_refused_and_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "roceway").mkdir()
    done = install(tmp_path / "roceway", PYTHON="/bin/false")
    assert done.returncode == 3
    assert "is no Python >= 3.11 with venv" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["roceway"]
