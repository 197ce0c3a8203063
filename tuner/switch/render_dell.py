"""The class of fabric.yaml as OpenConfig trees for Dell Enterprise SONiC. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from conf.units import format_length
from tuner.switch.intended import MTU, Intended, WantedPort

__all__ = ["render"]

_NAME = "ROCE"
_MAPS = "openconfig-qos-maps-ext"


def render(wanted: Intended) -> str:
    """JSON for one RESTCONF PATCH of the data root."""
    identity = {index: index for index in range(8)}
    groups = {tc: tc if tc in wanted.lossless else 0 for tc in range(8)}
    qos: dict[str, Any] = {
        **_map("dscp-map", "dscp", "fwd-group", wanted.dscp_to_tc, text=True),
        **_map("forwarding-group-queue-map", "fwd-group", "output-queue-index", identity, text_key=True),
        **_map("forwarding-group-priority-group-map", "fwd-group", "priority-group-index", groups, text_key=True),
        **_map("pfc-priority-queue-map", "dot1p", "output-queue-index", identity),
        "scheduler-policies": {"scheduler-policy": [_policy(wanted)]},
        "interfaces": {"interface": [_interface(wanted, port) for port in wanted.ports]},
    }
    if wanted.qos.ecn.enabled:
        qos["openconfig-qos-ext:wred-profiles"] = {"wred-profile": [_profile(wanted)]}
        qos["queues"] = {"queue": [_queue(port, queue) for port in wanted.ports for queue in sorted(wanted.roce)]}
    if wanted.lossless:
        qos["openconfig-qos-ext:pfc-watchdog"] = {"poll": {"config": {"poll-interval": 100}}}
    links = {"interface": [_link(port) for port in wanted.ports]}
    tree = {"openconfig-qos:qos": qos, "openconfig-interfaces:interfaces": links}
    return json.dumps(tree, indent=2) + "\n"


def _map(
    kind: str, key: str, value: str, entries: Mapping[int, int], *, text: bool = False, text_key: bool = False
) -> dict[str, Any]:
    """One map named ROCE; forwarding groups are text, everything else numbers."""
    rows = []
    for source, target in entries.items():
        own = str(source) if text_key else source
        rows.append({key: own, "config": {key: own, value: str(target) if text else target}})
    made = {"name": _NAME, "config": {"name": _NAME}, f"{kind}-entries": {f"{kind}-entry": rows}}
    return {f"{_MAPS}:{kind}s": {kind: [made]}}


def _policy(wanted: Intended) -> dict[str, Any]:
    rows: dict[int, dict[str, Any]] = {
        queue: {"type": "openconfig-qos-ext:DWRR", "weight": share} for queue, share in wanted.weights.items()
    }
    rows |= {queue: {"type": "openconfig-qos-types:STRICT"} for queue in wanted.strict}
    schedulers = [{"sequence": queue, "config": {"sequence": queue, **row}} for queue, row in sorted(rows.items())]
    return {"name": _NAME, "config": {"name": _NAME}, "schedulers": {"scheduler": schedulers}}


def _profile(wanted: Intended) -> dict[str, Any]:
    ecn = wanted.qos.ecn
    config = {
        "name": _NAME,
        "green-min-threshold": ecn.kmin,
        "green-max-threshold": ecn.kmax,
        "green-drop-rate": max(1, round(ecn.pmax)),
        "wred-green-enable": True,
        "ecn": "ECN_GREEN",
    }
    return {"name": _NAME, "config": config}


def _queue(port: WantedPort, queue: int) -> dict[str, Any]:
    name = f"{port.name}:{queue}"
    return {"name": name, "config": {"name": name}, "wred": {"config": {"wred-profile": _NAME}}}


def _interface(wanted: Intended, port: WantedPort) -> dict[str, Any]:
    maps = {
        "dscp-to-forwarding-group": _NAME,
        "forwarding-group-to-queue": _NAME,
        "forwarding-group-to-priority-group": _NAME,
        "pfc-priority-to-queue": _NAME,
    }
    found: dict[str, Any] = {
        "interface-id": port.name,
        "config": {"interface-id": port.name},
        f"{_MAPS}:interface-maps": {"config": maps},
        "output": {"scheduler-policy": {"config": {"name": _NAME}}},
    }
    if wanted.lossless:
        rows = [{"dot1p": each, "config": {"dot1p": each, "enable": True}} for each in sorted(wanted.lossless)]
        watchdog = {"config": {"action": "DROP", "detection-time": 200, "restoration-time": 200}}
        found["pfc"] = {"pfc-priorities": {"pfc-priority": rows}, "watchdog": watchdog}
    if port.cable is not None:
        found["openconfig-qos-buffer:cable-length"] = {"config": {"length": format_length(port.cable)}}
    return found


def _link(port: WantedPort) -> dict[str, Any]:
    found: dict[str, Any] = {"name": port.name, "config": {"name": port.name, "mtu": MTU, "description": port.other}}
    if port.speed:
        speed = {"port-speed": f"openconfig-if-ethernet:SPEED_{port.speed // 1000}GB"}
        found["openconfig-if-ethernet:ethernet"] = {"config": speed}
    return found
