"""What an adapter says about a driver. Pure values: the doors do not know drivers, the planner does not know files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["ORDER", "Adapter", "unrounded"]

ORDER = ("dcbx", "mtu", "pause", "ets", "maxrate", "apps", "trust", "pfc", "buffer", "knob", "sysctl")
"""Kinds of steps in the order that is safe unless a driver says otherwise: a priority is mapped and scheduled before
it may pause anything; buffers come after PFC, since several drivers lay them out anew when PFC changes."""


def unrounded(kbps: int) -> int:
    """A rate that the driver keeps as it is."""
    return kbps


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One driver's habits."""

    name: str
    drivers: tuple[str, ...]
    """What ethtool calls it."""
    order: tuple[str, ...] = ORDER
    trust_by: Literal["apps", "apptrust", "unknown"] = "unknown"
    """What tells which field packets are classified by: any DSCP entry in the APP table, the kernel's trust order, or
    nothing."""
    whole_map: bool = False
    """Whether DSCPs without an entry have hidden priorities of the hardware's: then every DSCP is given one."""
    replaces: bool = False
    """Whether a DSCP's new priority replaces the old one. Elsewhere the old entry goes first: deleting it later would
    map the DSCP to 0."""
    toggles_link: bool = False
    """Whether a change of the set of PFC priorities drops the link for a moment."""
    needs_host_dcbx: bool = False
    """Whether DCB is refused until DCBX is the host's (HOST and IEEE)."""
    max_lossless: int | None = None
    """More PFC priorities than that are refused; None: what pfc_cap says."""
    cable_in_delay: bool = False
    """Whether PFC's ``delay`` is the cable's length in metres."""
    buffers_in_moves: bool = False
    """Whether receive buffers change in several moves (see :func:`tuner.buffers.moves`)."""
    rate: Callable[[int], int] = unrounded
    """What the driver makes of a maximum rate (kb/s)."""
