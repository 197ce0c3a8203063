"""Any other driver: the kernel's own rules, and what it shows of trust since 6.2."""

from __future__ import annotations

from tuner.drivers.base import Adapter

__all__ = ["GENERIC"]

GENERIC = Adapter(name="generic", drivers=(), trust_by="apptrust")
