"""What drivers call their counters, brought under one set of names. Pure.

Sources: mlx5 ``Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst``; bnxt
``bnxt_ethtool.c`` (bnxt_rx_pri_arr and its kin); ice ``ice_ethtool.c`` (ICE_PRIORITY_FLOW_CONTROL).
A driver is known by the names that it has, so a renamed or unknown driver with one of these sets is read too.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.nic import Counters

__all__ = ["counters", "paused_share"]

_PRIORITY: dict[str, tuple[str, ...]] = {
    "rx_bytes": ("rx_prio{}_bytes", "rx_bytes_pri{}"),
    "tx_bytes": ("tx_prio{}_bytes", "tx_bytes_pri{}"),
    "rx_packets": ("rx_prio{}_packets", "rx_packets_pri{}"),
    "tx_packets": ("tx_prio{}_packets", "tx_packets_pri{}"),
    "rx_pause": ("rx_prio{}_pause", "rx_pfc_ena_frames_pri{}", "rx_priority_{}_xoff.nic"),
    "tx_pause": ("tx_prio{}_pause", "tx_pfc_ena_frames_pri{}", "tx_priority_{}_xoff.nic"),
    "rx_pause_us": ("rx_prio{}_pause_duration", "pfc_pri{}_rx_duration_us"),
    "tx_pause_us": ("tx_prio{}_pause_duration", "pfc_pri{}_tx_duration_us"),
    "rx_discards": ("rx_discard_packets_cos{}", "rx_discard_bytes_cos{}"),
}
_MLX5_DISCARDS = ("rx_prio{}_discards", "rx_prio{}_buf_discard", "rx_prio{}_cong_discard")
"""Dropped for want of the port's buffer, of the host's share of it, and for the host's congestion: three reasons, one
loss."""
_PORT: dict[str, tuple[str, ...]] = {
    "rx_global_pause": ("rx_pause_ctrl_phy", "rx_pause_frames", "link_xoff_rx.nic"),
    "tx_global_pause": ("tx_pause_ctrl_phy", "tx_pause_frames", "link_xoff_tx.nic"),
    "link_downs": ("link_down_events_phy", "link_down_events"),
    "rx_discards": ("rx_discards_phy", "rx_total_discard_pkts", "rx_dropped.nic"),
    "tx_discards": ("tx_discards_phy", "tx_total_discard_pkts", "tx_dropped_link_down.nic"),
}


def counters(statistics: Mapping[str, int], rdma: Mapping[str, int]) -> Counters:
    """``ethtool -S`` and the RDMA device's hw_counters under one set of names. What a driver lacks is None."""
    found = {name: _by_priority(statistics, forms) for name, forms in _PRIORITY.items()}
    lost = [each for form in _MLX5_DISCARDS if (each := _by_priority(statistics, (form,))) is not None]
    if lost:
        found["rx_discards"] = tuple(sum(values) for values in zip(*lost, strict=True))
    return Counters(
        **found,
        port={name: statistics[form] for name, forms in _PORT.items() for form in forms if form in statistics},
        rdma=dict(rdma),
    )


def _by_priority(statistics: Mapping[str, int], forms: tuple[str, ...]) -> tuple[int, ...] | None:
    for form in forms:
        values = [statistics.get(form.format(priority)) for priority in range(8)]
        if values[0] is not None:
            return tuple(value or 0 for value in values)
    return None


def paused_share(before: Counters, after: Counters, seconds: float, priority: int) -> float | None:
    """Share of the time, 0 to 1, that the class could not send, between two readings; None where not counted.

    A counter that went back (a reloaded driver) tells nothing.
    """
    if before.rx_pause_us is None or after.rx_pause_us is None or seconds <= 0:
        return None
    paused = after.rx_pause_us[priority] - before.rx_pause_us[priority]
    return None if paused < 0 else min(1.0, paused / (seconds * 1e6))
