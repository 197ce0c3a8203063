"""The door to the launcher's own version: part of a baseline where no NCCL prints one."""

from __future__ import annotations

from conf.probe import Benchmark
from nccltest.launch.remote import local

__all__ = ["library_version"]

_LONGEST = 128


def library_version(launcher: str, benchmark: Benchmark) -> str:
    """``mpirun (Open MPI) 4.1.4`` for the MPI benchmark; empty for the others, whose log tells NCCL's version."""
    if benchmark != "mpi" or launcher != "mpirun":
        return ""
    answer = local(("mpirun", "--version"), 10.0)
    return answer.text.split("\n", 1)[0][:_LONGEST] if answer.reached else ""
