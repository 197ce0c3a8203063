"""A real Slurm on a ProbeLab: its controller on the login node, a slurmd on every host."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.netns.probe_lab import ProbeLab
from tests.world import Ns

MISSING = [name for name in ("slurmctld", "slurmd", "srun") if shutil.which(name) is None]
_CGROUP2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
_CONF = """\
ClusterName=lab
SlurmctldHost=login(10.199.255.254)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/slurm
SlurmdSpoolDir={folder}/slurm/spool-%n
TmpFS={folder}/slurm/tmp-%n
SlurmctldPidFile={folder}/slurm/controller.pid
SlurmdPidFile={folder}/slurm/%n.pid
SlurmctldLogFile={folder}/slurm/controller.log
SlurmdLogFile={folder}/slurm/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
KillWait=2
PropagatePrioProcess=1
GresTypes=gpu
NodeName={hosts} NodeAddr=10.199.0.[1-{count}] CPUs=2 Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes={hosts} Default=YES State=UP
"""
_CGROUPS = (
    "mount -t cgroup2 none /sys/fs/cgroup"
    if _CGROUP2
    else "mount -t tmpfs none /sys/fs/cgroup && "
    "for one in freezer cpuset memory cpu cpuacct devices; do "
    "mkdir /sys/fs/cgroup/$one && mount -t cgroup -o $one none /sys/fs/cgroup/$one; done"
)


class Slurm:
    """Use as a context manager; ``environment`` is what its clients need."""

    def __init__(self, lab: ProbeLab) -> None:
        self.lab = lab
        self.folder = lab.folder / "slurm"
        self.folder.mkdir()
        for name in lab.names:
            (self.folder / f"spool-{name}").mkdir()
            (self.folder / f"tmp-{name}").mkdir()
        conf = self.folder / "slurm.conf"
        hosts = f"n[0-{len(lab.names) - 1}]"
        conf.write_text(_CONF.format(folder=lab.folder, hosts=hosts, count=len(lab.names)))
        plugin = "IgnoreSystemd=yes" if _CGROUP2 else "CgroupPlugin=cgroup/v1"
        (self.folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")  # srun asks for GPUs
        (self.folder / "cgroup.conf").write_text(f"{plugin}\n")
        self.environment = {"SLURM_CONF": str(conf)}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Slurm:
        try:
            self._daemons.append(self._start(self.lab.fabric, "login", "slurmctld -D"))
            for name in self.lab.names:
                self._daemons.append(self._start(self.lab.spaces[name], name, f"slurmd -D -N {name}"))
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _start(self, space: Ns, host: str, command: str) -> subprocess.Popen[bytes]:
        """In the host's namespace, under its own name."""
        space.ip("link", "set", "lo", "up")
        line = f"mount -t sysfs none /sys && {_CGROUPS} && hostname {host} && exec {command}"
        words = ["nsenter", f"--net={space.path}", "unshare", "--uts", "--mount", "sh", "-c", line]
        with (self.folder / f"{host}.output").open("wb") as told:
            return subprocess.Popen(words, stdout=told, stderr=told, env={**os.environ, **self.environment})

    def ask(self, *words: str) -> str:
        """A client's answer on the login node."""
        inside = ["nsenter", f"--net={self.lab.fabric.path}", "--", *words]
        done = subprocess.run(
            inside, capture_output=True, text=True, timeout=30, env={**os.environ, **self.environment}, check=False
        )
        return done.stdout

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while self.ask("sinfo", "--noheader", "--format=%t").split() != ["idle"]:
            if time.monotonic() > deadline:
                told = [path.read_text()[-2000:] for path in sorted(self.folder.glob("*.output"))]
                raise TimeoutError("Slurm's nodes did not become idle:\n" + "\n".join(told))
            time.sleep(0.2)

    def _end(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
