"""AMD Pensando, driver ionic: a DSCP is mapped before its class is scheduled. Nothing else of its DCB is public."""

from __future__ import annotations

from tuner.drivers.base import Adapter

__all__ = ["IONIC"]

IONIC = Adapter(
    name="ionic",
    drivers=("ionic",),
    order=("dcbx", "mtu", "pause", "apps", "trust", "ets", "maxrate", "pfc", "buffer", "knob", "sysctl"),
    trust_by="apps",
)
