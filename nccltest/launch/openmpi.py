"""What Open MPI must be told for the stand-in benchmark, whoever starts its ranks. Pure."""

from __future__ import annotations

from nccltest.launch.job import Job

__all__ = ["tcp_parameters"]

_MOST_EAGER = 64 << 20
_HEADER = 1024


def tcp_parameters(job: Job) -> dict[str, str]:
    """MCA parameters of an all-reduce over TCP on the rails' own addresses: a ring, both directions at once."""
    return {
        "pml": "ob1",
        "btl": "tcp,self",
        "mpi_yield_when_idle": "1",
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_allreduce_algorithm": "4",  # ring
        **_eager(max(job.sizes, default=0)),
        **({"btl_tcp_if_include": ",".join(job.subnets)} if job.subnets else {}),
    }


def _eager(size: int) -> dict[str, str]:
    """Messages without a rendezvous: its acknowledgement waits in the same stream behind what the receiver is sending
    itself, so that two ranks which send to each other would use one direction at a time, and half of the rate.
    """
    if size > _MOST_EAGER:
        return {}  # each rank sets memory of this size aside
    return {f"btl_tcp_{name}": str(size + _HEADER) for name in ("eager_limit", "rndv_eager_limit", "max_send_size")}
