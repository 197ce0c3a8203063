"""Open MPI 4 and 5: words, hostfile and environment. Pure.

MCA parameters travel in the environment under both releases' names (OMPI_MCA_*, PRTE_MCA_*), not as words: there is
nothing to quote, and the same call works with either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nccltest.launch.job import MARK, Job
from nccltest.launch.openmpi import tcp_parameters

__all__ = ["Call", "call_of"]

_KILL_AFTER = 15
"""Seconds that mpirun gets beyond our own timeout before it ends itself: the net below the net."""


@dataclass(frozen=True)
class Call:
    """One program to start."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    """Added to the probe's own."""
    files: Mapping[str, str]
    """Name in the job's folder -> text. ``{folder}`` in words and environment is that folder."""


def call_of(job: Job, agent: Sequence[str], *, root: bool, gpus: bool) -> Call:
    """How mpirun starts the job. ``gpus``: the benchmark moves its data with NCCL, MPI only brings the ranks together.

    Without GPUs MPI's own traffic is what is measured, so it is bound to the rails, and to a ring.
    """
    hostfile = "".join(f"{node} slots={job.ranks_per_node}\n" for node in job.nodes)
    words = [
        "mpirun",
        *(["--allow-run-as-root"] if root else []),
        *("--hostfile", "{folder}/hosts", "-np", str(job.ranks), "--map-by", f"ppr:{job.ranks_per_node}:node"),
        *("--bind-to", "none" if not gpus else "numa", "--timeout", str(int(job.timeout) + _KILL_AFTER)),
        *(word for name in sorted(job.environment) for word in ("-x", name)),
        *job.command,
    ]
    return Call(tuple(words), {**job.environment, **_parameters(job, agent, gpus)}, {"hosts": hostfile})


def _parameters(job: Job, agent: Sequence[str], gpus: bool) -> dict[str, str]:
    launch = f"env {MARK}={job.id}"
    common = {"plm_rsh_no_tree_spawn": "1"}
    ompi = {
        **common,
        "plm_rsh_agent": " ".join(agent),
        "orte_launch_agent": f"{launch} orted",
        "orte_tmpdir_base": "{folder}",
        "pml": "ob1",
        "btl": "tcp,self",
    }
    prte = {
        "plm_ssh_agent": " ".join(agent),
        "plm_ssh_no_tree_spawn": "1",
        "prte_launch_agent": f"{launch} prted",
        "prte_tmpdir_base": "{folder}",
    }
    if job.interface:
        ompi["oob_tcp_if_include"] = prte["oob_tcp_if_include"] = job.interface
    if gpus:
        ompi |= {"btl_tcp_if_include": job.interface} if job.interface else {}
    else:
        ompi |= tcp_parameters(job)
    return {f"OMPI_MCA_{key}": value for key, value in ompi.items()} | {
        f"PRTE_MCA_{key}": value for key, value in prte.items()
    }
