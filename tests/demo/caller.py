"""Who calls the CNI: a real runtime, once for every host, with configuration and storage of its own."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

CNI_PLUGINS = Path("/usr/lib/cni")
_RESULTS = Path("/var/lib/cni/results")
"""Where libcni keeps the result of an ADD until the DEL."""


class Pod(NamedTuple):
    """A running pod."""

    name: str
    container: str
    """The id under which the CNI knows it."""
    netns: str
    """A path of its network namespace."""
    enter: tuple[str, ...]
    """The words that run a command in it, under a host name of its own."""
    pid: int
    """Its first process; 0 where there is none."""

    @property
    def inode(self) -> int:
        """What identifies the namespace; only while it lives."""
        return os.stat(self.netns).st_ino


class Caller(ABC):
    """A CNI caller on one host. ``plugins`` are searched before the distribution's."""

    def __init__(self, name: str, netns: str, folder: Path, plugins: Sequence[Path]) -> None:
        self.name = name
        """Unique on this machine: namespaces and cgroups carry it."""
        self.netns = netns
        """Path of the host's network namespace."""
        self.folder = folder
        self.plugins = (*plugins, CNI_PLUGINS)
        self.network = ""
        self.pods: list[Pod] = []
        """Running now."""
        self.started: list[Pod] = []
        """Every one that was ever started."""
        self.net_d = folder / "net.d"
        self.net_d.mkdir(parents=True)

    def configure(self, network: str, conflist: str) -> None:
        """Write the network's conflist."""
        self.network = network
        (self.net_d / f"{network}.conflist").write_text(conflist)

    def start(self, name: str) -> Pod:
        """Start a pod on the network. CommandError when the runtime or a plugin fails."""
        pod = self._start(name)
        self.pods.append(pod)
        self.started.append(pod)
        return pod

    def stop(self, pod: Pod) -> None:
        """End a pod. CommandError when the runtime or a plugin fails."""
        self._stop(pod)
        self.pods.remove(pod)

    def remains(self) -> list[str]:
        """What there is for pods of this host, one line each; nothing after the last has ended."""
        lines = [f"container {name}" for name in self._known()]
        lines += [f"host-local address {path.name}" for path in self.leases().glob("*") if path.name[0].isdigit()]
        for pod in self.started:
            lines += [f"cached CNI result {path.name}" for path in _RESULTS.glob(f"*{pod.container}*")]
            lines += [f"namespace {pod.netns}"] if os.path.lexists(pod.netns) else []
        return sorted(lines)

    def leases(self) -> Path:
        """Where host-local keeps the addresses of the network; its dataDir is the parent."""
        return self.folder / "host-local" / self.network

    def inside(self) -> list[str]:
        """The words that run a command in the host's namespace, without ``ip netns exec``'s private mounts: those
        would hide from everyone else the namespaces that the runtime mounts."""
        return ["nsenter", f"--net={self.netns}", "--"]

    @abstractmethod
    def close(self) -> None:
        """End everything that is still there, in whatever state; raises nothing."""

    @abstractmethod
    def _start(self, name: str) -> Pod: ...

    @abstractmethod
    def _stop(self, pod: Pod) -> None: ...

    @abstractmethod
    def _known(self) -> list[str]:
        """Names of the pods in the runtime's own books."""


Maker = Callable[[str, str, Path, Sequence[Path]], Caller]
"""Makes a host's caller: name, network namespace, a folder of its own, where its plugins are."""
