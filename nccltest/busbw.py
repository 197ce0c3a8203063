"""Bus bandwidth and the collectives: what factor is in it, and what it says of the wire. Pure.

Source: nccl-tests, doc/PERFORMANCE.md and src/*.cu (``getBw``). n is the number of ranks in one communicator.
"""

from __future__ import annotations

__all__ = ["COLLECTIVES", "factor", "ranks_of"]

_SHARE = ("all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter")
"""Each rank keeps its own part: (n−1)/n of the total crosses a wire."""
_ONCE = ("broadcast", "reduce", "sendrecv", "hypercube")
"""hypercube's algorithm bandwidth already holds its n−1."""
COLLECTIVES = ("all_reduce", *_SHARE, *_ONCE)
"""nccl-tests' programs without their ``_perf``."""

_TOLERANCE = 1e-3


def factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth. 0 for one rank where others are needed; ValueError for a strange name."""
    if collective in _ONCE:
        return 1.0
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in _SHARE:
        return (ranks - 1) / ranks
    raise ValueError(f"{collective!r} is no collective of nccl-tests")


def ranks_of(share: float) -> int:
    """The ranks whose ``(n−1)/n`` this is; 0 where that is not clear.

    From two decimals in a table n is clear up to some thirty ranks.
    """
    if not 0 < share < 1:
        return 0
    ranks = round(1 / (1 - share))
    here = (ranks - 1) / ranks
    nearest = min(abs((other - 1) / other - here) for other in (ranks - 1, ranks + 1) if other > 0)
    return ranks if ranks >= 2 and abs(here - share) < min(_TOLERANCE, nearest / 4) else 0
