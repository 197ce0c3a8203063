"""A kubelet's folder as it leaves it, for tests without a kubelet. Shapes: docs of cni.kubelet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Entry = tuple[str, str, str, Sequence[str]]
"""Pod's UID, container, resource, device ids."""


def write_checkpoint(folder: Path, *entries: Entry, numa: bool = True) -> Path:
    """``kubelet_internal_checkpoint`` with these allocations; the kubelet's folder."""
    rows = [
        {
            "PodUID": uid,
            "ContainerName": container,
            "ResourceName": resource,
            "DeviceIDs": {"1": list(ids)[1:], "0": list(ids)[:1]} if numa else list(ids),
            "AllocResp": "CgA=",
        }
        for uid, container, resource, ids in entries
    ]
    place = folder / "device-plugins"
    place.mkdir(parents=True, exist_ok=True)
    document = {"Data": {"PodDeviceEntries": rows, "RegisteredDevices": {}}, "Checksum": 1}
    (place / "kubelet_internal_checkpoint").write_text(json.dumps(document))
    return folder


def write_claims(folder: Path, claims: Sequence[Mapping[str, Any]], key: str = "ClaimInfoStateList") -> None:
    """``dra_manager_state``."""
    data = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1", key: list(claims)}
    (folder / "dra_manager_state").write_text(json.dumps({"Data": json.dumps(data), "Checksum": 1}))


def claim(uid: str, driver: str, *devices: str) -> dict[str, Any]:
    """One claim that one pod holds."""
    listed = [
        {"PoolName": "node-1", "DeviceName": device, "RequestNames": ["gpu"], "CDIDeviceIDs": [f"k8s.{driver}/claim=x"]}
        for device in devices
    ]
    return {
        "ClaimUID": "c0",
        "ClaimName": "gpus",
        "Namespace": "default",
        "PodUIDs": {uid: {}},
        "DriverState": {driver: {"Devices": listed}},
    }
