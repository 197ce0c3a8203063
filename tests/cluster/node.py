"""One node: namespaces of its own, containerd and a kubelet in them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from tests.cluster.binaries import Binaries
from tests.world import CNI_PLUGINS, ROOT, Host, sh

__all__ = ["Node", "until"]

CGROUPS = Path("/sys/fs/cgroup")
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
_UNSHARE = (
    *("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--propagation", "private"),
    "--",
)


def until(what: str, is_so: Callable[[], object], seconds: float = 60.0, every: float = 0.2) -> None:
    """Wait for something. AssertionError that names it when it does not come."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(every)


class Node:
    """A node of a cluster in ``host``'s network namespace. Its files are in ``scratch`` and outlive a reboot."""

    def __init__(self, host: Host, binaries: Binaries, scratch: Path, address: str) -> None:
        self.host = host
        self.name = f"host{host.number}"
        self.binaries = binaries
        self.scratch = scratch
        self.address = address
        self.pods = f"10.244.{host.number}"
        """First three bytes of its pods' addresses."""
        self.group = f"/{host.world.tag}-{self.name}"
        self.pid = 0
        self._unshare: subprocess.Popen[bytes] | None = None
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        scratch.mkdir(parents=True, exist_ok=True)

    # life

    def boot(self) -> None:
        """Its process 1, with nothing else running yet."""
        (self.scratch / "ready").unlink(missing_ok=True)
        program = (sys.executable, "-m", "tests.cluster.init", str(self.scratch))
        log = (self.scratch / "init.log").open("ab")
        self._unshare = started = subprocess.Popen(
            [*_ENDS_WITH_US, "nsenter", f"--net={self.host.ns.path}", "--", *_UNSHARE, *program],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()
        until(f"{self.name} boots", lambda: (self.scratch / "ready").exists() or started.poll() is not None, 20)
        self.pid = _child(started.pid)
        self.run("hostname", self.name)

    def shut(self) -> None:
        """Every process of the node ends at once, as when the power is cut."""
        if self._unshare is not None:
            self._unshare.kill()  # --kill-child: process 1 goes with it, and with it everything
            self._unshare.wait(20)
            with contextlib.suppress(AssertionError):
                until(f"{self.name} is gone", lambda: not _is_alive(self.pid), 20)
        for program in self._programs.values():
            program.kill()
            program.wait(20)
        self._programs.clear()
        self._unshare, self.pid = None, 0
        remove_groups(self.group)

    # programs

    def words(self, *words: str) -> list[str]:
        """A command in the node's namespaces."""
        spaces = ("--mount", "--net", "--pid", "--uts", "--ipc")
        return ["nsenter", f"--target={self.pid}", *spaces, "--wd=/", "--", *words]

    def run(self, *words: str, check: bool = True, stdin: str | None = None) -> str:
        """Run a command on the node; its stdout."""
        return sh(*self.words(*words), check=check, stdin=stdin)

    def roceway(self, program: str, *words: str, check: bool = True) -> str:
        """One of roceway's programs on the node; its stdout."""
        return self.run(str(Path(sys.executable).parent / program), *words, check=check)

    def start(self, name: str, words: Sequence[str], env: dict[str, str] | None = None) -> None:
        """A program that stays; its log is ``NAME.log``."""
        path = f"{self.binaries.folder}:{os.environ['PATH']}:/usr/sbin:/sbin"
        with self.log(name).open("ab") as log:
            self._programs[name] = subprocess.Popen(
                self.words(*words),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": path, "HOME": "/root", **(env or {})},
            )

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Signal a program and wait for its end."""
        program = self._programs[name]
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(_child(program.pid), number)
        program.wait(60)
        del self._programs[name]

    def check_programs(self) -> None:
        """AssertionError with the log of one that has ended by itself."""
        for name, program in self._programs.items():
            assert program.poll() is None, f"{name} of {self.name} has ended:\n{self.log(name).read_text()[-2000:]}"

    def pid_of(self, name: str) -> int:
        """As this machine numbers it."""
        return _child(self._programs[name].pid)

    def log(self, name: str) -> Path:
        """Where a program writes."""
        return self.scratch / f"{name}.log"

    # containerd, kubelet, primary network

    def start_containerd(self) -> None:
        """The runtime with nothing but its CRI."""
        text = _CONTAINERD.format(root=self.scratch / "containerd", pause=Binaries.PAUSE)
        (self.scratch / "containerd.toml").write_text(text)
        self.start("containerd", ["containerd", "--config", str(self.scratch / "containerd.toml")])
        socket = Path(f"/proc/{self.pid}/root/run/containerd/containerd.sock")
        until(f"containerd of {self.name} listens", socket.exists, 30)

    def load(self, image: Path) -> None:
        """Import an image."""
        self.run(str(self.binaries.folder / "ctr"), "-n", "k8s.io", "images", "import", str(image))

    def primary_network(self) -> None:
        """bridge and host-local, as a cluster has them before roceway comes."""
        sh("cp", "-r", f"{CNI_PLUGINS}/.", f"{self.root}/opt/cni/bin/")
        conflist = {
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "cni0",
                    "isGateway": True,
                    "hairpinMode": True,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": f"{self.pods}.0/24"}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                }
            ],
        }
        (self.root / "etc/cni/net.d/10-pods.conflist").write_text(json.dumps(conflist, indent=2))

    @property
    def root(self) -> Path:
        """The node's file system."""
        return Path(f"/proc/{self.pid}/root")

    def start_kubelet(self, kubeconfig: Path, ca: Path) -> None:
        """The node agent of Kubernetes."""
        make_groups(self.group)
        config = {**_KUBELET, "cgroupRoot": self.group}
        config["authentication"] = {
            "x509": {"clientCAFile": str(ca)},
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
        }
        (self.scratch / "kubelet.yaml").write_text(yaml.safe_dump(config))
        self.start("kubelet", [
            "kubelet", f"--config={self.scratch / 'kubelet.yaml'}", f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}", f"--node-ip={self.address}", "--v=2",
        ])  # fmt: skip


def _child(pid: int) -> int:
    """nsenter and unshare fork when they enter a PID namespace."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.01)
    raise AssertionError(f"process {pid} has no child")


def _is_alive(pid: int) -> bool:
    """A process 1 is a zombie once everything in its namespace has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _controllers() -> Iterator[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        yield CGROUPS
    else:
        yield from (path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink())


def make_groups(name: str) -> None:
    """A control group for a node's pods, under every controller."""
    for controller in _controllers():
        (controller / name.lstrip("/")).mkdir(exist_ok=True)
        if controller.name == "cpuset":
            for each in ("cpuset.cpus", "cpuset.mems"):
                (controller / name.lstrip("/") / each).write_text((controller / each).read_text())


def remove_groups(name: str) -> None:
    """With everything below it."""
    for controller in _controllers():
        top = controller / name.lstrip("/")
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def wipe(folder: Path) -> None:
    """A node's scratch folder, once nothing runs there."""
    shutil.rmtree(folder, ignore_errors=True)


_CONTAINERD = """\
version = 2
root = "{root}"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_tcp_service = true
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "runc"
"""

_KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "failSwapOn": False,
    "clusterDNS": ["10.96.0.10"],
    "clusterDomain": "cluster.local",
    "authorization": {"mode": "Webhook"},
    "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "imageGCHighThresholdPercent": 100,
    "nodeStatusUpdateFrequency": "2s",
    "syncFrequency": "5s",
    "serializeImagePulls": True,
    "maxPods": 40,
    "shutdownGracePeriod": "0s",
}
