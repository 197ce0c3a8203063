"""Broadcom NetXtreme-E, driver bnxt_en. Source: ``drivers/net/ethernet/broadcom/bnxt/bnxt_dcb.c``.

- Everything is refused until DCBX is the host's and IEEE's; it starts as the firmware's.
- ETS before PFC: a lossless queue is assigned to a traffic class that must exist. At most ``max_lltc`` (two on most
  cards) classes can be lossless; the kernel does not show the number.
- A new PFC set reconfigures the queues, which toggles the link.
"""

from __future__ import annotations

from tuner.drivers.base import Adapter

__all__ = ["BNXT"]

BNXT = Adapter(
    name="bnxt",
    drivers=("bnxt_en",),
    order=("dcbx", "mtu", "pause", "ets", "pfc", "maxrate", "apps", "trust", "buffer", "knob", "sysctl"),
    trust_by="apps",
    toggles_link=True,
    needs_host_dcbx=True,
    max_lossless=2,
)
