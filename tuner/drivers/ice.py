"""Intel E800, drivers ice and irdma. Source: ``drivers/net/ethernet/intel/ice/ice_dcb_nl.c``.

- Refused while the firmware's LLDP agent has DCB (private flag ``fw-lldp-agent``), and until DCBX is the host's.
- The first DSCP entry switches the port to DSCP mode, in which ETS and PFC are kept; deleting the last leaves it.
- In DSCP mode the driver wants ETS and PFC first: it reprograms the map on top of them.
- DCQCN is irdma's, in its configfs.
"""

from __future__ import annotations

from tuner.drivers.base import Adapter

__all__ = ["ICE"]

ICE = Adapter(
    name="ice",
    drivers=("ice",),
    order=("dcbx", "mtu", "pause", "ets", "pfc", "maxrate", "apps", "trust", "buffer", "knob", "sysctl"),
    trust_by="apps",
    toggles_link=True,
    needs_host_dcbx=True,
)
