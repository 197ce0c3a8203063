"""SONiC's VLANs: which ports bridge, and so flood what is for an unknown MAC address. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.switch.sonic_tables import Tables
from tuner.switch.text import printable

__all__ = ["read_vlans"]


def read_vlans(tables: Tables) -> Mapping[str, frozenset[str]] | None:
    """Port → VLANs that it, or the PortChannel it is in, is a member of; a port that is left out is in none. None where
    that cannot be told: the source has neither VLAN_MEMBER nor, beside PORT, INTERFACE (QoS alone, or a part)."""
    members = tables.rows("VLAN_MEMBER")
    if members is None and (tables.rows("INTERFACE") is None or tables.rows("PORT") is None):
        return None
    bundled: dict[str, list[str]] = {}
    for bundle, port in _pairs(tables.rows("PORTCHANNEL_MEMBER") or {}):
        bundled.setdefault(bundle, []).append(port)
    found: dict[str, set[str]] = {}
    for vlan, member in _pairs(members or {}):
        for port in bundled.get(member, [member]):
            found.setdefault(port, set()).add(vlan)
    return {port: frozenset(vlans) for port, vlans in found.items()}


def _pairs(rows: Mapping[str, object]) -> list[tuple[str, str]]:
    """``Vlan1000|Ethernet0`` as its two names; other keys are left out."""
    pairs = (key.partition("|")[::2] for key in rows if printable(key) is not None)
    return [(one, other) for one, other in pairs if one and other]
