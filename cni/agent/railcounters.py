"""What a rail's NIC has counted: RDMA port and priority flow control, wherever the NIC is now. A door."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from cni.agent.nodeview import RailView
from host import rdma
from host.errors import HostError
from host.ethtool import Ethtool
from host.netns import Netns, inside
from tuner.counters import counters

__all__ = ["RDMA", "RailCounters", "read"]

# Bounded on purpose: a driver has hundreds. Sources: Documentation/ABI/stable/sysfs-class-infiniband (the first six);
# the mlx5, bnxt_re and irdma drivers' hw_counters (the others).
RDMA = (
    "link_downed",
    "port_rcv_data",
    "port_rcv_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "symbol_error",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "rp_cnp_handled",
)
"""The RDMA counters that are told, by the kernel's names."""


class RailCounters(NamedTuple):
    """Counters of one rail's NIC since its driver was loaded."""

    rail: str
    rdma: Mapping[str, int]
    pause: Mapping[tuple[str, int], int] = MappingProxyType({})
    """(``rx`` or ``tx``, priority) to PFC frames; empty where the driver does not count them."""
    paused_us: Mapping[tuple[str, int], int] = MappingProxyType({})
    """The same to microseconds."""


def read(rails: Sequence[RailView], root: str = "/") -> tuple[RailCounters, ...]:
    """Of every rail that is to be seen; one that vanishes meanwhile is left out."""
    found = []
    for rail in rails:
        if not rail.netdev:
            continue
        try:
            with _place(rail, root) as (ethtool, sysfs):
                found.append(_read(rail, ethtool, sysfs))
        except HostError:
            continue
    return tuple(found)


@contextmanager
def _place(rail: RailView, root: str) -> Iterator[tuple[Ethtool, str]]:
    """An ethtool door and a sysfs where the rail's NIC is."""
    if not rail.inside:
        ethtool = Ethtool()
        try:
            yield ethtool, f"{root.rstrip('/')}/sys"
        finally:
            ethtool.close()
        return
    pod = Netns.open(rail.holders[0].netns)
    try:
        with inside(pod):
            ethtool = Ethtool()  # its sockets stay there
        try:
            with rdma.sysfs_of(pod) as sysfs:
                yield ethtool, sysfs
        finally:
            ethtool.close()
    finally:
        pod.close()


def _read(rail: RailView, ethtool: Ethtool, sysfs: str) -> RailCounters:
    numbers: dict[str, int] = {}
    if rail.rdma:
        numbers |= rdma.counters(rail.rdma, rail.port, sysfs=sysfs)
        numbers |= rdma.hw_counters(rail.rdma, rail.port, sysfs=sysfs)
    told = counters(ethtool.statistics(rail.netdev), {})
    directions = (("rx", told.rx_pause, told.rx_pause_us), ("tx", told.tx_pause, told.tx_pause_us))
    return RailCounters(
        rail.name,
        {name: numbers[name] for name in RDMA if name in numbers},
        {(way, priority): value for way, frames, _ in directions for priority, value in enumerate(frames or ())},
        {(way, priority): value for way, _, times in directions for priority, value in enumerate(times or ())},
    )
