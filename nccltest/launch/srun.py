"""Slurm: srun's words. Pure. The environment travels by inheritance (--export=ALL), so nothing needs quoting."""

from __future__ import annotations

import math

from conf.probe import Slurm
from nccltest.launch.job import Job
from nccltest.launch.mpirun import Call
from nccltest.launch.openmpi import tcp_parameters

__all__ = ["call_of", "cancel", "inside"]

_WAIT = 15
"""Seconds that the other ranks have when one has ended."""


def _name(job: Job) -> str:
    return f"roceway-probe-{job.id}"


def call_of(job: Job, slurm: Slurm, *, gpus: bool) -> Call:
    """How srun starts the job; ended by Slurm itself a minute after our own timeout."""
    words = [
        *("srun", "--job-name", _name(job), "--nodes", str(len(job.nodes)), "--nodelist", ",".join(job.nodes)),
        *("--ntasks-per-node", str(job.ranks_per_node), "--ntasks", str(job.ranks), "--mpi", slurm.mpi),
        *(["--gpus-per-node", str(job.ranks_per_node)] if gpus else []),
        *("--kill-on-bad-exit=1", f"--wait={_WAIT}", "--unbuffered", "--export", "ALL", "--input", "none"),
        *("--time", str(math.ceil(job.timeout / 60) + 1)),
        *_placed(slurm),
        *job.command,
    ]
    own = {} if gpus else {f"OMPI_MCA_{name}": value for name, value in tcp_parameters(job).items()}
    return Call(tuple(words), {**own, **job.environment}, {})


def _placed(slurm: Slurm) -> list[str]:
    words = ["--partition", slurm.partition] if slurm.partition else []
    words += ["--account", slurm.account] if slurm.account else []
    return [*words, *slurm.options]


def cancel(job: Job) -> tuple[str, ...]:
    """The words that end whatever is left of it."""
    return ("scancel", "--name", _name(job), "--full")


def inside(node: str, command: tuple[str, ...], slurm: Slurm) -> tuple[str, ...]:
    """The words that run a small command on a node."""
    limits = ("--time", "1", "--immediate=10", "--input", "none")
    return ("srun", "--nodes", "1", "--ntasks", "1", "--nodelist", node, *limits, *_placed(slurm), *command)
