"""From a call to the rails that its pod gets, and what the policy says about them. Asks the doors that it needs.

A pod without GPUs under ``attach: auto`` costs one question to the agent (or one file), and nothing else is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from cni.netconf import NetConf, Rail
from cni.selection import annotated, by_devices, declared, settled
from conf.errors import ConfigError, Finding
from host.errors import Busy

if TYPE_CHECKING:  # imported by need: under attach: always nobody is asked
    from cni.kubelet import Pod
    from cni.poddevices import GpuName, PodDevices
    from cni.topology import Assignment

__all__ = ["Decision", "decide"]


class Decision(NamedTuple):
    """What a pod gets."""

    rails: tuple[Rail, ...]
    why: str
    """Which source applied and what it said, for ``explain``."""
    gpus: tuple[str, ...] = ()
    """PCI addresses of the pod's GPUs, as far as they are known."""
    pairs: tuple[Assignment, ...] = ()
    """The node's rails with their GPUs; empty where nobody asked."""
    containers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Containers that asked for rails as devices, and which they were given."""
    warnings: tuple[Finding, ...] = ()


def decide(
    conf: NetConf, args: Iterable[tuple[str, str]], places: Callable[[], Mapping[str, str]], root: str = "/"
) -> Decision:
    """The rails of the pod that CNI_ARGS ``args`` name.

    ``places`` is called for PCI addresses of NICs that the host does not show now, by the name that rails call them.
    ConfigError where the policy refuses the pod; Busy where nobody can tell which GPUs it has and the policy wants to
    know.
    """
    chosen = annotated(conf)
    final = settled(conf) if chosen is None else chosen if not chosen[0] or conf.attach == "always" else None
    if final is not None:
        return Decision(*final)
    from cni.poddevices import gpu_names

    try:
        devices = _devices(conf, args)
    except Busy as error:
        if chosen is None and conf.policy.unknown == "refuse":
            raise
        rails, why = chosen or ((), "attach: auto, policy.unknown: ignore")
        return Decision(rails, why, warnings=(Finding("GPUs", str(error)),))
    names = gpu_names(devices.devices)
    if not names and not devices.rails:
        return Decision(*(chosen or by_devices(conf, devices, (), ())))
    return _matched(conf, devices, names, chosen, places, root)


def _devices(conf: NetConf, args: Iterable[tuple[str, str]]) -> PodDevices:
    """What the first source that names any GPU or rail says; else what the last one said."""
    from cni.kubelet import pod_of
    from cni.poddevices import PodDevices, gpu_names

    pod = pod_of(args)
    told = None if pod is None else _told_or_declared(conf, pod)
    if told is not None and (told.rails or gpu_names(told.devices)):
        return told
    return declared(conf) or told or PodDevices((), "the runtime (no pod of Kubernetes, no annotation)")


def _told_or_declared(conf: NetConf, pod: Pod) -> PodDevices:
    """The kubelet's word; where it cannot be had, the pod's own."""
    from cni.kubelet import ask

    try:
        return ask(pod, conf.agent, conf.kubelet_dir)
    except Busy:
        own = declared(conf)
        if own is None:
            raise
        return own


def _matched(
    conf: NetConf,
    devices: PodDevices,
    names: tuple[GpuName, ...],
    chosen: tuple[tuple[Rail, ...], str] | None,
    places: Callable[[], Mapping[str, str]],
    root: str,
) -> Decision:
    """GPUs to rails, and the policy's word on it."""
    from cni import gpunames, inventory, policy  # only for pods with GPUs

    found = gpunames.resolve(names, root)
    wanted = [(rail.name, rail.pf or rail.nic) for rail in conf.rails]
    away = any(":" not in nic and not inventory.place_of(nic, root) for _, nic in wanted)
    pairs = inventory.pairing(wanted, root, places() if away else {}).rails
    gpus = tuple(dict.fromkeys(found.values()))
    rails, why = chosen or by_devices(conf, devices, names, policy.pod_rails(gpus, pairs))
    lost = [name.text for name in names if name.text not in found]
    verdict = policy.check_policy(gpus, {rail.name for rail in rails}, pairs, conf.policy, lost)
    if verdict.refusals:
        raise ConfigError(f"the pod's GPUs and rails ({why})", verdict.refusals)
    return Decision(rails, why, gpus, pairs, tuple(devices.rails.items()), verdict.warnings)
