"""Where the cluster's programs are: ``.cache/cluster``, filled by ``python -m tests.cluster build``."""

from __future__ import annotations

from pathlib import Path

from tests.world import ROOT

__all__ = ["CACHE", "Binaries", "UnavailableError"]

CACHE = ROOT / ".cache" / "cluster"


class UnavailableError(Exception):
    """There is no cluster to be had on this machine."""


class Binaries:
    """Programs and images."""

    NAMES = (
        "kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "dns", "pause",
        "etcd", "containerd", "containerd-shim-runc-v2", "ctr",
    )  # fmt: skip
    PAUSE = "localhost/pause:1"

    def __init__(self, cache: Path = CACHE) -> None:
        self.folder = cache / "bin"
        self.images = cache / "images"
        missing = [name for name in self.NAMES if not (self.folder / name).exists()]
        if missing:
            raise UnavailableError(f"{cache} has no {', '.join(missing)}: python -m tests.cluster build")

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)
