"""``mpirun`` over the pods: one all-reduce per rail, bound to that rail's subnet, its result checked in every rank.

mpirun sits in the fabric's namespace, as on a login node. Its rsh agent enters a pod's namespaces where others would
log in with ssh; its own traffic goes over the pods' eth0.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nccltest.mpi_allreduce import EXIT_WRONG_DATA, busbw_factor
from tests.demo.caller import Pod
from tests.demo.lab import MANAGEMENT
from tests.demo.process import CommandError, Done, Signals, inside, run
from tests.world import ROOT

_TIMEOUT = 60.0
"""Seconds; a round takes three."""

_AGENT = """\
#!/bin/bash
# mpirun's rsh agent: agent POD COMMAND... runs the command in the pod's namespaces.
mapfile -t enter <"${BASH_SOURCE%/*}/pods/${1//\\//}" || exit 1
shift
exec "${enter[@]}" /bin/sh -c "$*"
"""

_MCA = {
    "oob_tcp_if_include": str(MANAGEMENT),
    "pml": "ob1",
    "btl": "tcp,self",  # pods on one machine could share memory: the rails would carry nothing
    "mpi_yield_when_idle": "1",  # more ranks than cores
    "coll_tuned_use_dynamic_rules": "1",
    "coll_tuned_allreduce_algorithm": "4",  # ring: the one whose bus bandwidth is the rate on the wire
}


class Load(NamedTuple):
    """How much to measure."""

    size: str
    iterations: int
    warmups: int


class Measured(NamedTuple):
    """One rail's all-reduce."""

    rail: str
    busbw: float
    """Bytes per second, mean of both halves."""
    wrong: int
    """Wrong elements over all ranks."""


class Launcher:
    """mpirun for a set of pods."""

    def __init__(self, login: str, pods: Sequence[Pod], folder: Path, signals: Signals) -> None:
        self._login = login
        self._pods = tuple(pods)
        self._folder = folder
        self._signals = signals
        self._namespaces = frozenset(pod.inode for pod in pods)
        self._spare = frozenset(pod.pid for pod in pods)
        (folder / "pods").mkdir(parents=True)
        (folder / "sessions").mkdir()
        for pod in pods:
            (folder / "pods" / pod.name).write_text("\n".join(pod.enter) + "\n")
        self._agent = folder / "agent"
        self._agent.write_text(_AGENT)
        self._agent.chmod(0o755)

    def measure(self, rail: str, subnet: str, load: Load) -> Measured:
        """An all-reduce over the rail of ``subnet``. CommandError when it does not end in time, or ends badly."""
        try:
            done = run(
                self._words(subnet, load),
                timeout=_TIMEOUT,
                signals=self._signals,
                env=environment(self._folder / "sessions"),
            )
        finally:
            self._sweep()
        if done.code not in (0, EXIT_WRONG_DATA):
            raise CommandError(f"mpirun on {rail}: exit {done.code}\n{done.stdout}{done.stderr}".rstrip())
        return parse(rail, done, len(self._pods))

    def _words(self, subnet: str, load: Load) -> list[str]:
        mca = {
            **_MCA,
            "plm_rsh_agent": str(self._agent),
            "orte_tmpdir_base": str(self._folder / "sessions"),
            "btl_tcp_if_include": subnet,
        }
        return [
            *("nsenter", f"--net={self._login}", "--", "mpirun", "--allow-run-as-root"),
            *("-np", str(len(self._pods)), "-H", ",".join(pod.name for pod in self._pods)),
            *("--map-by", "node", "--bind-to", "none", "--oversubscribe", "-wdir", str(ROOT)),
            *(word for key, value in mca.items() for word in ("--mca", key, value)),
            *(sys.executable, "-m", "nccltest.mpi_allreduce", "-b", load.size, "-e", load.size),
            *("-n", str(load.iterations), "-w", str(load.warmups), "-c", "1"),
        ]

    def _sweep(self) -> None:
        """mpirun's daemons have sessions of their own: after it, nothing of theirs may run in a pod."""
        for pid in inside(self._namespaces):
            if pid not in self._spare:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def environment(temporary: Path) -> dict[str, str]:
    """Nothing of the operator's own MPI settings; what PMIx leaves when it is killed goes with the demo's folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMIX_", "CNI_"))}
    return {**kept, "TMPDIR": str(temporary)}


def parse(rail: str, done: Done, ranks: int) -> Measured:
    """The one row of an nccl-tests table. The rates come from size and time: its columns round to 0.01 GB/s."""
    rows = [line.split() for line in done.stdout.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(rows) != 1 or len(rows[0]) != 13:
        raise CommandError(f"mpirun on {rail}: no table in its output\n{done.stdout}{done.stderr}".rstrip())
    (row,) = rows
    size, apart, in_place = int(row[0]), float(row[5]), float(row[9])
    rate = (size / apart + size / in_place) / 2 * 1e6
    return Measured(rail, rate * busbw_factor(ranks), int(float(row[8])) + int(float(row[12])))
