"""What the pod has, against what its steps should have left there. Pure.

A value that the kernel rounded, refused in silence or lost since is a difference, shown as wanted and got.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from cni.steps import (
    NO_GUIDS,
    AddAddress,
    AddRoute,
    AddRule,
    AwaitGid,
    BindVf,
    Bring,
    CreateLink,
    MoveLink,
    MoveRdma,
    SetConf,
    SetSysctl,
    Step,
)
from host.addr import Address
from host.link import NetDev
from host.route import KernelRoute
from host.rule import Rule

__all__ = ["PodView", "differences", "is_carrier"]


_NO_CARRIER = "link: wanted carrier, got none"


class PodView(NamedTuple):
    """What a pod's namespace holds."""

    devices: tuple[NetDev, ...]
    addresses: tuple[Address, ...]
    routes: tuple[KernelRoute, ...]
    rules: tuple[Rule, ...]
    sysctls: Mapping[tuple[str, str, str], str]
    """(family, interface, key) to value, for those that were asked for."""
    rdma: Mapping[str, str] = MappingProxyType({})
    """RDMA devices that the pod sees, with their node GUIDs; only where one moved here or was to get its GUID."""
    gids: frozenset[tuple[str, str]] = frozenset()
    """(RDMA device, address) that have a RoCE v2 GID."""


def differences(steps: Iterable[Step], view: PodView) -> list[str]:
    """One line for each thing that is not as the steps left it; empty when all is in place."""
    devices = {device.name: device for device in view.devices}
    lines: list[str] = []
    missing: set[str] = set()
    steps = tuple(steps)
    renamed = {step.rail: step.name for step in steps if isinstance(step, MoveRdma)}
    for step in steps:
        if isinstance(step, AddRule):
            lines += _rule(step, view)
        elif isinstance(step, MoveRdma | AwaitGid | BindVf):
            lines += _on_rdma(step, renamed, view)
        elif not isinstance(step, CreateLink | MoveLink | SetConf | SetSysctl | AddAddress | Bring | AddRoute):
            continue
        elif step.rail not in devices:
            if step.rail not in missing:
                lines.append(f"{step.rail}: the interface is gone")
            missing.add(step.rail)
        else:
            lines += _on_device(step, devices[step.rail], view)
    return lines


def is_carrier(line: str) -> bool:
    """Whether a difference is that a link has no carrier: not of the attachment's making, and it may come by itself."""
    return _NO_CARRIER in line


def _on_rdma(step: MoveRdma | AwaitGid | BindVf, renamed: Mapping[str, str], view: PodView) -> list[str]:
    """``renamed``: what the RDMA devices that moved are called in the pod, by rail."""
    match step:
        case MoveRdma(rail, _, name):
            return [] if name in view.rdma else [f"{rail}: RDMA device: wanted {name}, got none"]
        case AwaitGid(rail, name, address):
            if (name, address) in view.gids:
                return []
            return [f"{rail}: RoCE v2 GID: wanted one for {address} on {name}, got none"]
        case BindVf(rail, _, _, own):
            name = renamed.get(rail, own)
            lacks = view.rdma.get(name, "") in NO_GUIDS  # a device that is gone is told by others
            return [f"{rail}: node GUID: wanted one on {name}, got none"] if lacks else []


def _on_device(step: Step, device: NetDev, view: PodView) -> list[str]:
    match step:
        case CreateLink(rail, kind, _, _, mtu, mac):
            return [
                *_line(rail, "kind", kind, device.kind),
                *_line(rail, "mtu", mtu, device.mtu),
                *(_line(rail, "mac", mac, device.mac) if mac else []),
            ]
        case MoveLink(rail, nic):
            return _line(rail, "PCI address", nic.pci, device.pci) if nic.pci else []
        case SetConf(rail, mtu, mac, conf4):
            got = dict(device.conf4)
            lines = [line for name, value in conf4 for line in _line(rail, name, value, got.get(name, "unknown"))]
            lines += _line(rail, "mtu", mtu, device.mtu) if mtu else []
            return [*lines, *(_line(rail, "mac", mac, device.mac) if mac else [])]
        case SetSysctl(rail, family, key, value):
            return _line(rail, key, value, view.sysctls.get((family, rail, key), "unknown"))
        case AddAddress(rail, prefix):
            return _address(rail, prefix, device, view)
        case Bring(rail):
            return _up(rail, device)
        case AddRoute():
            return _route(step, device, view)
    return []


def _line(rail: str, what: str, wanted: object, got: object) -> list[str]:
    return [] if wanted == got else [f"{rail}: {what}: wanted {wanted}, got {got}"]


def _up(rail: str, device: NetDev) -> list[str]:
    if not device.up:
        return [f"{rail}: link: wanted up, got down"]
    if not device.carrier:
        return [f"{rail}: {_NO_CARRIER} (cable, switch port, or the NIC below is down)"]
    return []


def _address(rail: str, prefix: str, device: NetDev, view: PodView) -> list[str]:
    found = [each for each in view.addresses if each.ifindex == device.ifindex and each.prefix == prefix]
    if not found:
        return [f"{rail}: address: wanted {prefix}, got none"]
    return [] if found[0].usable else [f"{rail}: address {prefix}: not usable (duplicate address detection)"]


def _route(step: AddRoute, device: NetDev, view: PodView) -> list[str]:
    for route in view.routes:
        if (route.table, route.destination, route.gateway, route.device) == (
            step.table,
            step.destination,
            step.gateway,
            device.ifindex,
        ):
            return [] if route.source == step.source else _line(step.rail, str(step), step.source, route.source)
    return [f"{step.rail}: route: wanted {str(step).removeprefix('route ')}, got none"]


def _rule(step: AddRule, view: PodView) -> list[str]:
    if any(rule[:3] == (step.source, step.table, step.priority) for rule in view.rules):
        return []
    return [f"rule: wanted from {step.source} lookup {step.table} priority {step.priority}, got none"]
