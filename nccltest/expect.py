"""Without history: what line rate allows, so that an unknown machine needs no table of thresholds. Pure.

Three conversions between bus bandwidth and what one NIC carries, for n ranks on k nodes with R rails:

- Ring, one rail, one rank for each node: busbw is the NIC's rate.
- Ring, R rails: every ring crosses each NIC once; busbw is the sum of the NICs, R x rate.
- Hierarchical (inside the node first, as NVLS and PXN do): rate = busbw (k-1)/(n-1), so busbw is more than R x rate.

alltoall is no ring: of a rank's n-1 peers those on its own node need no wire, which leaves (n-n/k)/(n-1) of the
traffic.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["LOW", "Way", "expected_busbw", "wire_rate"]

Way = Literal["ring", "hierarchical"]

LOW = 0.7
"""Share of the expectation below which a group without history is called slow. Healthy machines reach 80 to 97 %."""
_PAIRWISE = ("alltoall", "alltoallv", "gather", "scatter", "hypercube")


def wire_rate(busbw: float, collective: str, ranks: int, nodes: int, rails: int = 1, way: Way = "ring") -> float:
    """What one NIC carries (GB/s) when nccl-tests prints ``busbw``. ``rails``: NICs of a node that share the work.

    0 where no wire is used (one node). ValueError for counts that cannot be.
    """
    return busbw * _share(collective, ranks, nodes, rails, way)


def expected_busbw(line: float, collective: str, ranks: int, nodes: int, rails: int = 1, way: Way = "ring") -> float:
    """The busbw (GB/s) at which every NIC carries ``line`` GB/s: the most that the network allows. inf on one node."""
    share = _share(collective, ranks, nodes, rails, way)
    return line / share if share else float("inf")


def _share(collective: str, ranks: int, nodes: int, rails: int, way: Way) -> float:
    """One NIC's rate over busbw."""
    if not (ranks >= nodes >= 1 and rails >= 1):
        raise ValueError(f"{ranks} ranks on {nodes} nodes with {rails} rails cannot be")
    if nodes == 1:
        return 0.0
    if collective in _PAIRWISE:
        per_node = ranks / nodes
        return (ranks - per_node) / (ranks - 1) * per_node / rails
    if way == "hierarchical":
        per_node = ranks / nodes
        return (nodes - 1) / (ranks - 1) * per_node / rails
    return 1 / rails
