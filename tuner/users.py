"""Who holds a NIC, judged from the kernel alone: another namespace has it, something on it, or one of its VFs.

Paths: ``/proc/PID/ns/net`` and ``/run/netns`` for the namespaces there are; links of each by rtnetlink. A namespace
that neither a process nor a file names cannot be found; a NIC in it counts as absent all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from host import link, netns, uppers
from host.errors import HostError
from host.netlink import Route
from tuner.nic import InUse

__all__ = ["ABSENT", "has_driver", "namespaces", "users"]

_KINDS = ("macvlan", "macvtap", "ipvlan", "ipvtap")
_NAMED = ("run/netns", "var/run/netns")
ABSENT = InUse(reason="absent", detail="its network device is in another namespace, or it has none")
_MOST = 4096
"""Namespaces that are looked into; a host with more has other troubles."""


def users(root: str, addresses: Sequence[str], here: Sequence[link.NetDev]) -> dict[str, InUse]:
    """Why each of the PCI functions counts as in use; those that nobody else holds are left out."""
    present = {dev.pci: dev for dev in here if dev.pci}
    found: dict[str, InUse] = {}
    above = _uppers(root, [present[address] for address in addresses if address in present])
    for address in addresses:
        dev = present.get(address)
        away = _away(root, address, present) if address else None
        if dev is None and address and has_driver(root, address):
            found[address] = ABSENT
        elif dev is not None and dev.ifindex in above:
            found[address] = InUse(reason="upper-elsewhere", detail=above[dev.ifindex])
        elif away:
            found[address] = InUse(reason="vf-elsewhere", detail=f"virtual function {away} is in another namespace")
    return found


def has_driver(root: str, address: str) -> bool:
    """Whether a driver is bound to a PCI function: without one, its network device is nowhere."""
    return os.path.lexists(os.path.join(root, "sys/bus/pci/devices", address, "driver"))


def _away(root: str, address: str, present: dict[str, link.NetDev]) -> str | None:
    """The first VF of a PF that has a driver and no network device in this namespace."""
    folder = os.path.join(root, "sys/bus/pci/devices", address)
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith("virtfn"))
    except OSError:
        return None
    for name in names:
        vf = os.path.basename(os.path.realpath(os.path.join(folder, name)))
        if vf not in present and has_driver(root, vf):
            return vf
    return None


def _uppers(root: str, nics: Sequence[link.NetDev]) -> dict[int, str]:
    """macvlans and ipvlans of other namespaces by the index of the NIC that they are on."""
    indexes = {dev.ifindex for dev in nics}
    found: dict[int, str] = {}
    if not indexes:
        return found
    home = netns.own()
    try:
        for space in namespaces(root):
            for upper in _of(space, home):
                if upper.parent in indexes and upper.kind in _KINDS:
                    found.setdefault(upper.parent, f"{upper.kind} {upper.name} in {space.path}")
    finally:
        home.close()
    return found


def _of(space: netns.Netns, home: netns.Netns) -> list[uppers.Upper]:
    """What a namespace has on devices of ``home``; nothing where it ended meanwhile or may not be entered."""
    try:
        with netns.inside(space):
            route = Route()
        try:
            return list(uppers.uppers(route, home.fd))
        finally:
            route.close()
    except HostError:
        return []
    finally:
        space.close()


def namespaces(root: str = "/") -> Iterator[netns.Netns]:
    """Every other network namespace that a process or a file names, once each; the caller closes them."""
    own = netns.own()
    seen = {own.identity}
    own.close()
    for path in _paths(root):
        identity = netns.identity(path)
        if identity is None or identity in seen or len(seen) > _MOST:
            continue
        seen.add(identity)
        try:
            yield netns.Netns.open(path)
        except HostError:
            continue


def _paths(root: str) -> Iterable[str]:
    for folder in _NAMED:
        place = os.path.join(root, folder)
        yield from (os.path.join(place, name) for name in _entries(place))
    process = os.path.join(root, "proc")
    yield from (os.path.join(process, name, "ns/net") for name in _entries(process) if name.isdigit())


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
