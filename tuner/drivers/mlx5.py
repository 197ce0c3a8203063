"""NVIDIA ConnectX, driver mlx5_core. Source: ``drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c``.

- APP takes DSCP only. The first entry switches the port's trust to DSCP, deleting the last switches it back to PCP.
- A DSCP that never had an entry keeps the firmware's default, its upper three bits: 24 to 31 are priority 3 without
  anybody having said so. A deleted one goes to priority 0. So all 64 are written.
- A new PFC set toggles the port (mlx5_toggle_port_link). ``delay`` is the cable's length in metres.
- Priorities move to their receive buffers before sizes are looked at, so that a new layout takes up to three SETs
  (en/port_buffer.c). The first of them takes the buffers from the firmware, which then lays them out no more. They
  come before PFC, and on the way back after it: what is not lossless may have any size.
- Bandwidth of a class that is not ETS must be 0. Rates are kept in units of 100 Mb/s, above 25.5 Gb/s in 1 Gb/s.
"""

from __future__ import annotations

from tuner.drivers.base import Adapter

__all__ = ["MLX5", "rate"]

_FINE, _COARSE, _LIMIT = 100_000, 1_000_000, 25_500_000  # kb/s


def rate(kbps: int) -> int:
    """Rounded up to what the hardware keeps."""
    unit = _FINE if kbps <= _LIMIT else _COARSE
    return -(-kbps // unit) * unit


MLX5 = Adapter(
    name="mlx5",
    drivers=("mlx5_core",),
    order=("dcbx", "mtu", "pause", "ets", "maxrate", "apps", "trust", "buffer", "pfc", "knob", "sysctl"),
    trust_by="apps",
    whole_map=True,
    replaces=True,
    toggles_link=True,
    cable_in_delay=True,
    buffers_in_moves=True,
    rate=rate,
)
