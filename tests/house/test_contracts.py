"""The house's own rules, so that `make test` alone tells when one is broken."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.world import ROOT


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports")], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_import_contract_says_why() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if line == "[[tool.importlinter.contracts]]"]
    assert len(starts) == len(tomllib.loads("\n".join(lines))["tool"]["importlinter"]["contracts"])
    for number in starts:
        assert lines[number + 1].startswith("name = ")
        assert lines[number + 2].startswith("# Why: ")
