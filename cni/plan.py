"""From what is wanted and what is seen to the steps that attach a pod. Pure.

The order of a rail's steps is the kernel's: a link before what it carries; settings before the link is up, so that it
never answers ARP for its siblings; addresses before it is up, so that the kernel announces them
(arp_notify, ndisc_notify); routes after, since a route needs a link that is up.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from cni.netconf import WHOLE, Rail
from cni.steps import (
    NO_GUIDS,
    AddAddress,
    AddRoute,
    AddRule,
    AwaitGid,
    BindVf,
    Bring,
    CreateLink,
    HostNic,
    HostRdma,
    MoveLink,
    MoveRdma,
    SetConf,
    SetSysctl,
    SetVf,
    Step,
    UnbindVf,
)
from conf.errors import Finding
from host.addr import Address
from host.link import NetDev

__all__ = ["HostView", "Lease", "VfSeat", "choose_vf", "nic_of", "plan", "problems"]

MAIN_TABLE = 254

# ip-sysctl.rst. Several rails on one host must not answer for each other ("ARP flux"): reply only for an address of
# the receiving link, announce only the link's own. rp_filter: the kernel takes the larger of "all" and the link's;
# 2 (loose) is the only value that keeps asymmetric rail paths alive whatever "all" says.
_CONF4 = (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 2), ("arp_notify", 1))
# A rail's IPv6 comes from us alone: no router may add addresses or a default route through a rail.
_CONF6 = (("disable_ipv6", "0"), ("accept_ra", "0"), ("ndisc_notify", "1"))

VF_STATE = (
    "vf",
    "mac",
    "vlan",
    "vlan_qos",
    "vlan_proto",
    "min_tx_rate",
    "max_tx_rate",
    "spoofchk",
    "trust",
    "link_state",
    "node_guid",
    "port_guid",
)
"""The fields of host.sriov.VfState, whose import only rails with a VF should cost; a test holds them equal."""

_NO_MAC = "00:00:00:00:00:00"

_PRIORITY_BASE = 1000
"""Rule priorities 1000, 1001, …: after ``local`` (0), before ``main`` (32766)."""


class VfSeat(NamedTuple):
    """One virtual function, and what its physical function says of it."""

    pci: str
    driver: str
    """Empty: none is bound."""
    pf: str
    """The PF's PCI address."""
    pf_name: str
    """Its network device; empty when it has none here."""
    pf_up: bool
    state: tuple[Any, ...]
    """Fields of host.sriov.VfState; empty when the PF does not tell."""


class HostView(NamedTuple):
    """What the host looks like before an attachment."""

    devices: tuple[NetDev, ...]
    addresses: tuple[Address, ...]
    uplinks: frozenset[int]
    """Indexes of devices that carry a default route of the host."""
    rdma: Mapping[int, HostRdma] = MappingProxyType({})
    """RDMA devices by the index of their network device."""
    vfs: Mapping[str, VfSeat] = MappingProxyType({})
    """Virtual functions that rails name or may choose from, by PCI address."""
    pools: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """What a rail calls its PF, to the addresses of that PF's VFs in their order."""
    exclusive: bool = False
    """Whether an RDMA device belongs to one network namespace, or is shared by all."""


class Lease(NamedTuple):
    """One address of one rail."""

    rail: str
    prefix: str
    """``10.200.0.2/24``."""
    subnet: str
    gateway: str


def nic_of(rail: Rail, view: HostView) -> NetDev | None:
    """The host's device that a rail names, by PCI address, name or alternative name."""
    if ":" in rail.nic:
        return next((device for device in view.devices if device.pci == rail.nic), None)
    named = next((device for device in view.devices if device.name == rail.nic), None)
    return named or next((device for device in view.devices if rail.nic in device.altnames), None)


def problems(rails: Sequence[Rail], view: HostView, taken: frozenset[str]) -> list[Finding]:
    """Everything that makes ``rails`` impossible on this host and in this pod (``taken``: its interface names)."""
    findings: list[Finding] = []
    seen: dict[int, str] = {}
    for rail in rails:
        where = f"rail {rail.name}"
        if rail.name in taken:
            findings.append(Finding(where, "the pod already has an interface of this name"))
        device = nic_of(rail, view)
        if rail.mode == "sriov":
            unfit = _unfit_vf(rail, device, view)
            findings += [Finding(where, sentence) for sentence in unfit]
            if unfit or device is None:
                continue
        if device is None:
            names = ", ".join(sorted(each.name for each in view.devices if each.name != "lo"))
            findings.append(Finding(where, f"NIC {rail.nic} does not exist on this host (it has: {names or 'none'})"))
            continue
        if rail.rdma_name and not (view.exclusive and device.ifindex in view.rdma):
            reason = "has no RDMA device" if view.exclusive else "RDMA devices are shared by all namespaces here"
            findings.append(Finding(where, f"rdmaName: cannot rename: NIC {rail.nic}: {reason}"))
        if device.ifindex in seen:
            findings.append(Finding(where, f"NIC {rail.nic} is already used by rail {seen[device.ifindex]}"))
        seen.setdefault(device.ifindex, rail.name)
        findings += [Finding(where, sentence) for sentence in _unfit(rail, device, view)]
    return findings + _split_devices(rails, view)


def _whole(rails: Sequence[Rail], view: HostView) -> list[tuple[Rail, NetDev, HostRdma]]:
    """The rails whose RDMA devices would move, with their NICs and devices."""
    found = [(rail, nic_of(rail, view)) for rail in rails if rail.mode in WHOLE and view.exclusive]
    return [(rail, nic, view.rdma[nic.ifindex]) for rail, nic in found if nic and nic.ifindex in view.rdma]


def _split_devices(rails: Sequence[Rail], view: HostView) -> list[Finding]:
    """RDMA devices with several ports that would go into the pod with less than all of them, or under two names."""
    findings = []
    moving = _whole(rails, view)
    taken = {nic.ifindex for _, nic, _ in moving}
    for rail, _, device in moving:
        ports = {index for index, each in view.rdma.items() if each.dev_index == device.dev_index}
        left = sorted(each.name for each in view.devices if each.ifindex in ports - taken)
        names = {other.rdma_name for other, _, each in moving if each.dev_index == device.dev_index} - {""}
        if left:
            told = f"RDMA device {device} is also that of {', '.join(left)} and would go into the pod with it"
            findings.append(
                Finding(f"rail {rail.name}", f"{told}; give the pod all of its ports, or share RDMA devices")
            )
        if rail.rdma_name and len(names) > 1:
            findings.append(Finding(f"rail {rail.name}", f"rdmaName: {device} cannot be {' and '.join(sorted(names))}"))
    return findings


def _unfit_vf(rail: Rail, device: NetDev | None, view: HostView) -> list[str]:
    """Why a rail cannot have its virtual function."""
    seat = view.vfs.get(rail.nic) or (view.vfs.get(device.pci) if device else None)
    if seat is None:
        return [f"{rail.nic or rail.pf} is no virtual function on this host; create VFs: sriov_numvfs of its PF"]
    if not seat.pf_name or not seat.state:
        return [f"the PF {seat.pf} of VF {seat.pci} has no network device on this host; is its driver bound?"]
    if not seat.pf_up:
        return [f"the PF {seat.pf_name} of VF {seat.pci} is down; bring it up: ip link set {seat.pf_name} up"]
    if device is None:
        reason = f"its driver {seat.driver} shows none here" if seat.driver else "no driver is bound to it"
        return [f"VF {seat.pci} has no network device on this host: {reason}"]
    return []


def choose_vf(rail: Rail, view: HostView, held: Container[str]) -> Rail | None:
    """``rail`` with a free VF of its pool: the first that has a network device here and is nobody's; None for none."""
    here = {device.pci for device in view.devices}
    for address in view.pools.get(rail.pf, ()):
        if address in here and address not in held:
            return rail._replace(nic=address)
    return None


def _unfit(rail: Rail, device: NetDev, view: HostView) -> list[str]:
    sentences = []
    if device.master:
        master = next((each.name for each in view.devices if each.ifindex == device.master), str(device.master))
        sentences.append(f"NIC {device.name} is a port of {master}; name {master} itself, or take the NIC out of it")
    if rail.mode in WHOLE:
        if len(device.mac) > len(_NO_MAC):
            sentences.append(f"NIC {device.name} is InfiniBand (IPoIB), not Ethernet; a rail is RoCE")
        if device.ifindex in view.uplinks:
            sentences.append(f"NIC {device.name} carries the host's default route; moving it would cut the node off")
        if device.name == "lo":
            sentences.append("lo cannot be moved")
        on_top = [each.name for each in view.devices if each.parent == device.ifindex and _lies_on(each)]
        if on_top:
            sentences.append(f"NIC {device.name} carries {', '.join(on_top)}, which would be lost if it was moved")
        return sentences
    if not device.up:
        sentences.append(f"NIC {device.name} is down; bring it up: ip link set {device.name} up")
    if rail.mtu is not None and rail.mtu > device.mtu:
        sentences.append(
            f"MTU {rail.mtu} is more than NIC {device.name} has ({device.mtu}); "
            f"raise it: ip link set {device.name} mtu {rail.mtu}"
        )
    return sentences


def _lies_on(device: NetDev) -> bool:
    """Whether ``parent`` is the device below (VLAN, macvlan, …) rather than the other end of a veth."""
    return device.kind not in ("", "veth") and not device.parent_elsewhere


def plan(
    rails: Sequence[Rail],
    view: HostView,
    leases: Mapping[str, Sequence[Lease]],
    *,
    group: int,
    table_base: int | None,
    numbers: Mapping[str, int],
) -> tuple[Step, ...]:
    """Every step of an attachment. ``numbers`` gives each rail its place in the configuration (table, priority).

    ``problems`` must have found nothing.
    """
    # Steps of one kind stand together: what follows one another on one socket travels in one system call.
    vfs: list[Step] = []
    unbinds: list[Step] = []
    binds: list[Step] = []
    links: list[Step] = []
    rdma: list[Step] = []
    gids: list[Step] = []
    settings: list[Step] = []
    sysctls: list[Step] = []
    addresses: list[Step] = []
    ups: list[Step] = []
    routing: list[Step] = []
    names = {device.dev_index: rail.rdma_name for rail, _, device in _whole(rails, view) if rail.rdma_name}
    for rail in rails:
        device = nic_of(rail, view)
        assert device is not None  # noqa: S101 - problems() found nothing
        own = leases[rail.name]
        if rail.mode == "sriov":
            told, again = _vf(rail, device, view)
            vfs.append(told)
            unbinds += again[:1]
            binds += again[1:]
        links.append(_link(rail, device, view, group))
        moves, waits = _rdma(rail, device, view, own, names)
        rdma += moves
        gids += waits
        settings.append(_settings(rail, device))
        if any(":" in lease.prefix for lease in own):
            sysctls += [SetSysctl(rail.name, "ipv6", key, value) for key, value in _CONF6]
        addresses += [AddAddress(rail.name, lease.prefix) for lease in own]
        ups.append(Bring(rail.name))
        number = numbers[rail.name]
        table = None if table_base is None else table_base + number
        routing += _routing(rail, own, table, _PRIORITY_BASE + number)
    return (*vfs, *unbinds, *binds, *links, *rdma, *sysctls, *settings, *addresses, *ups, *routing, *gids)


def _link(rail: Rail, device: NetDev, view: HostView, group: int) -> Step:
    if rail.mode not in WHOLE:
        return CreateLink(rail.name, rail.mode, device.name, device.ifindex, rail.mtu or device.mtu, rail.mac, group)
    nic = HostNic(
        ifindex=device.ifindex,
        name=device.name,
        kind=device.kind,
        pci=device.pci,
        permanent_mac=device.permanent_mac,
        mac="" if rail.mode == "sriov" else device.mac,  # a VF's is put back with the PF's word on it
        mtu=device.mtu,
        up=device.up,
        altnames=device.altnames,
        addresses=tuple(
            address.prefix
            for address in view.addresses
            if address.ifindex == device.ifindex and address.scope == 0 and address.permanent
        ),
        conf4=device.conf4,
    )
    return MoveLink(rail.name, nic)


def _vf(rail: Rail, device: NetDev, view: HostView) -> tuple[SetVf, list[Step]]:
    """What the PF is told of a VF, and the steps that bring its RDMA device a node GUID if it lacks one."""
    seat, rdma = view.vfs[device.pci], view.rdma.get(device.ifindex)
    lacks = rdma is not None and rdma.node_guid in NO_GUIDS and rail.vf.guid_of != "off" and seat.driver != ""
    seen = dict(zip(VF_STATE, seat.state, strict=True))
    asked = {key: value for key, value in rail.vf._asdict().items() if key in seen and value not in (None, "")}
    own = device.mac if lacks and rail.vf.guid_of == "own-mac" and seen["mac"] == _NO_MAC else ""
    mac = rail.mac or own or seen["mac"]
    wanted = {**seen, **asked, "mac": mac}
    if asked.get("vlan") == 0:
        wanted |= {"vlan_qos": 0, "vlan_proto": "802.1q"}
    told = SetVf(rail.name, seat.pci, seat.pf, seen["vf"], seat.state, tuple(wanted.values()), device.mac)
    if rdma is None or not lacks or mac == _NO_MAC:
        return told, []
    bind = BindVf(rail.name, seat.pci, seat.driver, rdma.name)
    return told, [UnbindVf(bind.rail, bind.pci, bind.driver), bind]


def _rdma(
    rail: Rail, device: NetDev, view: HostView, leases: Sequence[Lease], names: Mapping[int, str]
) -> tuple[list[Step], list[Step]]:
    """The move of a NIC's RDMA device, if it has one that must move, and the GIDs that its addresses must get.

    ``names``: what devices are to be called in the pod, by their index.
    """
    found = view.rdma.get(device.ifindex)
    if found is None or rail.mode not in WHOLE:
        return [], []
    name = names.get(found.dev_index, found.name)
    moves: list[Step] = [MoveRdma(rail.name, found, name)] if view.exclusive else []
    addresses = [lease.prefix.partition("/")[0] for lease in leases]
    return moves, [AwaitGid(rail.name, name, address, view.exclusive, found.port) for address in addresses]


def _settings(rail: Rail, device: NetDev) -> SetConf:
    if rail.mode not in WHOLE:
        return SetConf(rail.name, 0, "", _CONF4)  # created with its MTU and MAC
    return SetConf(rail.name, rail.mtu if rail.mtu and rail.mtu != device.mtu else 0, rail.mac, _CONF4)


def _routing(rail: Rail, leases: Sequence[Lease], table: int | None, priority: int) -> list[Step]:
    steps: list[Step] = []
    for lease in leases:
        address = lease.prefix.partition("/")[0]
        version6 = ":" in address
        beyond = [(dst, gw) for dst, gw in rail.routes if (":" in dst) == version6]
        steps += [AddRoute(rail.name, dst, gw, MAIN_TABLE, address) for dst, gw in beyond]
        if table is None:
            continue
        steps.append(AddRoute(rail.name, lease.subnet, "", table, address))
        steps += [AddRoute(rail.name, dst, gw, table, address) for dst, gw in beyond]
        if lease.gateway:
            steps.append(AddRoute(rail.name, "default", lease.gateway, table, address))
        steps.append(AddRule(f"{address}/{128 if version6 else 32}", table, priority))
    return steps
