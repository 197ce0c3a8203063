"""What the tuner found on this node's NICs, from the file in which ``roceway-tune verify`` leaves its verdict.

``<state directory>/verify.json`` (tuner.verdict): ``{"version": 1, "nics": [{"rail", "pci", "netdev", "findings":
["pfc: wanted 3, got none"]}]}``. A NIC with findings is unfit until the tuner finds nothing more. No file, one of
another shape, and one from before the last boot say nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

from cni.agent.nodeview import RailView

__all__ = ["FILE", "verdict_of", "verdicts"]

FILE = "verify.json"
_VERSION = 1
_SHOWN = 3


def verdicts(state_dir: str, root: str = "/") -> Mapping[str, str]:
    """NIC, by PCI address, netdev and rail, to what is wrong with it; empty where nothing is known to be."""
    path = os.path.join(state_dir, FILE)
    try:
        if os.stat(path).st_mtime < time.time() - _uptime(root):
            return {}
        with open(path, "rb") as file:
            document = json.loads(file.read())
        nics = document["nics"] if document["version"] == _VERSION else []
        return {
            str(nic[key]): f"roceway-tune verify: {_short(nic['findings'])}"
            for nic in nics
            for key in ("pci", "netdev", "rail")
            if nic.get(key) and nic["findings"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def verdict_of(unfit: Mapping[str, str], rail: RailView) -> str:
    """What :func:`verdicts` has of a rail; empty for nothing."""
    return next((unfit[key] for key in (rail.pci, rail.netdev, rail.name) if key in unfit), "")


def _short(findings: list[object]) -> str:
    more = f"; and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""
    return "; ".join(str(each) for each in findings[:_SHOWN]) + more


def _uptime(root: str) -> float:
    """Seconds since the boot."""
    with open(os.path.join(root, "proc/uptime")) as file:
        return float(file.read().split()[0])
