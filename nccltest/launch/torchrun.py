"""torchrun: one call for each node, started there by the agent. Pure."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from nccltest.launch.job import Job
from nccltest.launch.mpirun import Call

__all__ = ["PORT", "calls_of"]

PORT = 29_400
"""Of the rendezvous on the group's first node; groups of one round get ports of their own."""
_JOIN = 60
"""Seconds that a node waits for the others."""


def calls_of(job: Job, agent: Sequence[str], port: int) -> tuple[Call, ...]:
    """One call a node. The remote shell takes one line, so the environment and every word are quoted."""
    return tuple(Call((*agent, node, _line(job, place, port)), {}, {}) for place, node in enumerate(job.nodes))


def _line(job: Job, place: int, port: int) -> str:
    assignments = [f"{name}={value}" for name, value in sorted(job.environment.items())]
    program = job.command[1:] if job.command[0] == sys.executable else ("--no-python", *job.command)
    launcher = (
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(job.nodes)), "--node-rank", str(place)),
        *("--nproc-per-node", str(job.ranks_per_node), "--rdzv-id", job.id, "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", f"{job.nodes[0]}:{port}", "--rdzv-conf", f"join_timeout={_JOIN}", "--max-restarts", "0"),
    )
    return shlex.join(["exec", "env", *assignments, *launcher, *program])
