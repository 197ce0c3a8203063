"""Which rails a pod gets. Pure.

``attach: always`` gives every pod all rails; ``auto`` gives a pod the rails that it was given or that belong to its
GPUs, and a pod without GPUs none. In this order, the first that says something decides:

1. the annotation ``roceway.io/rails``: ``all``, ``none``, or names separated by commas (the runtime hands it over where
   the capability io.kubernetes.cri.pod-annotations is declared: no API server is asked);
2. a NIC that a meta-plugin chose (``deviceID``), for a network of one rail;
3. ``attach: always``;
4. devices of the resource ``roceway.io/rail`` that the kubelet gave the pod;
5. GPUs that the kubelet gave it (PodResources, else its checkpoint);
6. GPUs in its annotations, else GPUs in runtimeConfig as CDI names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cni.netconf import NetConf, Rail
from conf.errors import ConfigError, Finding

if TYPE_CHECKING:  # both compile and import what only pods with devices should pay for
    from cni.poddevices import GpuName, PodDevices
    from cni.topology import Assignment

__all__ = ["ANNOTATION", "CAPABILITY", "annotated", "by_devices", "declared", "device_id", "parse_device_id", "settled"]

CAPABILITY = "io.kubernetes.cri.pod-annotations"
ANNOTATION = "roceway.io/rails"
_VF_MARK = "@"

Chosen = tuple[tuple[Rail, ...], str]
"""The rails, in the configuration's order, and why these."""


def annotated(conf: NetConf) -> Chosen | None:
    """What the pod's annotation asks for; None without one."""
    value = _annotations(conf).get(ANNOTATION)
    return None if value is None else _named(conf, value)


def settled(conf: NetConf) -> Chosen | None:
    """What holds for a pod without annotation, whatever it was given; None where its devices decide."""
    device = conf.runtime_config.get("deviceID")
    if device and len(conf.rails) == 1 and "=" not in str(device):
        return conf.rails, f"runtimeConfig.deviceID: {device}"
    return (conf.rails, f"attach: always, no annotation {ANNOTATION}") if conf.attach == "always" else None


def _annotations(conf: NetConf) -> Mapping[str, object]:
    annotations = conf.runtime_config.get(CAPABILITY)
    return annotations if isinstance(annotations, Mapping) else {}


def _named(conf: NetConf, value: object) -> Chosen:
    why = f"annotation {ANNOTATION}: {value}"
    if value == "none":
        return (), why
    if value == "all":
        return conf.rails, why
    names = [name.strip() for name in str(value).split(",")]
    known = {rail.name for rail in conf.rails}
    unknown = [name for name in names if name not in known]
    if unknown:
        finding = Finding(ANNOTATION, f"unknown rails {', '.join(unknown)}; this node has {', '.join(sorted(known))}")
        raise ConfigError("pod annotation", [finding])
    return tuple(rail for rail in conf.rails if rail.name in names), why


def declared(conf: NetConf) -> PodDevices | None:
    """The GPUs that the pod's annotations or runtimeConfig name; None for none."""
    from cni.poddevices import PodDevices, cdi, from_annotations, gpu_names

    found = from_annotations(_annotations(conf))
    if found is not None:
        return found
    device = conf.runtime_config.get("deviceID")
    words = device if isinstance(device, list) else [device]
    given = tuple(cdi(word) for word in words if isinstance(word, str) and "=" in word)
    return PodDevices(given, "runtimeConfig.deviceID (CDI)") if gpu_names(given) else None


def by_devices(
    conf: NetConf, devices: PodDevices, gpus: Iterable[GpuName], own: Sequence[Assignment]
) -> tuple[tuple[Rail, ...], str]:
    """The rails of a pod that was given ``devices``: those of its rail devices, else ``own``, those of its GPUs."""
    pinned = [ident for ids in devices.rails.values() for ident in ids]
    if pinned:
        return _pinned(conf, pinned), f"{devices.source}: {', '.join(sorted(pinned))}"
    listed = ", ".join(str(name) for name in gpus)
    if not listed:
        return (), f"attach: auto, no GPU, says {devices.source}"
    names = {each.rail for each in own}
    return tuple(rail for rail in conf.rails if rail.name in names), f"{devices.source}: {listed}"


def _pinned(conf: NetConf, idents: Iterable[str]) -> tuple[Rail, ...]:
    """The rails of device ids; one that names a virtual function gets this one of its rail's pool."""
    wanted = dict(map(parse_device_id, idents))
    unknown = sorted(wanted.keys() - {rail.name for rail in conf.rails})
    if unknown:
        known = ", ".join(rail.name for rail in conf.rails)
        finding = Finding("roceway.io/rail", f"the kubelet gave {', '.join(unknown)}, this network has {known}")
        raise ConfigError("the pod's devices", [finding])
    return tuple(
        rail._replace(nic=wanted[rail.name], pf="") if wanted[rail.name] else rail
        for rail in conf.rails
        if rail.name in wanted
    )


def device_id(rail: str, vf: str = "") -> str:
    """How the device plugin calls a rail, or one virtual function (PCI address) of it: ``rail0@0000:18:00.2``."""
    return f"{rail}{_VF_MARK}{vf}" if vf else rail


def parse_device_id(ident: str) -> tuple[str, str]:
    """The reverse of :func:`device_id`: rail and PCI address of the VF, empty for none."""
    rail, _, vf = ident.partition(_VF_MARK)
    return rail, vf
