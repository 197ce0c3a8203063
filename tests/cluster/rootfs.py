"""The file systems of roceway's images: Debian packages that apt verified, and roceway's own wheel in a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.world import ROOT, sh

__all__ = ["Fill", "debian", "download", "libraries", "own"]

Fill = Callable[[Path], None]
"""Fills a new folder."""

_MERGED = ("bin", "sbin", "lib", "lib64")
_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
_PROGRAMS = {
    "roceway-cni": "cni.__main__", "roceway-agent": "cni.agent.__main__",
    "roceway-tune": "tuner.__main__", "roceway-probe": "nccltest.__main__",
}  # fmt: skip


def download(packages: Sequence[str], folder: Path) -> list[Path]:
    """Packages with everything that they depend on, whatever this machine has installed."""
    (folder / "partial").mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State::status": "/dev/null", "Dir::Cache::archives": str(folder), "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root", "APT::Install-Recommends": "false",
    }  # fmt: skip
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    sh("apt-get", "-qq", *words, "-y", "--download-only", "install", *packages)
    return sorted(folder.glob("*.deb"))


def debian(archives: Sequence[Path], root: Path) -> None:
    """Unpack packages into ``root``; no script of theirs runs."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for archive in archives:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as stream:
            subprocess.run(["tar", "-C", str(root), "-x", "--keep-directory-symlink"], stdin=stream.stdout, check=True)
    for name in ("share/doc", "share/man", "share/locale", "include"):
        shutil.rmtree(root / "usr" / name, ignore_errors=True)
    # What packages would do in their scripts: alternatives, sh, users.
    folders = [f"{_LIBRARIES}/{name}" for name in ("blas", "lapack", "openmpi/lib")]
    (root / "etc/ld.so.conf.d").mkdir(parents=True, exist_ok=True)
    (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    (root / "etc/ld.so.conf.d/roceway.conf").write_text("\n".join([_LIBRARIES, *folders]) + "\n")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    for name in ("root", "tmp", "proc", "sys", "dev", "run", "etc"):
        (root / name).mkdir(exist_ok=True)
    sh("ldconfig", "-r", str(root))
    _mend_torch(root)


def _mend_torch(root: Path) -> None:
    """Debian 12 has torch 1.13 with Python 3.11, where going through a Flag leaves NONE out: torchrun fails."""
    for path in root.glob("usr/lib/python3/dist-packages/torch/distributed/elastic/multiprocessing/api.py"):
        path.write_text(path.read_text().replace("for s in Std:", "for s in (Std.NONE, *Std):"))


_HOME = "opt/roceway"
_PACKAGES = f"{_HOME}/lib/python3.{sys.version_info.minor}/site-packages"


def libraries(root: Path) -> None:
    """What roceway requires: the very libraries that the tests use."""
    packages = root / _PACKAGES
    packages.mkdir(parents=True)
    (root / _HOME / "bin").mkdir()
    (root / _HOME / "bin/python3").symlink_to("/usr/bin/python3")
    (root / _HOME / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = true\n")
    for name in _required("roceway"):
        _copy(name, packages)
    # The Kubernetes client is large, and only `act` imports it.
    sh(sys.executable, "-m", "compileall", "-q", "-j2", "-x", "/kubernetes/", str(packages))


def own(root: Path) -> None:
    """roceway from its wheel, and its programs."""
    packages = root / _PACKAGES
    packages.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        sh(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, str(ROOT))
        (wheel,) = Path(folder).glob("*.whl")
        shutil.unpack_archive(wheel, packages, "zip")
    (packages / "cni/shim/roceway-cni").chmod(0o755)
    # What `python3 -m nccltest.…` needs in a probe's pods; torch there must not meet roceway's numpy.
    (root / "usr/lib/python3/dist-packages").mkdir(parents=True)
    for name in ("nccltest", "conf", "host", "tuner"):
        (root / "usr/lib/python3/dist-packages" / name).symlink_to(f"/{_PACKAGES}/{name}")
    (root / "usr/local/bin").mkdir(parents=True)
    for name, module in _PROGRAMS.items():
        program = root / "usr/local/bin" / name
        program.write_text(f"#!/opt/roceway/bin/python3\nfrom {module} import main\nmain()\n")
        program.chmod(0o755)
    sh(sys.executable, "-m", "compileall", "-q", str(packages))


def _required(name: str) -> set[str]:
    """What a distribution needs at run time, without itself."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for text in metadata.requires(waiting.pop()) or ():
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            if wanted.name not in found:
                found.add(wanted.name)
                waiting.append(wanted.name)
    return found


def _copy(name: str, packages: Path) -> None:
    for file in metadata.files(name) or ():
        if file.parts[0] == ".." or "__pycache__" in file.parts:
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file.locate(), target)
