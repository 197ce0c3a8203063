"""The compiled plugin: its source, its building, and where a built one is.

Built when the wheel is (hatch_build.py), so that no node needs a compiler. A wheel made without one has no compiled
plugin, and `roceway-cni install` then writes the launcher for the Python of its own host.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["NAME", "build", "shipped"]

NAME = "roceway-cni"
_HERE = Path(__file__).resolve().parent
_SOURCE = _HERE / "roceway-cni.c"
_FLAGS = ("-std=gnu11", "-O2", "-s", "-static", "-Wall", "-Wextra", "-Werror", "-fstack-protector-strong")


def shipped() -> Path | None:
    """The compiled plugin of this installation; None when it was made without a compiler."""
    path = _HERE / NAME
    return path if path.is_file() else None


def build(target: Path, release: str) -> bool:
    """Compile to ``target``; False when there is no C compiler. RuntimeError with its words when it refuses."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    words = [compiler, *_FLAGS, f'-DRELEASE="{release}"', "-o", str(target), str(_SOURCE)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return True
