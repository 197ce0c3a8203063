"""Reads the host and a pod into values; decides nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable

from cni.plan import HostView
from cni.steps import AddAddress, AwaitGid, HostRdma, MoveRdma, SetSysctl, Step
from cni.verify import PodView
from host import addr, link, netns, route, rule, sysctl
from host.errors import HostError
from host.inet import AF_INET, AF_INET6
from host.netlink import Route

__all__ = ["gids", "has_rdma", "host_view", "pod_view"]

_CLASS = "/sys/class/infiniband"


def host_view(connection: Route, *, rdma: bool = False) -> HostView:
    """The namespace that the plugin runs in; with ``rdma`` its RDMA devices too."""
    defaults = [
        device
        for family in (AF_INET, AF_INET6)
        for each in route.routes(connection, family)
        if each.destination == "default" and each.table == route.MAIN
        for device in (each.device, *each.legs)
        if device
    ]
    devices, exclusive = _rdma() if rdma and has_rdma() else ({}, False)
    return HostView(link.devices(connection), addr.addresses(connection), frozenset(defaults), devices, exclusive)


def has_rdma() -> bool:
    """Whether the kernel has any RDMA device; where it has none, its netlink family need not be loaded."""
    try:
        return bool(os.listdir(_CLASS))
    except OSError:
        return False


def _rdma() -> tuple[dict[int, HostRdma], bool]:
    """RDMA devices by the index of their network device, and the namespace mode."""
    from host import nldev  # only where there is RDMA

    with nldev.Rdma() as connection:
        found = {
            port.netdev_index: HostRdma(device.dev_index, device.name, device.node_guid)
            for device in nldev.devices(connection)
            for port in nldev.ports(connection, device)
            if port.netdev_index
        }
        return found, nldev.exclusive(connection)


def gids(pod: netns.Netns, wanted: Iterable[AwaitGid]) -> frozenset[tuple[str, str]]:
    """Of the wanted (RDMA device, address) those that have a RoCE v2 GID now."""
    from host import rdma  # only where there is RDMA

    inside = [step for step in wanted if step.inside]
    shared = [step for step in wanted if not step.inside]
    found = {(step.device, step.address) for step in shared if _has_gid(step, "/sys")}
    if inside:
        with rdma.sysfs_of(pod) as sysfs:
            found |= {(step.device, step.address) for step in inside if _has_gid(step, sysfs)}
    return frozenset(found)


def _has_gid(step: AwaitGid, sysfs: str) -> bool:
    from host import rdma

    try:
        return rdma.find_gid(step.device, step.address, sysfs=sysfs) is not None
    except HostError:
        return False  # the device is not there


def _pod_rdma(pod: netns.Netns) -> frozenset[str]:
    from host import nldev

    with netns.inside(pod), nldev.Rdma() as connection:
        return frozenset(device.name for device in nldev.devices(connection))


def pod_view(connection: Route, pod: netns.Netns, steps: Iterable[Step]) -> PodView:
    """What ``steps`` may have touched in a pod's namespace; ``connection`` is a socket of that namespace."""
    steps = tuple(steps)
    version6 = any(isinstance(step, AddAddress) and ":" in step.prefix for step in steps)
    families = (AF_INET, AF_INET6) if version6 else (AF_INET,)
    return PodView(
        devices=link.devices(connection),
        addresses=addr.addresses(connection),
        routes=tuple(each for family in families for each in route.routes(connection, family)),
        rules=tuple(each for family in families for each in rule.rules(connection, family)),
        sysctls=_sysctls(pod, [step for step in steps if isinstance(step, SetSysctl)]),
        rdma=_pod_rdma(pod) if any(isinstance(step, MoveRdma) for step in steps) else frozenset(),
        gids=gids(pod, waits) if (waits := [step for step in steps if isinstance(step, AwaitGid)]) else frozenset(),
    )


def _sysctls(pod: netns.Netns, wanted: list[SetSysctl]) -> dict[tuple[str, str, str], str]:
    if not wanted:
        return {}
    values = {}
    with netns.inside(pod):
        for step in wanted:
            try:
                value = sysctl.read("net", step.family, "conf", step.rail, step.key)
            except HostError:
                value = "missing"
            values[step.family, step.rail, step.key] = value
    return values
