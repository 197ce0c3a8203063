"""A rail's settings of a virtual function, under sriov-cni's names; ``nodeGUID`` is ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from conf.errors import Finding

__all__ = ["VF_KEYS", "VfSettings", "parse_vf"]

VF_KEYS = ("vlan", "vlanQoS", "vlanProto", "trust", "spoofchk", "link_state", "min_tx_rate", "max_tx_rate", "nodeGUID")
_VLAN_MAX = 4094
_QOS_MAX = 7
_RATE_MAX = 2**32 - 1


class VfSettings(NamedTuple):
    """What is wanted of a VF; None and empty leave the PF's setting alone."""

    vlan: int | None = None
    vlan_qos: int | None = None
    vlan_proto: str = ""
    trust: bool | None = None
    spoofchk: bool | None = None
    link_state: str = ""
    min_tx_rate: int | None = None
    """Mb/s."""
    max_tx_rate: int | None = None
    """Mb/s; 0: no limit."""
    guid_of: str = ""
    """Which MAC a node GUID that is missing is made of. ``mac`` and empty: the one that the PF says or is given;
    ``own-mac``: without such a one the VF's own, which the PF then says; ``off``: no node GUID is made."""


def parse_vf(raw: Mapping[str, Any], path: str) -> tuple[VfSettings, list[Finding]]:
    """The VF keys of a rail, with every mistake found."""
    findings: list[Finding] = []

    def number(key: str, most: int) -> int | None:
        value = raw.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most):
            return value
        findings.append(Finding(f"{path}.{key}", f"{value!r} is no number from 0 to {most}"))
        return None

    def choice(key: str, allowed: Sequence[str]) -> str:
        value = raw.get(key)
        if value is None or value in allowed:
            return value or ""
        findings.append(Finding(f"{path}.{key}", f"{value!r} is none of {', '.join(allowed)}"))
        return ""

    def switch(key: str) -> bool | None:
        return {"on": True, "off": False, "": None}[choice(key, ("on", "off"))]

    settings = VfSettings(
        vlan=number("vlan", _VLAN_MAX),
        vlan_qos=number("vlanQoS", _QOS_MAX),
        vlan_proto=choice("vlanProto", ("802.1q", "802.1ad")),
        trust=switch("trust"),
        spoofchk=switch("spoofchk"),
        link_state=choice("link_state", ("auto", "enable", "disable")),
        min_tx_rate=number("min_tx_rate", _RATE_MAX),
        max_tx_rate=number("max_tx_rate", _RATE_MAX),
        guid_of=choice("nodeGUID", ("mac", "own-mac", "off")),
    )
    if not settings.vlan and (settings.vlan_qos or settings.vlan_proto == "802.1ad"):
        findings.append(Finding(f"{path}.vlan", "vlanQoS and vlanProto need a VLAN"))
    low, high = settings.min_tx_rate or 0, settings.max_tx_rate or 0
    if high and low > high:
        findings.append(Finding(f"{path}.min_tx_rate", f"{low} is more than max_tx_rate {high}"))
    return settings, findings
