"""The node's rails as they are now: where each NIC is, its link, its RDMA port, who has it. Reads; changes nothing.

A NIC that a pod has whole is looked at in the pod's namespace: from the host it is simply not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from cni import inventory
from cni.lifecycle import is_alive
from cni.netconf import WHOLE, NetConf, Rail
from cni.store import ATTACHED, Attachment, Store
from cni.topology import Assignment
from host import link, pci, rdma
from host.errors import HostError
from host.link import NetDev
from host.netlink import Route
from host.netns import Netns, inside

__all__ = ["Holder", "RailView", "look", "pairs_of", "problem"]

_CLASS = "class/infiniband"


class Holder(NamedTuple):
    """A pod that has a rail."""

    container: str
    pod: str
    """``namespace/name``; empty for a container that is no pod of Kubernetes."""
    netns: str


class RailView(NamedTuple):
    """One rail of the node now."""

    name: str
    mode: str
    nic: str
    """As the configuration calls it."""
    pci: str
    """Empty for a NIC that is not on PCI, or was never seen."""
    netdev: str
    """Its name where it is now; empty when it is nowhere to be seen."""
    inside: str
    """Container that has it whole; empty while it is the host's."""
    up: bool
    carrier: bool
    speed: int
    """Mb/s; 0 for unknown."""
    mtu: int
    """Bytes."""
    rdma: str
    """RDMA device; empty for none."""
    port: int
    rdma_state: str
    """``ACTIVE``, ``DOWN``, …; empty without a device."""
    holders: tuple[Holder, ...]
    """Pods that have the rail, oldest first: several in the modes that share a NIC."""
    gpu: str
    """PCI address of the GPU that it is paired with; empty for none."""
    distance: str
    """PIX to SYS."""
    vfs: tuple[str, ...] = ()
    """PCI addresses of the virtual functions that pods choose from, where the rail is a pool."""
    numa_node: int = -1


class _Space(NamedTuple):
    """One network namespace as it is seen through one mount of sysfs."""

    devices: tuple[NetDev, ...]
    ports: Mapping[str, tuple[str, rdma.Port]]
    """Network device to its RDMA device and port."""
    sysfs: str


def look(conf: NetConf, store: Store | None, root: str = "/") -> tuple[RailView, ...]:
    """Every rail of the configuration, in its order. HostError where the host itself cannot be read."""
    attachments = [each for each in store.attachments() if each.state == ATTACHED] if store is not None else []
    alive = [each for each in attachments if is_alive(each)]
    pairs = {each.rail: each for each in pairs_of(conf, attachments, root)}
    with Route() as connection:
        host = _space(connection, os.path.join(root, "sys"))
    found = []
    with ExitStack() as spaces:
        opened: dict[int, _Space | None] = {}
        for rail in conf.rails:
            mine = [each for each in alive if _has(each, rail.name)]
            owner = mine[0] if mine and rail.mode in WHOLE and not rail.pf else None
            if owner is not None and owner.id not in opened:
                opened[owner.id] = spaces.enter_context(_inside(owner))
            space = opened[owner.id] if owner is not None else host
            found.append(_view(rail, owner, mine, space or host, pairs.get(rail.name), attachments, root))
    return tuple(found)


def pairs_of(conf: NetConf, attachments: Iterable[Attachment], root: str = "/") -> tuple[Assignment, ...]:
    """Which rail is which GPU's, wherever the NICs are."""
    places = {rail["nic"]: rail["pci"] for each in attachments for rail in each.details.get("rails", [])}
    return inventory.pairing([(rail.name, rail.pf or rail.nic) for rail in conf.rails], root, places).rails


def _has(attachment: Attachment, rail: str) -> bool:
    return any(each.get("name") == rail for each in attachment.details.get("rails", []))


@contextmanager
def _inside(attachment: Attachment) -> Iterator[_Space | None]:
    """The namespace of a pod; None when it ends while we look."""
    try:
        pod = Netns.open(attachment.netns)
    except HostError:
        yield None
        return
    try:
        with inside(pod):
            connection = Route()
        with connection, rdma.sysfs_of(pod) as sysfs:
            yield _space(connection, sysfs)
    finally:
        pod.close()


def _space(connection: Route, sysfs: str) -> _Space:
    devices = link.devices(connection)
    ports = {}
    if os.path.isdir(os.path.join(sysfs, _CLASS)):
        ports = {
            port.netdev: (device.name, port)
            for device in rdma.devices(sysfs=sysfs)
            for port in device.ports
            if port.netdev
        }
    return _Space(devices, ports, sysfs)


def _view(
    rail: Rail,
    owner: Attachment | None,
    mine: Sequence[Attachment],
    space: _Space,
    pair: Assignment | None,
    attachments: Sequence[Attachment],
    root: str,
) -> RailView:
    name = rail.pf or rail.nic
    device = _device(rail.name if owner is not None else name, space)
    address = pair.nic.pci if pair else _address(name, device, attachments, root)
    rdma_name, port = space.ports.get(device.name, ("", None)) if device else ("", None)
    function = _function(address, root)
    return RailView(
        name=rail.name,
        mode=rail.mode,
        nic=name,
        pci=address,
        netdev=device.name if device else "",
        inside=owner.key.container_id if owner is not None and device else "",
        up=bool(device and device.up),
        carrier=bool(device and device.up and device.carrier),
        speed=_speed(space.sysfs, device.name) if device else 0,
        mtu=device.mtu if device else 0,
        rdma=rdma_name,
        port=port.number if port else 0,
        rdma_state=port.state if port else "",
        holders=tuple(_holder(each) for each in mine),
        gpu=pair.gpu.pci if pair and pair.gpu else "",
        distance=pair.distance.name if pair and pair.distance else "",
        vfs=tuple(vf for vf in function.vfs if vf) if function and rail.pf else (),
        numa_node=function.numa_node if function else -1,
    )


def _holder(attachment: Attachment) -> Holder:
    pod = attachment.details.get("pod", {})
    name = f"{pod['namespace']}/{pod['name']}" if "namespace" in pod and "name" in pod else ""
    return Holder(attachment.key.container_id, name, attachment.netns)


def _device(name: str, space: _Space) -> NetDev | None:
    if ":" in name:
        return next((device for device in space.devices if device.pci == name), None)
    return next((each for each in space.devices if name in (each.name, *each.altnames)), None)


def _address(name: str, device: NetDev | None, attachments: Iterable[Attachment], root: str) -> str:
    """PCI address of a rail that could not be paired."""
    if ":" in name:
        return name
    seen = (rail["pci"] for each in attachments for rail in each.details.get("rails", []) if rail.get("nic") == name)
    return (device.pci if device else "") or inventory.place_of(name, root) or next(seen, "")


def _function(address: str, root: str) -> pci.Device | None:
    try:
        return pci.read(address, root) if address else None
    except (HostError, ValueError):
        return None


def _speed(sysfs: str, device: str) -> int:
    """Mb/s; 0 where the driver does not tell (a link that is down says -1 or refuses)."""
    try:
        with open(os.path.join(sysfs, "class/net", device, "speed")) as file:
            return max(0, int(file.read()))
    except (OSError, ValueError):
        return 0


def problem(rail: RailView, *, fabric_has_rdma: bool, verdict: str = "") -> str:
    """Why a rail would not serve a pod now; empty when it would. Pure.

    A NIC that pods take whole is theirs to bring up: down on the host says nothing of its cable. ``fabric_has_rdma``:
    some rail of the node has an RDMA device, so that one without has lost its own. ``verdict`` is the tuner's.
    """
    if not rail.netdev:
        return f"NIC {rail.nic} does not exist"
    waiting = rail.mode in WHOLE and not rail.inside and not rail.vfs
    if not rail.up:
        return "" if waiting else f"NIC {rail.netdev} is down"
    if not rail.carrier:
        return f"NIC {rail.netdev} is without carrier"
    if rail.rdma and rail.rdma_state != "ACTIVE":
        return f"RDMA device {rail.rdma}, port {rail.port}, is {rail.rdma_state}"
    if not rail.rdma and fabric_has_rdma:
        return f"NIC {rail.netdev} has no RDMA device, others of this node have"
    return verdict
