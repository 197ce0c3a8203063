"""The device-info files that a meta-plugin reads: which PCI function and RDMA device an interface is.

Specification: k8snetworkplumbingwg/device-info-spec, version 1.1.0. The meta-plugin names the file of one interface
(capability CNIDeviceInfoFile), ``<delegate>-<container>_<interface>`` by its convention. One rail gets that very file.
Several rails get one each beside it, ``<delegate>-<container>_<rail>``: a rail's name is its interface's in the pod,
and one file for all would name the device of one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from cni.steps import AwaitGid, MoveLink, MoveRdma, SetVf, Step
from host.errors import HostError

__all__ = ["CAPABILITY", "files", "remove", "write"]

CAPABILITY = "CNIDeviceInfoFile"
_VERSION = "1.1.0"


def files(path: object, ifname: str, rails: Sequence[str]) -> dict[str, str]:
    """Where the file of each rail goes; nowhere (empty) without an absolute ``path`` from the meta-plugin.

    ``ifname`` is CNI_IFNAME, the interface that the path was made for.
    """
    if not isinstance(path, str) or not path.startswith("/"):
        return {}
    if len(rails) == 1:
        return {rails[0]: path}
    stem = path.removesuffix(f"_{ifname}")
    return {rail: f"{stem}_{rail}" for rail in rails}


def write(paths: Mapping[str, str], steps: Iterable[Step]) -> None:
    """Write the files of the rails that have a NIC whole, mode 0444. HostError when one cannot be written."""
    steps = tuple(steps)
    for rail, path in paths.items():
        document = _document([step for step in steps if getattr(step, "rail", "") == rail])
        if document:
            _put(path, json.dumps(document))


def _document(steps: Sequence[Step]) -> dict[str, object]:
    """What one rail's steps tell of its device; empty for a rail that has no PCI function to itself."""
    device = {
        "pci-address": next((step.nic.pci for step in steps if isinstance(step, MoveLink)), ""),
        "rdma-device": next((step.device for step in steps if isinstance(step, AwaitGid)), "")
        or next((step.name for step in steps if isinstance(step, MoveRdma)), ""),
        "pf-pci-address": next((step.pf for step in steps if isinstance(step, SetVf)), ""),
    }
    if not device["pci-address"]:
        return {}
    return {"type": "pci", "version": _VERSION, "pci": {key: value for key, value in device.items() if value}}


def _put(path: str, text: str) -> None:
    fresh = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444)
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(fresh, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(fresh)
        raise HostError("write", path, error.errno or 0) from error


def remove(paths: object) -> None:
    """Remove files, as an attachment's details name them; one that is gone, or cannot be removed, keeps no pod."""
    for path in [paths] if isinstance(paths, str) else paths if isinstance(paths, list) else []:
        if isinstance(path, str):
            with suppress(OSError):
                os.unlink(path)
