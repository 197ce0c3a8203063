"""Reads this host's GPUs, NICs and PCI tree, for pairing. A door: it decides nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from cni import gather, topology
from cni.topology import Gpu, Nic, Outcome, Tree
from host import link, pci, rdma
from host.errors import HostError
from host.netlink import Route

__all__ = ["Inventory", "pairing", "place_of", "read"]

_DISPLAY, _ACCELERATOR = "0x03", "0x12"
"""PCI base classes in which GPUs are (cni.topology has the exact ones)."""


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


def pairing(
    rails: Sequence[tuple[str, str]], root: str = "/", places: Mapping[str, str] = MappingProxyType({})
) -> Outcome:
    """Which rail is which GPU's, for ``(rail, PCI address or netdev name)``, as :func:`cni.topology.rails_named`.

    Of NICs only the place on PCI counts here, not where the network device is now: the pairing of a node must be the
    same while pods hold some of its NICs. ``places`` gives the PCI address of names that the host does not show.
    """
    gpus = _gpus(root)
    tree: dict[str, pci.Device] = {device.address: device for device in gpus}
    nics = []
    for _, name in rails:
        address = name.lower() if ":" in name else place_of(name, root) or places.get(name, "")
        try:
            tree[address] = pci.read(address, root)
        except (HostError, ValueError):
            continue  # rails_named says that it is not there
        nics.append(Nic(address, "" if ":" in name else name, ""))
    return topology.rails_named(rails, topology.gpus(gpus), nics, tree)


def place_of(netdev: str, root: str = "/") -> str:
    """PCI address of a network device that the host shows; empty for none."""
    try:
        target = os.readlink(os.path.join(root, "sys/class/net", netdev, "device"))
        pci.order(os.path.basename(target))
    except (OSError, ValueError):
        return ""
    return os.path.basename(target)


@lru_cache(maxsize=4)
def _gpus(root: str) -> tuple[pci.Device, ...]:
    """The machine's GPUs; they do not change while it runs, and looking at all of PCI takes milliseconds."""
    found = []
    for address in pci.addresses(root):
        try:
            with open(os.path.join(root, "sys/bus/pci/devices", address, "class")) as file:
                kind = file.read(4)
        except OSError:
            continue
        if kind in (_DISPLAY, _ACCELERATOR):
            found.append(pci.read(address, root))
    return tuple(found)
