"""Reads the host and a pod into values; decides nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from cni.netconf import WHOLE, Rail
from cni.plan import HostView, VfSeat
from cni.steps import AddAddress, AwaitGid, BindVf, HostRdma, MoveRdma, SetSysctl, Step
from cni.verify import PodView
from host import addr, link, netns, route, rule, sysctl
from host.errors import HostError
from host.inet import AF_INET, AF_INET6
from host.netlink import Route

__all__ = ["gids", "has_rdma", "host_view", "names_of", "pod_rdma", "pod_view"]

_CLASS = "/sys/class/infiniband"


def host_view(connection: Route, rails: Sequence[Rail] = ()) -> HostView:
    """The namespace that the plugin runs in; for ``rails`` that take NICs whole, RDMA devices and VFs too."""
    defaults = [
        device
        for family in (AF_INET, AF_INET6)
        for each in route.routes(connection, family)
        if each.destination == "default" and each.table == route.MAIN
        for device in (each.device, *each.legs)
        if device
    ]
    view = HostView(link.devices(connection), addr.addresses(connection), frozenset(defaults))
    if any(rail.mode in WHOLE for rail in rails) and has_rdma():
        devices, exclusive = _rdma({device.ifindex: device.pci for device in view.devices})
        view = view._replace(rdma=devices, exclusive=exclusive)
    virtual = [rail for rail in rails if rail.mode == "sriov"]
    if virtual:
        seats, pools = _virtual_functions(connection, virtual, view.devices)
        view = view._replace(vfs=seats, pools=pools)
    return view


def names_of(rail: Rail) -> tuple[str, ...]:
    """What a rail's NIC may be claimed under: its name, or the VFs that it may choose from."""
    if not rail.pf:
        return (rail.nic,)
    from host import pci  # only for rails with a VF

    try:
        return pci.read(rail.pf).vfs if ":" in rail.pf else ()
    except HostError:
        return ()


def _virtual_functions(
    connection: Route, rails: Sequence[Rail], devices: Sequence[link.NetDev]
) -> tuple[dict[str, VfSeat], dict[str, tuple[str, ...]]]:
    """The VFs that ``rails`` name or may choose from, and the pools."""
    from host import pci, sriov  # only for rails with a VF

    by_pci = {device.pci: device for device in devices if device.pci}
    by_name = {name: device.pci for device in devices for name in (device.name, *device.altnames)}
    pools: dict[str, tuple[str, ...]] = {}
    seats: dict[str, VfSeat] = {}
    states: dict[str, dict[int, tuple[object, ...]]] = {}
    for rail in rails:
        wanted = rail.pf or rail.nic
        try:
            function = pci.read(wanted if ":" in wanted else by_name[wanted])
        except (HostError, KeyError, ValueError):
            continue  # problems() says that it is not there
        if rail.pf:
            pools[rail.pf] = function.vfs
        physical = function if rail.pf else pci.read(function.pf) if function.pf else None
        if physical is None:
            continue
        pf = by_pci.get(physical.address)
        if pf is not None and physical.address not in states:
            found = sriov.vfs(connection, pf.ifindex, target=pf.name)
            states[physical.address] = {state.vf: tuple(state) for state in found}
        for address in function.vfs if rail.pf else (function.address,):
            seats[address] = VfSeat(
                pci=address,
                driver=pci.read(address).driver,
                pf=physical.address,
                pf_name=pf.name if pf else "",
                pf_up=pf.up if pf else False,
                state=states.get(physical.address, {}).get(physical.vfs.index(address), ()),
            )
    return seats, pools


def has_rdma() -> bool:
    """Whether the kernel has any RDMA device; where it has none, its netlink family need not be loaded."""
    try:
        return bool(os.listdir(_CLASS))
    except OSError:
        return False


def _rdma(places: Mapping[int, str]) -> tuple[dict[int, HostRdma], bool]:
    """RDMA devices by the index of their network device (``places``: its PCI address), and the namespace mode."""
    from host import nldev  # only where there is RDMA

    with nldev.Rdma() as connection:
        found = {
            port.netdev_index: HostRdma(
                device.dev_index, device.name, device.node_guid, places.get(port.netdev_index, ""), port.number
            )
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
        return rdma.find_gid(step.device, step.address, step.port, sysfs=sysfs) is not None
    except HostError:
        return False  # the device is not there


def pod_rdma(pod: netns.Netns) -> dict[str, str]:
    """RDMA devices that the pod sees (all of them in shared mode), with their node GUIDs."""
    from host import nldev

    with netns.inside(pod), nldev.Rdma() as connection:
        return {device.name: device.node_guid for device in nldev.devices(connection)}


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
        rdma=pod_rdma(pod) if any(isinstance(step, MoveRdma | BindVf) for step in steps) else {},
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
