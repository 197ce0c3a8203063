"""The class of fabric.yaml as an NVUE configuration for Cumulus Linux. Pure.

``qos roce`` is the base, since NVIDIA supports RoCE no other way; what differs from its defaults is written out.
"""

from __future__ import annotations

import json
from typing import Any

from tuner.switch.intended import MTU, Intended, WantedPort

__all__ = ["render"]

_GLOBAL = "default-global"


def render(wanted: Intended) -> str:
    """JSON, which is YAML, for ``nv config patch``."""
    qos: dict[str, Any] = {
        "roce": {"enable": "on", "mode": "lossless" if wanted.lossless else "lossy"},
        "mapping": {_GLOBAL: _mapping(wanted)},
        "egress-queue-mapping": {_GLOBAL: {"switch-priority": _mapped(wanted)}},
        "egress-scheduler": {_GLOBAL: {"traffic-class": _schedulers(wanted)}},
        "congestion-control": {_GLOBAL: {"traffic-class": _ecn(wanted)}},
        "pfc": _pfc(wanted),
    }
    if wanted.lossless:
        qos["pfc-watchdog"] = {"polling-interval": 100, "robustness": 2}
    interfaces = {port.name: _interface(wanted, port) for port in wanted.ports}
    return json.dumps([{"set": {"qos": qos, "interface": interfaces}}], indent=2) + "\n"


def _mapping(wanted: Intended) -> dict[str, Any]:
    dscp = {str(value): {"switch-priority": priority} for value, priority in wanted.dscp_to_tc.items()}
    return {"trust": "l3", "dscp": dscp}


def _queues(wanted: Intended) -> dict[int, int]:
    """Priority → queue. The base has RoCE in queue 3 and CNPs in 6, whatever their priorities; companions take the next
    that is free, and everything else goes to 0."""
    found = dict.fromkeys(range(8), 0) | {wanted.roce[0]: 3, wanted.qos.cnp.priority: 6}
    free = (queue for queue in (4, 5, 2, 1, 7))
    return found | {priority: next(free) for priority in wanted.roce[1:]}


def _mapped(wanted: Intended) -> dict[str, Any]:
    return {str(priority): {"traffic-class": queue} for priority, queue in _queues(wanted).items()}


def _schedulers(wanted: Intended) -> dict[str, Any]:
    queues = _queues(wanted)
    rows: dict[int, dict[str, Any]] = {
        queues[priority]: {"mode": "dwrr", "bw-percent": share} for priority, share in wanted.weights.items()
    }
    rows |= {queues[priority]: {"mode": "strict"} for priority in wanted.strict}
    return {str(queue): row for queue, row in sorted(rows.items())}


def _ecn(wanted: Intended) -> dict[str, Any]:
    """ECN on RoCE's queues alone: the base has it on queue 0 too."""
    ecn, queues = wanted.qos.ecn, _queues(wanted)
    on = {
        "ecn": "enable",
        "min-threshold": ecn.kmin,
        "max-threshold": ecn.kmax,
        "probability": max(1, round(ecn.pmax)),
    }
    marked = {queues[priority] for priority in wanted.roce} if ecn.enabled else set()
    return {str(queue): on if queue in marked else {"ecn": "disable"} for queue in sorted({0, 3, *marked})}


def _lengths(wanted: Intended) -> list[float]:
    return sorted({port.cable for port in wanted.ports if port.cable is not None})


def _profile(metres: float) -> str:
    return f"roce-{metres:g}m".replace(".", "-")


def _pfc(wanted: Intended) -> dict[str, Any]:
    """A profile for each length of cable; the global one is for ports that fabric.yaml says nothing of."""
    if not wanted.lossless:
        return {}
    on = {"switch-priority": {str(each): {} for each in sorted(wanted.lossless)}, "tx": "enable", "rx": "enable"}
    lengths = _lengths(wanted)
    profiles: dict[str, Any] = {_GLOBAL: {**on, **({"cable-length": _whole(lengths[-1])} if lengths else {})}}
    return profiles | {_profile(metres): {**on, "cable-length": _whole(metres)} for metres in lengths}


def _whole(metres: float) -> int:
    """NVUE counts whole metres; a longer cable is the safe side."""
    return max(1, -int(-metres // 1))


def _interface(wanted: Intended, port: WantedPort) -> dict[str, Any]:
    found: dict[str, Any] = {"link": {"mtu": MTU}}
    if port.speed:
        found["link"]["speed"] = f"{port.speed // 1000}G"
    if wanted.lossless:
        found["qos"] = {"pfc-watchdog": {"state": "enable"}}
        if port.cable is not None:
            found["qos"]["pfc"] = {"profile": _profile(port.cable)}
    return found
