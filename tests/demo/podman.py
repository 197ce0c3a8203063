"""podman with its CNI backend as the caller: a container is a pod.

The machine's own podman is neither read nor written: configuration and storage by environment, locks in files (the
default is one shared memory segment for all), a cgroup that goes with the demo. A container runs the machine's
``/usr``, read-only, so that no image is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.demo.caller import CNI_PLUGINS, Caller, Pod
from tests.demo.process import CommandError, must, run

__all__ = ["Podman", "problem"]

_CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
runtime = "runc"
tmp_dir = "{folder}/tmp"
[network]
network_backend = "cni"
network_config_dir = "{folder}/net.d"
cni_plugin_dirs = {plugins}
"""
_STORAGE_CONF = """\
[storage]
driver = "vfs"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""
_TOOLS = ("podman", "runc", "conmon", "nsenter")
_PLUGINS = (CNI_PLUGINS / "bridge", CNI_PLUGINS / "host-local")
_FOLDERS = ("usr", "proc", "sys", "dev", "etc", "tmp", "run")
_LINKS = ("bin", "sbin", "lib", "lib64")
_CGROUPS = Path("/sys/fs/cgroup")
_MONITOR_ENDS = 10.0
_POLL = 0.05
_TIMEOUT = 60.0


def problem() -> str:
    """Why podman cannot be the caller on this machine; empty when it can."""
    if os.geteuid() != 0:
        return "needs root: containers and network namespaces"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    missing += [str(path) for path in _PLUGINS if not path.exists()]
    if missing:
        return f"not installed: {', '.join(missing)}"
    with tempfile.TemporaryDirectory(prefix="roceway-podman-") as folder:
        done = run(["podman", "info", "--format", "json"], timeout=_TIMEOUT, env=_write(Path(folder), ()))
    # podman 3 has no such field, and does not keep the demo's networks apart from the machine's.
    backend = "none" if done.code else json.loads(done.stdout)["host"].get("networkBackend", "that of podman 3")
    if backend == "cni":
        return ""
    told = done.stderr.strip() or f"its network backend is {backend}"
    return f"this podman cannot call CNI plugins ({told}); with Go installed: python -m tests.demo --caller cnitool"


def _write(folder: Path, plugins: Sequence[Path]) -> Mapping[str, str]:
    """podman's two configuration files; the environment that makes it read these and no others."""
    containers, storage = folder / "containers.conf", folder / "storage.conf"
    containers.write_text(
        _CONTAINERS_CONF.format(folder=folder, plugins=json.dumps([str(path) for path in (*plugins, CNI_PLUGINS)]))
    )
    storage.write_text(_STORAGE_CONF.format(folder=folder))
    return {
        "PATH": os.environ["PATH"],
        "CONTAINERS_CONF": str(containers),
        "CONTAINERS_STORAGE_CONF": str(storage),
    }


class Podman(Caller):
    """podman in one host's namespace."""

    def __init__(self, name: str, netns: str, folder: Path, plugins: Sequence[Path]) -> None:
        super().__init__(name, netns, folder, plugins)
        self._env = _write(folder, plugins)
        self._rootfs = folder / "rootfs"
        for part in _FOLDERS:
            (self._rootfs / part).mkdir(parents=True)
        for part in _LINKS:
            (self._rootfs / part).symlink_to(f"usr/{part}")

    def exec(self, pod: Pod, *words: str) -> str:
        """The stdout of a command inside a container."""
        return self._podman("exec", pod.name, *words)

    def close(self) -> None:
        """Remove all containers, then what podman leaves of its cgroup."""
        self.pods.clear()
        with suppress(CommandError):
            for name in self._known():  # also those that were started in part
                with suppress(CommandError):
                    self._remove(name)
        _remove_cgroup(self.name)

    def _start(self, name: str) -> Pod:
        container = self._podman(
            *("run", "--detach", "--name", name, "--hostname", name, "--network", self.network, "--no-hosts"),
            *("--cgroup-parent", f"/{self.name}", "--stop-timeout", "0", "--security-opt", "apparmor=unconfined"),
            # Where ping carries file capabilities, exec refuses it in a container that may not have them (podman 4.4+).
            *("--cap-add", "NET_RAW"),
            *("--volume", "/usr:/usr:ro", "--rootfs", str(self._rootfs), "sleep", "infinity"),
        ).strip()
        (seen,) = json.loads(self._podman("container", "inspect", container))
        pid = int(seen["State"]["Pid"])
        enter = ("nsenter", f"--net=/proc/{pid}/ns/net", f"--uts=/proc/{pid}/ns/uts", "--")
        return Pod(name, container, seen["NetworkSettings"]["SandboxKey"], enter, pid)

    def _stop(self, pod: Pod) -> None:
        self._remove(pod.name)

    def _remove(self, name: str) -> None:
        done = run([*self.inside(), "podman", "rm", "--force", name], timeout=_TIMEOUT, env=self._env)
        if done.code or done.stderr.strip():  # a plugin's failing DEL is logged, and the exit code 0
            raise CommandError(
                f"podman rm {name} on {self.name}: exit {done.code}\n{done.stdout}{done.stderr}".rstrip()
            )

    def _known(self) -> list[str]:
        return self._podman("ps", "--all", "--format", "{{.Names}}").split()

    def _podman(self, *words: str) -> str:
        return must([*self.inside(), "podman", *words], timeout=_TIMEOUT, env=self._env)


def _remove_cgroup(name: str) -> None:
    """Remove the demo's cgroups. A container's monitor may outlive `podman rm` for a moment, and its cgroup with it."""
    deadline = time.monotonic() + _MONITOR_ENDS
    while tops := [top for top in (_CGROUPS / name, *_CGROUPS.glob(f"*/{name}")) if top.is_dir()]:
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)
        if time.monotonic() >= deadline:
            return
        time.sleep(_POLL)
