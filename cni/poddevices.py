"""Which devices a pod was given, and which of them are GPUs: what the sources say, as values. Pure.

Names of GPUs, by who writes them:

- NVIDIA's device plugin: ``GPU-<uuid>``, time-sliced ``GPU-<uuid>::2``, slices ``MIG-<uuid>`` (drivers before 470:
  ``MIG-GPU-<uuid>/3/0``); its DRA driver: device ``gpu-3`` and ``gpu-3-mig-1g.10gb-…`` by minor number.
- AMD's device plugin: PCI addresses; its DRA driver: ``gpu-<card>-<render node>``.
- Ascend's device plugin: ``Ascend910-3``, virtual ones ``Ascend910-4c-100-3``: the last number is the device's.
- CDI names: ``nvidia.com/gpu=<any of NVIDIA's, or an index>``, ``amd.com/gpu=<index>``.
- anybody: a PCI address at which this node has a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["ANNOTATION", "RAIL", "Given", "GpuName", "PodDevices", "cdi", "from_annotations", "gpu_names"]

RAIL = "roceway.io/rail"
"""The resource that the agent's device plugin offers."""
ANNOTATION = "roceway.io/gpus"

_CDI_ANNOTATIONS = "cdi.k8s.io/"
_ASCEND_ANNOTATIONS = "huawei.com/Ascend"
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]")
_UUID = re.compile(r"GPU-[0-9a-fA-F\-]{36}")
_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-fA-F\-]{36})/[0-9]+/[0-9]+")
_ASCEND = re.compile(r"Ascend[0-9A-Za-z_]+-(?:[0-9A-Za-z.\-]+-)?([0-9]+)")
_DRA_NVIDIA = re.compile(r"gpu-([0-9]+)(?:-mig-.*)?")
_DRA_AMD = re.compile(r"gpu-([0-9]+)-[0-9]+")
_INDEX = re.compile(r"([0-9]+)(?::[0-9]+)?")


class Given(NamedTuple):
    """Devices of one resource that one container was given."""

    container: str
    resource: str
    """``nvidia.com/gpu``; for DRA the driver's name, ``gpu.nvidia.com``."""
    ids: tuple[str, ...]


class PodDevices(NamedTuple):
    """Everything a pod was given, as far as one source tells."""

    devices: tuple[Given, ...]
    source: str
    """Who told, for people: ``the kubelet (PodResources Get)``."""

    @property
    def rails(self) -> dict[str, tuple[str, ...]]:
        """Container to the rails that the agent's device plugin gave it."""
        return {each.container: each.ids for each in self.devices if each.resource == RAIL}


class GpuName(NamedTuple):
    """One GPU as its source names it."""

    kind: str
    """``pci``, ``uuid``, ``mig``, ``minor``, ``index``, ``card``, ``ascend``: which list of the machine has it."""
    value: str
    text: str
    """As it was written."""

    def __str__(self) -> str:
        return self.text


def gpu_names(devices: Iterable[Given]) -> tuple[GpuName, ...]:
    """The GPUs among devices, each once, in order. What cannot be one is left out."""
    found = (_name(each.resource, ident) for each in devices if each.resource != RAIL for ident in each.ids)
    by_device = {(name.kind, name.value): name for name in found if name is not None}
    return tuple(by_device.values())


def _name(resource: str, ident: str) -> GpuName | None:
    plain = ident.partition("::")[0]  # NVIDIA's replica of a shared GPU
    for pattern, kind, group in ((_UUID, "uuid", 0), (_OLD_MIG, "uuid", 1), (_PCI, "pci", 0)):
        match = pattern.fullmatch(plain)
        if match:
            value = match[group] if kind == "uuid" else match[group].lower()
            return GpuName(kind, value, ident)
    if plain.startswith("MIG-"):
        return GpuName("mig", plain, ident)
    return _vendor_name(resource, plain, ident)


_VENDOR_NAMES = (
    ("huawei.com/", _ASCEND, "ascend"),
    ("gpu.nvidia.com", _DRA_NVIDIA, "minor"),
    ("gpu.amd.com", _DRA_AMD, "card"),
    ("cdi nvidia.com/gpu", _INDEX, "index"),
    ("cdi amd.com/gpu", _INDEX, "index"),
)


def _vendor_name(resource: str, plain: str, ident: str) -> GpuName | None:
    for prefix, pattern, kind in _VENDOR_NAMES:
        match = pattern.fullmatch(plain) if resource.startswith(prefix) else None
        if match:
            vendor = resource.removeprefix("cdi ").partition(".")[0]
            value = f"{vendor} {match[1]}" if kind == "index" else match[1]
            return GpuName(kind, value, ident)
    return None


def from_annotations(annotations: Mapping[str, Any]) -> PodDevices | None:
    """What a pod's annotations say of its GPUs; None for nothing.

    ``roceway.io/gpus`` lists any of the names above; Ascend's schedulers write ``huawei.com/Ascend910`` with theirs;
    ``cdi.k8s.io/…`` lists CDI names.
    """
    given: list[Given] = []
    for key, value in sorted(annotations.items()):
        words = [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else []
        if key == ANNOTATION:
            given += [_listed(key, word) for word in words]
        elif key.startswith(_ASCEND_ANNOTATIONS):
            given.append(Given("", key, tuple(words)))
        elif key.startswith(_CDI_ANNOTATIONS):
            given += [cdi(word) for word in words]
    if not gpu_names(given):
        return None
    keys = ", ".join(dict.fromkeys(key for key in sorted(annotations) if _is_ours(key)))
    return PodDevices(tuple(given), f"pod annotation {keys}")


def _is_ours(key: str) -> bool:
    return key == ANNOTATION or key.startswith((_ASCEND_ANNOTATIONS, _CDI_ANNOTATIONS))


def _listed(key: str, word: str) -> Given:
    """A word of our own annotation may be of any vendor."""
    if "=" in word:
        return cdi(word)
    return Given("", "huawei.com/Ascend" if word.startswith("Ascend") else key, (word,))


def cdi(name: str) -> Given:
    """A CDI device name, ``vendor.com/class=device``."""
    kind, _, device = name.partition("=")
    return Given("", f"cdi {kind}", (device,))
