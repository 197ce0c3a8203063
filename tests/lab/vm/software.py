"""The lab's own software: QEMU, a kernel with its headers, a compiler and network tools of one Debian release.

apt resolves, downloads and verifies (its own lists and state, the archive's keyring); dpkg-deb unpacks into a folder.
Nothing is installed on the host and no package script runs: neither root nor a host of that release is needed.
"""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.lab.vm.cache import LabError, UnavailableError, made, say
from tests.lab.vm.machine import Kernel, Software

APT_LIMIT = 300
"""Seconds for one call of apt."""
GUEST_ROOT = Path("/lab")
"""Where the guest sees this root."""
NO_DRIVERS = (
    *("ata", "comedi", "gpu", "hid", "hwmon", "iio", "input", "md", "media", "mtd", "net/usb", "net/wireless"),
    *("platform", "scsi", "staging", "usb", "video"),
)
NEVER_UNPACKED = (
    *(f"./usr/share/{name}" for name in ("doc", "man", "locale", "info", "bash-completion")),
    *(f"./usr/lib/modules/*/kernel/{name}" for name in ("sound", *(f"drivers/{name}" for name in NO_DRIVERS))),
)
EARLY_MODULES = ("9p", "9pnet_virtio", "overlay")
"""What the initial RAM disk loads to reach the guest's root."""
TOOLS = {  # what guests find first on their PATH -> the program that it is
    **{name: f"usr/bin/{name}" for name in ("ip", "rdma", "ib_write_bw", "ibv_devinfo", "ibv_devices")},
    **{name: f"usr/sbin/{name}" for name in ("dcb", "ethtool", "tc", "bridge", "devlink")},
    **dict.fromkeys(("modprobe", "insmod", "rmmod", "lsmod"), "usr/bin/kmod"),
}


class Root:
    """The unpacked software."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernel = (path / "kernel-version").read_text().strip()
        self.modules = path / "usr/lib/modules" / self.kernel

    def program(self, name: str) -> list[str]:
        """The words that run a program of this root on the host: through its own loader, with its own libraries."""
        return _program(self.path, name)

    def early_modules(self) -> list[Path]:
        """Files of EARLY_MODULES and what they need, in loading order."""
        return _closure(self.modules, EARLY_MODULES)


def get(software: Software) -> Root:
    """Have the software, downloading it the first time."""
    return Root(made("software", [software.model_dump_json(), Path(__file__)], lambda folder: _make(folder, software)))


def _make(folder: Path, software: Software) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise UnavailableError(f"no {tool} here: the lab's kernel and QEMU come from Debian packages")
    if not software.keyring.exists():
        raise UnavailableError(f"{software.keyring} is missing: install debian-archive-keyring")
    apt = _Apt(folder / "apt", software)
    say(f"downloading QEMU and a kernel from {software.mirror} (about 280 MB, once)")
    apt.run("update", "-qq", "-o", "APT::Update::Error-Mode=any")
    kernel = apt.kernel(software.kernel)
    packages = [name for group in software.packages for names in group.values() for name in names]
    apt.download([*packages, *_kernel_packages(kernel)], software.kernel.suite)
    _unpack(sorted(apt.archives.glob("*.deb")), folder)
    shutil.rmtree(folder / "apt")
    _finish(folder, kernel)


def _kernel_packages(kernel: str) -> list[str]:
    """Image, modules and headers; the image's own package differs between releases of Debian."""
    return [f"linux-binary-{kernel}", f"linux-modules-{kernel}", f"linux-headers-{kernel}"]


class _Apt:
    """apt-get with nothing of the host's but its keyring and its proxy settings."""

    def __init__(self, folder: Path, software: Software) -> None:
        self.archives = folder / "archives"
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        signed = f"[arch=amd64 signed-by={software.keyring}]"
        sources = "".join(f"deb {signed} {software.mirror} {suite} main\n" for suite in software.suites)
        (folder / "sources.list").write_text(sources)
        settings = {
            "Dir::State": folder,
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder,
            "Dir::Etc::sourcelist": folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "false",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::Retries": "3",
        }
        self._options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]

    def run(self, *words: str, program: str = "apt-get") -> str:
        """One call; a failure becomes a sentence."""
        try:
            done = subprocess.run(
                [program, *self._options, *words],
                capture_output=True,
                text=True,
                timeout=APT_LIMIT,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{program} {words[0]} did not end within {APT_LIMIT} s") from None
        if done.returncode:
            raise UnavailableError(f"{program} {words[0]} failed: {done.stderr.strip()[-500:]}")
        return done.stdout

    def kernel(self, wanted: Kernel) -> str:
        """The pinned kernel's version if the archive still has it, else the one that it has now."""
        if self.run("search", "--names-only", f"^linux-binary-{re.escape(wanted.pin)}$", program="apt-cache"):
            return wanted.pin
        shown = self.run("show", f"{wanted.follow}/{wanted.suite}", program="apt-cache")
        found = re.search(r"\blinux-image-(\d[^ ,]*)", shown)
        if found is None:
            raise LabError(f"the archive has neither kernel {wanted.pin} nor a {wanted.follow} that names one")
        say(f"kernel {wanted.pin} has left the archive; using {found[1]}")
        return found[1]

    def download(self, packages: Sequence[str], suite: str) -> None:
        """These and all they need, except that only the kernel comes from the backports."""
        pinned = [f"{name}/{suite}" if name.startswith("linux-") else name for name in packages]
        self.run("install", "-y", "-qq", "--download-only", *pinned)


def _unpack(packages: Sequence[Path], folder: Path) -> None:
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(f"usr/{name}")
    excluded = [f"--exclude={pattern}" for pattern in NEVER_UNPACKED]

    def one(package: Path) -> None:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as reader:
            words = ["tar", "-x", "--no-same-owner", "--keep-directory-symlink", *excluded, "-C", str(folder)]
            subprocess.run(words, stdin=reader.stdout, check=True)
        if reader.returncode:
            raise LabError(f"{package.name} cannot be unpacked")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, packages))


def _finish(folder: Path, kernel: str) -> None:
    """What package scripts would have done, as far as the lab needs it."""
    modules = folder / "usr/lib/modules" / kernel
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_unpack_module, modules.rglob("*.ko.xz")))
    subprocess.run([*_program(folder, "usr/bin/kmod", "depmod"), "-b", f"{folder}/usr", kernel], check=True)
    (folder / "usr/bin/awk").symlink_to("mawk")
    for name in ("dev", "proc", "tmp", "build", "guest-bin"):
        (folder / name).mkdir()
    for name, program in TOOLS.items():
        script = folder / "guest-bin" / name
        script.write_text("#!/bin/sh\nexec " + " ".join(_program(GUEST_ROOT, program, name)) + ' "$@"\n')
        script.chmod(0o755)
    (folder / "kernel-version").write_text(kernel + "\n")


def _unpack_module(packed: Path) -> None:
    """Decompressed once here: doing it in the guest at every load costs seconds."""
    packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
    packed.unlink()


def _program(root: Path, program: str, name: str = "") -> list[str]:
    libraries = f"{root}/usr/lib/x86_64-linux-gnu"
    loader = [f"{root}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", libraries]
    return [*loader, "--argv0", name or program.rpartition("/")[2], f"{root}/{program}"]


def _closure(modules: Path, wanted: Sequence[str]) -> list[Path]:
    """Files of these modules with all that they need, each after what it needs: modules.dep lists nearest first."""
    needs = dict(line.split(":", 1) for line in (modules / "modules.dep").read_text().splitlines())
    files = {Path(path).stem.replace("-", "_"): path for path in needs}
    ordered: dict[str, None] = {}
    for name in wanted:
        path = files[name]
        ordered |= dict.fromkeys([*reversed(needs[path].split()), path])
    return [modules / path for path in ordered]
