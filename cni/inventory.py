"""Reads this host's GPUs, NICs and PCI tree, for pairing. A door: it decides nothing."""

from __future__ import annotations

from typing import NamedTuple

from cni import gather, topology
from cni.topology import Gpu, Nic, Tree
from host import link, pci, rdma
from host.errors import HostError
from host.netlink import Route

__all__ = ["Inventory", "read"]


class Inventory(NamedTuple):
    """What the host has."""

    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    tree: Tree


def read(*, need_rdma: bool = True) -> Inventory:
    """The host as it is now. With ``need_rdma`` a NIC without RDMA device is not usable as a rail."""
    tree = {device.address: device for device in pci.devices()}
    with Route() as connection:
        netdevs = link.devices(connection)
        uplinks = gather.host_view(connection).uplinks
    try:
        rdma_devices = rdma.devices()
    except HostError:
        rdma_devices = ()  # a kernel without RDMA
    nics = topology.nics(netdevs, rdma_devices, tree, uplinks=uplinks, need_rdma=need_rdma)
    return Inventory(topology.gpus(tree.values()), nics, tree)
