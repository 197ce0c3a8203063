"""Building the kernel module, by the compiler that belongs to the kernel, inside the software's own root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.lab.vm.cache import LabError, made, say
from tests.lab.vm.software import Root

SOURCE = Path(__file__).resolve().parent.parent / "module"
BUILD = """
set -e
mount --rbind /dev "$1/dev"
mount --rbind /proc "$1/proc"
mount --bind "$2" "$1/build"
exec chroot "$1" /usr/bin/make -s -C "/usr/lib/modules/$3/build" M=/build CONFIG_DEBUG_INFO_BTF_MODULES= W=1 modules
"""


def get(root: Root) -> Path:
    """The built module's file; built once per content of its sources."""
    sources = sorted(path for path in SOURCE.iterdir() if path.suffix in (".c", ".h") or path.name == "Kbuild")
    key = [root.path.name, Path(__file__), *(part for path in sources for part in (path.name, path))]
    return made("module", key, lambda folder: _make(folder, root, sources)) / "simroce.ko"


def _make(folder: Path, root: Root, sources: list[Path]) -> None:
    say("building the kernel module")
    work = folder / "build"
    work.mkdir()
    for path in sources:
        shutil.copy(path, work)
    isolated = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    words = [*isolated, "sh", "-c", BUILD, "sh", str(root.path), str(work), root.kernel]
    path_only = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=path_only)
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        raise LabError(f"the kernel module does not build:\n{said[-3000:]}")
    if said:
        say(f"the compiler said:\n{said}")
    shutil.move(work / "simroce.ko", folder)
    shutil.rmtree(work)
