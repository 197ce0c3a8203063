"""torchrun: one call for each node, started there by the agent. Pure."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from nccltest.launch.job import Job
from nccltest.launch.mpirun import Call

__all__ = ["PORT", "calls_of", "words"]

PORT = 29_400
"""Of the rendezvous on the group's first node; groups of one round get ports of their own."""
_JOIN = 60
"""Seconds that a node waits for the others."""


def calls_of(job: Job, agent: Sequence[str], port: int) -> tuple[Call, ...]:
    """One call a node. The remote shell takes one line, so the environment and every word are quoted."""
    return tuple(Call((*agent, node, _line(job, place, port)), {}, {}) for place, node in enumerate(job.nodes))


def _line(job: Job, place: int, port: int) -> str:
    assignments = [f"{name}={value}" for name, value in sorted(job.environment.items())]
    return shlex.join(["exec", "env", *assignments, *words(job, str(place), f"{job.nodes[0]}:{port}")])


def words(job: Job, place: str, endpoint: str, python: str = sys.executable) -> tuple[str, ...]:
    """What one node runs. ``place``: its number, ``endpoint``: where the nodes meet.

    The first node holds the meeting because of its number: by torch's other way (c10d) it would have to find its own
    host name in ``endpoint``, and a pod's is not the name by which others reach it. Options are spelled as torch from
    1.9 on understands them; hyphens came with 2.0.
    """
    program = job.command[1:] if job.command[0] == sys.executable else ("--no_python", *job.command)
    host, _, port = endpoint.rpartition(":")
    return (
        *(python, "-m", "torch.distributed.run", "--nnodes", str(len(job.nodes)), "--node_rank", place),
        *("--nproc_per_node", str(job.ranks_per_node), "--rdzv_id", job.id, "--rdzv_backend", "static"),
        *("--master_addr", host, "--master_port", port, "--rdzv_conf", f"timeout={_JOIN}", "--max_restarts", "0"),
        *program,
    )
