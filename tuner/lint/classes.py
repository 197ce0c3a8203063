"""What RoCE's classes are: as the fabric wants them, and as a host marks them. Pure."""

from __future__ import annotations

from conf.qos import Qos
from tuner.lint.subjects import NicAt

__all__ = ["classes", "roce_dscp", "tos_sources", "wanted_pfc", "wanted_tos"]


def classes(qos: Qos) -> tuple[tuple[int, int], ...]:
    """(DSCP, priority) of every class that PFC is to protect; RoCE's own first, unless it is to run without PFC."""
    own = ((qos.lossless.dscp, qos.lossless.priority),) if qos.lossless.pfc else ()
    return (*own, *((each.dscp, each.priority) for each in qos.also))


def wanted_pfc(qos: Qos) -> frozenset[int]:
    """The priorities that are to have PFC."""
    return frozenset(priority for _, priority in classes(qos))


def wanted_tos(qos: Qos) -> int:
    """RoCE's ToS byte: DSCP << 2, and ECT(0) where there is ECN."""
    return qos.lossless.dscp << 2 | (2 if qos.ecn.enabled else 0)


def tos_sources(at: NicAt) -> dict[str, int]:
    """Everything that sets RoCE's ToS byte, by name.

    The device's ``traffic_class`` overrides the others, so a ``rdma_cm`` that nobody set (0) counts only without it.
    """
    tos = at.nic.tos
    found = {
        "traffic_class": tos.traffic_class,
        "rdma_cm": tos.rdma_cm if tos.rdma_cm or tos.traffic_class is None else None,
        "NCCL_IB_TC": at.host.nccl_ib_tc,
        "UCX_IB_TRAFFIC_CLASS": at.host.ucx_tc,
    }
    return {name: value for name, value in found.items() if value is not None}


def roce_dscp(at: NicAt) -> int | None:
    """The DSCP of RoCE packets: what the fabric says, else what the NIC itself is set to; None for unknown."""
    if at.qos:
        return at.qos.lossless.dscp
    return next((tos >> 2 for tos in tos_sources(at).values() if tos), None)
