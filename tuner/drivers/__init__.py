"""What differs from driver to driver, one module each; chosen by what the host shows."""

from __future__ import annotations

from tuner.drivers.base import Adapter
from tuner.drivers.bnxt import BNXT
from tuner.drivers.generic import GENERIC
from tuner.drivers.ice import ICE
from tuner.drivers.ionic import IONIC
from tuner.drivers.mlx5 import MLX5
from tuner.nic import NicQos

__all__ = ["ADAPTERS", "Adapter", "adapter"]

ADAPTERS = (MLX5, BNXT, ICE, IONIC, GENERIC)


def adapter(nic: NicQos) -> Adapter:
    """The adapter of a NIC's driver; ``generic`` for one that has none of its own."""
    return next((each for each in ADAPTERS if nic.driver in each.drivers), GENERIC)
