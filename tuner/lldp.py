"""What an LLDP frame says: who sends it, and its DCBX settings (IEEE 802.1Qaz, or that the older CEE is spoken). Pure.

Layouts: IEEE 802.1Q-2018 annex D.2.8 to D.2.11. ``tuner.wire`` makes and reads the frames.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DSCP", "ETHERTYPE", "STREAM", "TSA", "UDP", "App", "Ets", "Lldp", "Pfc"]

TSA = {0: "strict", 1: "cbs", 2: "ets", 255: "vendor"}
"""Transmission selection algorithms."""

ETHERTYPE, STREAM, UDP, STREAM_OR_UDP, DSCP = 1, 2, 3, 4, 5
"""Selectors of the application table."""


@dataclass(frozen=True, slots=True)
class Ets:
    """ETS configuration or recommendation; tuples of eight."""

    classes: tuple[int, ...]
    """Traffic class of each priority."""
    bandwidth: tuple[int, ...]
    """Percent of each traffic class."""
    algorithms: tuple[int, ...]
    """TSA of each traffic class."""
    willing: bool = False
    credit_based: bool = False
    max_classes: int = 0
    """Traffic classes supported, 1 to 8; on the wire 8 is 0."""


@dataclass(frozen=True, slots=True)
class Pfc:
    """PFC configuration."""

    enabled: frozenset[int]
    """Priorities."""
    willing: bool = False
    macsec_bypass: bool = False
    capability: int = 8
    """How many priorities may have PFC at a time."""


@dataclass(frozen=True, slots=True)
class App:
    """One entry of the application table."""

    priority: int
    selector: int
    protocol: int
    """Ethertype, port or DSCP, by the selector."""


@dataclass(frozen=True, slots=True)
class Lldp:
    """One frame. Names are those that a person would use; a MAC address is in lower case with colons."""

    chassis: str
    port: str
    ttl: int
    system: str | None = None
    description: str | None = None
    """Of the port."""
    ets: Ets | None = None
    recommended: Ets | None = None
    pfc: Pfc | None = None
    apps: tuple[App, ...] | None = None
    """None: no such TLV."""
    cee: bool = False
    """The sender speaks pre-standard DCBX (CEE or CIN, OUI 00-1B-21)."""
    source: str = ""
    """MAC address that the frame came from."""

    @property
    def ieee(self) -> bool:
        """The sender speaks 802.1Qaz DCBX."""
        return any(part is not None for part in (self.ets, self.recommended, self.pfc, self.apps))
