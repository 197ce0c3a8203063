"""cnitool, the CNI project's own caller: a network namespace is a pod.

It is built from the Go module proxy, pinned, into ``.cache/cnitool`` of the working tree.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from tests.demo.caller import CNI_PLUGINS, Caller, Pod
from tests.demo.process import CommandError, must
from tests.world import ROOT

__all__ = ["Cnitool", "build", "problem"]

_MODULE = "github.com/containernetworking/cni/cnitool@v1.3.0"
_PROGRAM = ROOT / ".cache" / "cnitool" / "cnitool"
_BUILD_TIMEOUT = 300.0
_TIMEOUT = 60.0


def problem() -> str:
    """Why cnitool cannot be the caller on this machine; empty when it can."""
    if os.geteuid() != 0:
        return "needs root: network namespaces"
    missing = [str(path) for path in (CNI_PLUGINS / "bridge", CNI_PLUGINS / "host-local") if not path.exists()]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if not _PROGRAM.exists() and shutil.which("go") is None:
        return "cnitool is not built and there is no Go to build it with"
    return ""


def build() -> Path:
    """The program, built where it is not yet. CommandError when the module cannot be had."""
    if not _PROGRAM.exists():
        must(["go", "install", _MODULE], timeout=_BUILD_TIMEOUT, env={**os.environ, "GOBIN": str(_PROGRAM.parent)})
    return _PROGRAM


class Cnitool(Caller):
    """cnitool in one host's namespace."""

    def call(self, verb: str, netns: str) -> str:
        """One call, such as ``add``; what it prints."""
        env = {
            "PATH": os.environ["PATH"],
            "CNI_PATH": os.pathsep.join(map(str, self.plugins)),
            "NETCONFPATH": str(self.net_d),
        }
        return must([*self.inside(), str(build()), verb, self.network, netns], timeout=_TIMEOUT, env=env)

    def close(self) -> None:
        """Detach all pods and remove their namespaces."""
        for pod in list(self.pods):
            with suppress(CommandError):
                self.stop(pod)
        for name in self._known():
            with suppress(CommandError):
                must(["ip", "netns", "del", name])

    def _start(self, name: str) -> Pod:
        space = f"{self.name}-{name}"
        must(["ip", "netns", "add", space])
        must(["ip", "-n", space, "link", "set", "lo", "up"])  # what a runtime does, and cnitool does not
        netns = f"/run/netns/{space}"
        self.call("add", netns)
        # The container's id as cnitool makes it from the path.
        container = f"cnitool-{hashlib.sha512(netns.encode()).hexdigest()[:20]}"
        named = ("unshare", "--uts", "--", "sh", "-c", 'hostname "$0" && exec "$@"', name)
        return Pod(name, container, netns, ("nsenter", f"--net={netns}", "--", *named), 0)

    def _stop(self, pod: Pod) -> None:
        self.call("del", pod.netns)
        must(["ip", "netns", "del", os.path.basename(pod.netns)])

    def _known(self) -> list[str]:
        return sorted(path.name for path in Path("/run/netns").glob(f"{self.name}-*"))
