"""Probable causes, as a table: what was seen, what it means, where to look, what to run next. Pure.

Counter names: mlx5 ``ethtool -S`` and RDMA counters (kernel Documentation/networking/device_drivers/ethernet/mellanox,
NVIDIA's "Understanding mlx5 ethtool counters"), bnxt_en, ice and irdma where theirs differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["ROWS", "Row", "Seen"]

Sign = Literal["any", "stands-out"]
"""``any``: one is too many. ``stands-out``: healthy NICs count them too; it must be far more than on the others."""

_LINT = "roceway-tune lint -f fabric.yaml --live"
_LLDP = "roceway-tune lldp -f fabric.yaml --rail RAIL"
_SHOW = "roceway-tune show -f fabric.yaml"


@dataclass(frozen=True)
class Seen:
    """What a row may ask about one suspect."""

    kind: str
    """As in a verdict: node, nic, leaf, uplink, spine, global."""
    ratio: float
    """Bandwidth left, of normal."""
    only_large: bool = False
    """Well below 4 GiB, slow from there on."""
    moved: Mapping[str, int] = field(default_factory=dict)
    """Counter -> how far it moved, over its NICs."""
    priority: int | None = None
    """The lossless class, where fabric.yaml was given."""


@dataclass(frozen=True)
class Row:
    """One cause. It is told when its counters moved, or a remark of its rules was made, or its shape is there."""

    name: str
    cause: str
    """One sentence."""
    look: tuple[str, ...]
    """Rules of ``roceway-tune lint``, then settings and parts."""
    next: str
    """A command; RAIL stands for the suspect's."""
    counters: str = ""
    """A regular expression that a counter's whole name must match."""
    sign: Sign = "any"
    remarks: tuple[str, ...] = ()
    shape: Callable[[Seen], str] | None = None
    """What of the numbers speaks for it; empty: nothing does."""


def _only_large(seen: Seen) -> str:
    return "good below 4GiB, slow from there on" if seen.only_large else ""


def _lost_rail(seen: Seen) -> str:
    """All rails at once and one of 8, 4 or 2 gone."""
    near = next((all_ for all_ in (8, 4, 2) if abs(seen.ratio - (all_ - 1) / all_) < 0.015), 0)
    return f"near {near - 1}/{near} of normal" if near and seen.kind in ("node", "global") else ""


def _half_nic(seen: Seen) -> str:
    near = next((part for part in (2, 4) if abs(seen.ratio - 1 / part) < 0.02), 0)
    return f"near 1/{near} of normal" if near and seen.kind == "nic" else ""


def _sockets(seen: Seen) -> str:
    slow = 1 / 12.5 < seen.ratio < 1 / 4.8 and seen.kind in ("node", "global")
    return "5 to 12 times slower" if slow else ""


def _all_slow(seen: Seen) -> str:
    return "everything is slow alike" if seen.kind == "global" else ""


def _other_class(seen: Seen) -> str:
    """RDMA's bytes by priority; needs proof that they are RDMA's: TCP belongs to another class."""
    by_priority = {n: seen.moved.get(f"rx_prio{n}_bytes", 0) + seen.moved.get(f"tx_prio{n}_bytes", 0) for n in range(8)}
    total, rdma = sum(by_priority.values()), seen.moved.get("rx_vport_rdma_unicast_bytes", 0)
    if seen.priority is None or not total or rdma < total / 4:
        return ""
    most = max(by_priority, key=lambda n: by_priority[n])
    if most == seen.priority or by_priority[most] < 0.9 * total:
        return ""
    return f"{by_priority[most] / total:.0%} of the bytes on priority {most}, the lossless class is {seen.priority}"


def _marked_unanswered(seen: Seen) -> str:
    marked, sent = seen.moved.get("np_ecn_marked_roce_packets", 0), seen.moved.get("np_cnp_sent", 0)
    return f"np_ecn_marked_roce_packets +{marked}, np_cnp_sent +0" if marked > 0 and not sent else ""


ROWS: tuple[Row, ...] = (
    Row(
        "link-down",
        "the link goes down and comes back: cable, optics, or the port at its other end",
        ("L11", "cable and optics"),
        _LLDP,
        counters=r"link_downed|carrier_down_count|link_down_events_phy",
    ),
    Row(
        "bit-errors",
        "the cable or its optics corrupt what they carry",
        ("L11", "cable and optics"),
        _LLDP,
        counters=r"symbol_error|rx_(pcs_)?symbol_err_phy|port_rcv_errors|rx_crc_errors(_phy|\.nic)?|rx_fcs_err_frames",
    ),
    Row(
        "loss",
        "packets are lost in the class that should lose none",
        ("H02", "H06", "L01", "L02", "S02", "S04", "R01"),
        _LINT,
        counters=r"out_of_sequence|packet_seq_err|local_ack_timeout_err|roce_adp_retrans(_to)?|RxRetransmits|retransSegs",
    ),
    Row(
        "not-lossless",
        "buffers hold small messages and overflow with large ones: the class is not lossless",
        ("H07", "L01", "L08", "L09", "S04", "S05"),
        _LINT,
        shape=_only_large,
    ),
    Row(
        "receive-drops",
        "the host does not take what arrives: receive buffer, PCIe or memory",
        ("R01", "H07", "H18"),
        _LINT,
        counters=r"rx_discards_phy|rx_prio[0-7]_(buf_)?discard(s)?|rx_out_of_buffer|out_of_buffer|rx_missed_errors",
    ),
    Row(
        "pcie",
        "the NIC waits for PCIe",
        ("H18", "PCIe slot, ACS, link width"),
        _SHOW,
        counters=r"outbound_pci_stalled_(rd|wr)_events|[rt]x_pci_signal_integrity",
    ),
    Row(
        "global-pause",
        "the whole link is paused, not the lossless class alone",
        ("H05",),
        _LINT,
        counters=r"[rt]x_global_pause",
    ),
    Row(
        "pauses-the-switch",
        "the NIC pauses the switch: the host takes data more slowly than others do",
        ("R02", "H07", "H18"),
        _LINT,
        counters=r"tx_prio[0-7]_pause|tx_pfc_ena_frames_pri[0-7]",
        sign="stands-out",
    ),
    Row(
        "paused-by-the-switch",
        "the switch pauses the NIC: what lies behind it does not drain",
        ("R02", "R03", "S07"),
        _LINT,
        counters=r"rx_prio[0-7]_pause|rx_pfc_ena_frames_pri[0-7]",
        sign="stands-out",
    ),
    Row(
        "congestion",
        "the path is congested: marked far more often than others",
        ("S06", "S07", "S08", "R03"),
        _LINT,
        counters=r"np_cnp_sent|rp_cnp_handled|np_ecn_marked_roce_packets|rx_ecn_marked_pkts|cnpHandled",
        sign="stands-out",
    ),
    Row(
        "marks-unanswered",
        "packets arrive marked and no CNP answers: senders do not slow down",
        ("L12", "H11"),
        _LINT,
        shape=_marked_unanswered,
    ),
    Row(
        "wrong-class",
        "RoCE's packets travel in another class than the lossless one",
        ("H02", "H03", "L02", "R04", "NCCL_IB_TC"),
        _LINT,
        remarks=("traffic-class",),
        shape=_other_class,
    ),
    Row(
        "lost-rail",
        "one rail of several carries nothing",
        ("NCCL_IB_HCA", "probe.hcas", "the rails' links"),
        _SHOW,
        shape=_lost_rail,
    ),
    Row(
        "half-width",
        "the link or its PCIe slot runs at a part of its speed or width",
        ("H18", "H15", "PCIe slot, link speed"),
        _SHOW,
        shape=_half_nic,
    ),
    Row(
        "sockets",
        "NCCL uses sockets instead of RDMA",
        ("NCCL_NET", "NCCL_IB_HCA", "RDMA devices in the job"),
        "NCCL_DEBUG=INFO roceway-probe run -f fabric.yaml",
        remarks=("socket-fallback",),
    ),
    Row(
        "no-gpudirect",
        "data is copied through the host's memory: GPUDirect RDMA is off",
        ("H18", "nvidia-peermem or dma-buf", "NCCL_NET_GDR_LEVEL"),
        "NCCL_DEBUG=INFO roceway-probe run -f fabric.yaml",
        remarks=("no-gdr",),
    ),
    Row(
        "slow-path",
        "as with NCCL on sockets or without GPUDirect, which its log would say",
        ("NCCL_NET", "nvidia-peermem or dma-buf"),
        "NCCL_DEBUG=INFO roceway-probe run -f fabric.yaml",
        shape=_sockets,
    ),
    Row(
        "wrong-nic",
        "a GPU uses another rail's NIC: its traffic crosses rails through the spine",
        ("probe.hcas", "NCCL_IB_HCA", "NCCL_CROSS_NIC"),
        _SHOW,
        remarks=("wrong-hca", "cross-rail"),
    ),
    Row(
        "wrong-gid",
        "NCCL uses a GID that is not RoCE v2: packets carry no DSCP",
        ("H17", "NCCL_IB_GID_INDEX"),
        _LINT,
        remarks=("not-rocev2", "not-roce"),
    ),
    Row(
        "software",
        "software or configuration, not a part: what differs from the last good run?",
        ("the fingerprint", "NCCL_ALGO", "NCCL_IB_HCA"),
        "roceway-probe history --runs 10",
        shape=_all_slow,
    ),
)
"""What is told first comes first: what counts as proof before what only fits."""
