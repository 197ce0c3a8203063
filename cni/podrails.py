"""A pod's rails as its run directories tell them: put together from the journal, the leases and what was read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cni import gather
from cni.decision import Decision
from cni.netconf import WHOLE, Rail
from cni.plan import HostView, nic_of
from cni.steps import MoveRdma, Step
from cni.store import LeaseRow
from host.link import NetDev

if TYPE_CHECKING:
    from cni.ncclconf import PodRail

__all__ = ["described", "rdma_ports", "told"]

Described = dict[str, Any]
"""What the database keeps of a rail beside its steps."""


def described(rails: Sequence[Rail], view: HostView, decision: Decision) -> list[Described]:
    """What ``explain`` and the run directory tell of each rail: its NIC, its GPU, its RDMA device on the host."""
    gpus = {pair.rail: pair for pair in decision.pairs}
    ports, exclusive = rdma_ports() if decision.containers else ({}, False)
    found = []
    for rail in rails:
        device = nic_of(rail, view)
        if device is None:
            continue
        entry: Described = {"name": rail.name, "mode": rail.mode, "nic": rail.pf or rail.nic}
        entry |= {"device": device.name, "pci": device.pci}
        pair = gpus.get(rail.name)
        if pair is not None and pair.gpu is not None and pair.distance is not None:
            entry |= {"gpu": pair.gpu.pci, "distance": pair.distance.name}
        if device.ifindex in ports and (rail.mode in WHOLE or not exclusive):
            entry["rdma"], entry["port"] = ports[device.ifindex]
        found.append(entry)
    return found


def rdma_ports() -> tuple[dict[int, tuple[str, int]], bool]:
    """RDMA device and port by the index of their network device, and whether such devices are one namespace's each."""
    if not gather.has_rdma():
        return {}, False
    from host import nldev  # only where there is RDMA

    with nldev.Rdma() as connection:
        ports = {
            port.netdev_index: (device.name, port.number)
            for device in nldev.devices(connection)
            for port in nldev.ports(connection, device)
            if port.netdev_index
        }
        return ports, nldev.exclusive(connection)


def told(
    rails: Sequence[Described], steps: Sequence[Step], leases: Sequence[LeaseRow], devices: Sequence[NetDev]
) -> tuple[PodRail, ...]:
    """The rails as the pod sees them; ``devices`` are its own."""
    from cni.ncclconf import PodRail  # only for pods that asked for rails as devices

    renamed = {step.rail: step.name for step in steps if isinstance(step, MoveRdma)}
    mtus: Mapping[str, int] = {device.name: device.mtu for device in devices}
    own = {rail["name"]: [lease for lease in leases if lease.rail == rail["name"]] for rail in rails}
    return tuple(
        PodRail(
            name=rail["name"],
            pci=rail["pci"],
            rdma=renamed.get(rail["name"]) or str(rail.get("rdma", "")),
            port=rail.get("port", 0),
            addresses=tuple(lease.prefix for lease in own[rail["name"]]),
            subnets=tuple(lease.subnet for lease in own[rail["name"]]),
            mtu=mtus.get(rail["name"], 0),
            gpu=rail.get("gpu", ""),
            distance=rail.get("distance", ""),
        )
        for rail in rails
    )
