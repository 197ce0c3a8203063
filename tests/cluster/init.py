"""Process 1 of a node: makes the folders private that a node's programs use, then reaps until it is killed.

Started by :mod:`tests.cluster.node` under ``unshare`` with namespaces of its own; the network namespace is the host's
of a :class:`tests.world.World`. Nothing of this machine's own /run, /var, /etc/cni or /opt/cni is touched.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

_TUNABLES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What the kubelet wants the kernel to be set to. They are this machine's own, so it is shown files that say so."""
_PRIVATE = ("etc", "opt", "var")
_KEPT = ("/var/lib/kubelet", "/var/lib/roceway", "/etc/cni/net.d", "/opt/cni/bin")
"""Empty at first, there again after the node's reboot."""


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _make_private(scratch: Path) -> None:
    _mount("--make-rprivate", "/")
    _mount("-t", "proc", "proc", "/proc")
    _mount_sys(scratch)
    for name in _PRIVATE:
        upper, work = scratch / f"{name}-upper", scratch / f"{name}-work"
        upper.mkdir(exist_ok=True)
        work.mkdir(exist_ok=True)
        _mount("-t", "overlay", "overlay", "-o", f"lowerdir=/{name},upperdir={upper},workdir={work}", f"/{name}")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    if not os.path.islink("/var/run"):
        _mount("--bind", "/run", "/var/run")
    Path("/run/netns").mkdir()
    for place in _KEPT:
        kept = scratch / place.strip("/").replace("/", "-")
        kept.mkdir(exist_ok=True)
        os.makedirs(place, exist_ok=True)
        _mount("--bind", str(kept), place)
    for name, value in _TUNABLES.items():
        told = scratch / "tunables" / name
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(f"{value}\n")
        _mount("--bind", str(told), f"/proc/sys/{name}")
    _mount("--make-rshared", "/")


def _mount_sys(scratch: Path) -> None:
    """The network namespace's own /sys, with the control groups of the machine."""
    groups = scratch / "cgroup"
    groups.mkdir(exist_ok=True)
    _mount("--rbind", "/sys/fs/cgroup", str(groups))
    _mount("-t", "sysfs", "sysfs", "/sys")
    _mount("--rbind", str(groups), "/sys/fs/cgroup")


def main(scratch: Path) -> None:
    """Prepare, say ``ready`` and live."""
    _make_private(scratch)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    (scratch / "ready").write_text("")
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            signal.sigtimedwait([signal.SIGCHLD], 0.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
