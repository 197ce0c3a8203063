"""Fills ``.cache/cluster``: Kubernetes from source by the Go module proxy, containerd and etcd from Debian, images.

Nothing is installed on the machine. The first time takes five minutes on two cores, later ones seconds.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.cluster import rootfs
from tests.cluster.binaries import CACHE, Binaries, UnavailableError
from tests.cluster.images import image, layer
from tests.world import ROOT, sh

__all__ = ["build"]

KUBERNETES = "1.34.4"
COREDNS = "1.12.4"  # needs the client libraries of the same Kubernetes
_COMPONENTS = ("kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_GO_TIME = 3600
_DEBIAN = ("containerd", "etcd-server")
_FROM_DEBIAN = ("containerd", "containerd-shim-runc-v2", "ctr", "etcd")
_IMAGES: Mapping[str, tuple[str, ...]] = {
    "roceway": ("python3", "libstdc++6", "dash", "coreutils", "iproute2", "iputils-ping", "grep"),
    "roceway-probe": ("python3-torch", "openmpi-bin", "openssh-client"),
}
"""Debian packages of each image; those of the second come on top of the first's."""
_SOURCES = Path(__file__).parent / "go"


def build(cache: Path = CACHE) -> None:
    """Everything that is missing. UnavailableError where it cannot be had."""
    _checked()
    (cache / "bin").mkdir(parents=True, exist_ok=True)
    (cache / "images").mkdir(exist_ok=True)
    _debian_programs(cache)
    _go_programs(cache)
    _images(cache)


def _checked() -> None:
    needed = ("go", "apt-get", "dpkg-deb", "openssl", "runc", "unshare", "nsenter", "setpriv")
    missing = [name for name in needed if shutil.which(name) is None]
    if missing:
        raise UnavailableError(f"needed and not on PATH: {', '.join(missing)}")


def _debian_programs(cache: Path) -> None:
    if all((cache / "bin" / name).exists() for name in _FROM_DEBIAN):
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "-qq", "download", *_DEBIAN], cwd=folder, check=True, timeout=600)
        for archive in Path(folder).glob("*.deb"):
            sh("dpkg-deb", "-x", str(archive), f"{folder}/root")
        for name in _FROM_DEBIAN:
            shutil.copy2(Path(folder) / "root/usr/bin" / name, cache / "bin" / name)


def _go_programs(cache: Path) -> None:
    """The components as they are released, with the staging modules that go with them; CoreDNS; a pause."""
    if all((cache / "bin" / name).exists() for name in (*_COMPONENTS, "dns", "pause")):
        return
    module = cache / "go"
    shutil.rmtree(module, ignore_errors=True)
    shutil.copytree(_SOURCES, module)
    (module / "go.mod").write_text(_go_mod(module))
    _go(module, "build", "-trimpath", "-ldflags", _version_flags(), "-o", f"{cache / 'bin'}/",
        *(f"k8s.io/kubernetes/cmd/{name}" for name in _COMPONENTS), "./dns", "./pause")  # fmt: skip


def _go_mod(folder: Path) -> str:
    """Kubernetes' own go.mod names folders of its source tree; as modules they are versions v0.x.y."""
    told = _go(folder, "mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}")
    found = re.search(r'"GoMod": "([^"]+)"', told)
    if found is None:
        raise UnavailableError(f"the Go module proxy has no k8s.io/kubernetes v{KUBERNETES}")
    text = Path(found[1]).read_text()
    staged = sorted(set(re.findall(r"(k8s\.io/[a-z0-9-]+) => \./staging", text)))
    release = f"v0.{KUBERNETES.partition('.')[2]}"
    go = re.search(r"^go .*$", text, re.MULTILINE)
    lines = [
        "module roceway/cluster",
        go[0] if go else "go 1.24",
        f"require k8s.io/kubernetes v{KUBERNETES}",
        f"require github.com/coredns/coredns v{COREDNS}",
        *(f"replace {name} => {name} {release}" for name in staged),
    ]
    return "\n".join(lines) + "\n"


def _version_flags() -> str:
    major, minor, _ = KUBERNETES.split(".")
    told = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s", "-w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in told.items())])


def _go(folder: Path, *words: str) -> str:
    environment = {**os.environ, "GOTOOLCHAIN": "auto", "GOFLAGS": "-buildvcs=false -mod=mod", "CGO_ENABLED": "0"}
    done = subprocess.run(
        ["nice", "-n", "5", "go", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=_GO_TIME
    )
    if done.returncode:
        raise UnavailableError(f"go {words[0]}: {done.stderr[-2000:]}")
    return done.stdout


# images


def _images(cache: Path) -> None:
    """``pause``, ``roceway`` and ``roceway-probe``; only roceway's own layer is made anew when its source changed."""
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        work = Path(folder)
        pause = cache / "images/pause.tar"
        if not pause.exists():
            (work / "pause").mkdir(mode=0o755)
            shutil.copy2(cache / "bin/pause", work / "pause/pause")
            image(pause, Binaries.PAUSE, [layer(work / "pause", work / "pause.tar")], {"Entrypoint": ["/pause"]})
        libraries = _layer(cache, work, f"libraries-{_digest(ROOT / 'uv.lock')}", rootfs.libraries)
        own = _layer(cache, work, f"own-{_source_digest()}", rootfs.own)
        seen: set[str] = set()
        layers: list[Path] = []
        for name, packages in _IMAGES.items():
            archives = [path for path in rootfs.download(packages, cache / "debs" / name) if path.name not in seen]
            seen |= {path.name for path in archives}
            base = _layer(cache, work, f"debian-{name}", partial(rootfs.debian, archives))
            layers = [*layers, base] if layers else [base, libraries, own]
            target = cache / f"images/{name}.tar"
            if not target.exists() or target.stat().st_mtime < max(path.stat().st_mtime for path in layers):
                image(
                    target,
                    f"docker.io/library/{name}:0.1.0",
                    layers,
                    {"Env": [_PATH], "Cmd": ["/bin/sh"]},
                )


_PATH = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def _layer(cache: Path, work: Path, name: str, fill: rootfs.Fill) -> Path:
    """A cached layer; older ones of the same kind are removed."""
    target = cache / "layers" / f"{name}.tar"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        for old in target.parent.glob(f"{name.rpartition('-')[0]}-*.tar") if _is_versioned(name) else ():
            old.unlink()
        fill(work / name)
        layer(work / name, work / "fresh.tar").rename(target)
        shutil.rmtree(work / name)
    return target


def _is_versioned(name: str) -> bool:
    return name.startswith(("libraries-", "own-"))


def _digest(*paths: Path) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


def _source_digest() -> str:
    packages = ("conf", "host", "tuner", "cni", "nccltest")
    files = [
        path
        for name in packages
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return _digest(*sorted(files), ROOT / "pyproject.toml")
