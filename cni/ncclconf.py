"""A pod's ``nccl.conf``: what NCCL must know of its rails. Pure.

NCCL reads ``KEY=VALUE`` lines (src/misc/param.cc); a variable that the job sets itself goes before. The GID index is
left to NCCL: it differs from pod to pod, so it is narrowed by family, range and RoCE version instead.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cni.podconf import Nccl

__all__ = ["PodRail", "address_range", "nccl_conf", "rails_document"]

_ROCE_VERSION = 2
_FAMILIES = {4: "AF_INET", 6: "AF_INET6"}


class PodRail(NamedTuple):
    """One rail as a pod has it."""

    name: str
    """Also its interface's name."""
    pci: str
    """The NIC's function, or the VF; empty for a NIC that is not on PCI."""
    rdma: str
    """The RDMA device as the pod sees it; empty for none."""
    port: int
    addresses: tuple[str, ...]
    """``10.200.0.2/16``."""
    subnets: tuple[str, ...]
    """The rail's networks, of which the addresses are."""
    mtu: int
    """Bytes."""
    gpu: str = ""
    """PCI address of the GPU that it is paired with; empty for none."""
    distance: str = ""
    """PIX to SYS."""


def nccl_conf(rails: Sequence[PodRail], nccl: Nccl, topology: str) -> str:
    """The file's text. ``topology`` is the path of the topology file in the container; empty for none."""
    lines = ["# by roceway-cni, for this pod's rails; what the job sets in its environment goes before"]
    devices = [f"{rail.rdma}:{rail.port}" for rail in rails if rail.rdma]
    if devices:
        # "=": these very devices; without it mlx5_1 would stand for mlx5_10 too.
        lines += [f"NCCL_IB_HCA=={','.join(devices)}", f"NCCL_IB_ROCE_VERSION_NUM={_ROCE_VERSION}"]
        lines += _addresses(rails)
        lines += [] if nccl.traffic_class is None else [f"NCCL_IB_TC={nccl.traffic_class}"]
    lines.append(f"NCCL_CROSS_NIC={nccl.cross_nic}")
    interface = nccl.socket_interface
    lines.append(f"NCCL_SOCKET_IFNAME={interface if interface[0] in '=^' else f'={interface}'}")
    lines += [f"NCCL_TOPO_FILE={topology}"] if topology else []
    return "\n".join(lines) + "\n"


def _addresses(rails: Sequence[PodRail]) -> list[str]:
    """Family and range of the GIDs to take; IPv4 where every rail has it. Nothing where no family is on all rails."""
    for version, name in _FAMILIES.items():
        subnets = [[each for each in rail.subnets if (":" in each) == (version == 6)] for rail in rails]
        if all(subnets):
            covering = address_range(each for listed in subnets for each in listed)
            return [f"NCCL_IB_ADDR_FAMILY={name}", *([f"NCCL_IB_ADDR_RANGE={covering}"] if covering else [])]
    return []


def address_range(subnets: Iterable[str]) -> str:
    """The smallest network that holds all ``subnets`` (of one family); empty where that is everything.

    NCCL takes one range for all devices.
    """
    networks = [ipaddress.ip_network(each) for each in subnets]
    first = networks[0]
    length = min(network.prefixlen for network in networks)
    for network in networks[1:]:
        difference = int(first.network_address) ^ int(network.network_address)
        length = min(length, first.max_prefixlen - difference.bit_length())
    mask = ((1 << length) - 1) << (first.max_prefixlen - length)
    return str(ipaddress.ip_network((int(first.network_address) & mask, length))) if length else ""


def rails_document(rails: Sequence[PodRail], gpus: Sequence[str]) -> dict[str, object]:
    """``rails.json``: the same for programs other than NCCL. ``version`` changes when a field changes its meaning."""
    return {
        "version": 1,
        "gpus": list(gpus),
        "rails": [
            {
                "name": rail.name,
                "interface": rail.name,
                "pci": rail.pci,
                "rdma": rail.rdma,
                "port": rail.port if rail.rdma else 0,
                "addresses": list(rail.addresses),
                "mtu": rail.mtu,
                "gpu": rail.gpu,
                "distance": rail.distance,
            }
            for rail in rails
        ],
    }
