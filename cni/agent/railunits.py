"""What the device plugin offers, and what it hands over for it. The devices follow from the node's view; pure but for
the character devices, which are read from sysfs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cni.agent.nodeview import RailView, problem
from cni.agent.preference import Offer
from cni.agent.verdict import verdict_of
from cni.selection import device_id, parse_device_id
from host import files

__all__ = ["Unit", "char_devices", "offers", "rdma_of", "units"]

_DEV = "/dev/infiniband"
_CLASSES = ("infiniband_verbs", "infiniband_mad")
"""uverbsN; umadN and issmN."""
_COMMON = "rdma_cm"


class Unit(NamedTuple):
    """One device of ``roceway.io/rail``."""

    ident: str
    """At most 63 characters: a rail's name has 15, a PCI address 13."""
    healthy: bool
    why: str
    """Why not; empty when it is."""
    numa_node: int
    """-1: unknown."""


def units(rails: Sequence[RailView], verdicts: Mapping[str, str]) -> tuple[Unit, ...]:
    """One device per rail; per virtual function where a rail is a pool of them."""
    has_rdma = any(rail.rdma for rail in rails)
    found = []
    for rail in rails:
        why = problem(rail, fabric_has_rdma=has_rdma, verdict=verdict_of(verdicts, rail))
        idents = [device_id(rail.name, vf) for vf in rail.vfs] or [device_id(rail.name)]
        found += [Unit(ident, not why, why, rail.numa_node) for ident in idents]
    return tuple(found)


def offers(rails: Sequence[RailView]) -> dict[str, Offer]:
    """Device to what a preference goes by."""
    return {
        ident: Offer(rail.name, rail.gpu, rail.numa_node)
        for rail in rails
        for ident in ([device_id(rail.name, vf) for vf in rail.vfs] or [device_id(rail.name)])
    }


def rdma_of(ident: str, rails: Sequence[RailView], root: str = "/") -> str:
    """The RDMA device that a device has on this host; empty for none."""
    name, vf = parse_device_id(ident)
    if not vf:
        return next((rail.rdma for rail in rails if rail.name == name), "")
    folder = os.path.join(root, "sys/bus/pci/devices", vf, "infiniband")
    return next(iter(sorted(files.names(folder))), "")


def char_devices(rdma_devices: Iterable[str], root: str = "/") -> list[str]:
    """Paths of the character devices through which a program uses these RDMA devices; empty for no device.

    ``Documentation/infiniband/user_verbs.rst``, ``user_mad.rst``: the class folders say which is whose (``ibdev``).
    """
    wanted = set(rdma_devices) - {""}
    found = [
        f"{_DEV}/{name}"
        for kind in _CLASSES
        for name in sorted(files.names(os.path.join(root, "sys/class", kind)))
        if files.text(os.path.join(root, "sys/class", kind, name, "ibdev")) in wanted
    ]
    shared = found and os.path.exists(os.path.join(root, "sys/class/misc", _COMMON))  # the agent may have no such /dev
    return [*found, *([f"{_DEV}/{_COMMON}"] if shared else [])]
