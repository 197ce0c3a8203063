"""A small fabric around one switch of each operating system."""

from __future__ import annotations

import json
from typing import Any

from conf.fabric import Fabric, parse
from tests.conf.documents import document
from tuner.switch.model import Platform

PORTS: dict[Platform, tuple[str, str]] = {
    "sonic": ("Ethernet[0-12:4]", "Ethernet32"),
    "cumulus": ("swp[1-4]", "swp32"),
    "eos": ("Ethernet[1-4]", "Ethernet32"),
    "nxos": ("Ethernet1/[1-4]", "Ethernet1/32"),
    "dell-sonic": ("Ethernet[0-12:4]", "Ethernet32"),
}
"""Ports to hosts and the port to the spine."""


def fabric(platform: Platform, asic: str | None = None, **changes: Any) -> Fabric:
    """Four hosts at 400G on 3 m cables, a leaf, and a spine at the end of 30 m."""
    hosts, up = PORTS[platform]
    leaf: dict[str, Any] = {"name": "leaf0", "platform": platform, "role": "leaf", "ports": {hosts: "h[0-3]/rail0"}}
    if asic:
        leaf["asic"] = asic
    rails = {"rail0": "eth2", "rail1": "eth3"}
    base: dict[str, Any] = {
        "nodeTypes": {"gpu": {"speed": "400G", "mode": "macvlan", "cable": "3m", "rails": rails}},
        "switches": [leaf, {"name": "spine0", "platform": platform, "role": "spine"}],
        "links": [{"from": f"leaf0:{up}", "to": f"spine0:{up}", "speed": "400G", "cable": "30m"}],
    }
    return parse(json.dumps(document(**{**base, **changes})))
