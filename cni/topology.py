"""Which NIC belongs to which GPU, and so which rail a GPU has. Pure.

A GPU and a NIC under one PCIe switch talk to each other without touching the CPU; across the machine they do it at a
fraction of the speed. So each GPU is paired with the nearest NIC, each NIC with one GPU, and the sum over the node is
the best that there is: fewest pairs of the worst class, then of the next better one, then the fewest bridges crossed.
Among equals the lower PCI addresses belong together, so a node pairs alike at every call, whatever the order it was
read in.

Pairing is over the whole node, whichever GPUs a pod has: a pod gets the rails of its GPUs, and no pod the rail of
another pod's GPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from cni.matching import cheapest
from conf.errors import Finding
from host import pci, rdma
from host.link import NetDev

__all__ = [
    "Assignment",
    "Distance",
    "Gpu",
    "Nic",
    "Outcome",
    "Pairing",
    "distance",
    "gpus",
    "neighbours",
    "nics",
    "pair",
    "rails_auto",
    "rails_named",
]

Tree = Mapping[str, pci.Device]
"""Every function of the machine by address."""

# PCI vendors that make accelerators, and the classes that these go by: VGA, 3D and other display controllers
# (NVIDIA, Intel), processing accelerators (AMD Instinct, Ascend, Gaudi). A BMC's VGA is of another vendor.
_GPU_VENDORS = frozenset({0x10DE, 0x1002, 0x19E5, 0x1DA3, 0x8086})
_GPU_CLASSES = frozenset({0x0300, 0x0302, 0x0380, 0x1200})
_CPU_GRAPHICS = (0x8086, 0x0300)  # Intel's graphics inside the CPU


class Distance(IntEnum):
    """How far two PCI functions are apart, in NCCL's terms (``nvidia-smi topo -m`` has the same legend)."""

    PIX = 1
    """At most one PCIe switch between them."""
    PXB = 2
    """Several PCIe switches, but no host bridge: the same root port."""
    PHB = 3
    """Through their host bridge (the CPU)."""
    NODE = 4
    """Through several host bridges of one NUMA node."""
    SYS = 5
    """Across NUMA nodes."""


class Gpu(NamedTuple):
    """One GPU of the node."""

    pci: str
    uuid: str = ""
    """How the device plugin names it, where that is not the PCI address."""

    def __str__(self) -> str:
        return f"GPU {self.pci}"


class Nic(NamedTuple):
    """One port of a NIC: a network device. A NIC with two ports behind one PCI function counts twice."""

    pci: str
    netdev: str
    """Empty for an RDMA device without one."""
    rdma: str
    """Its RDMA device; empty for none."""
    reason: str = ""
    """Why it cannot be a rail; empty: it can."""

    def __str__(self) -> str:
        return f"NIC {self.pci} ({self.netdev or self.rdma})"


class Pairing(NamedTuple):
    """One GPU and the NIC it got."""

    gpu: Gpu
    nic: Nic | None
    """None: there are fewer usable NICs than GPUs."""
    distance: Distance | None
    nearest: Distance | None
    """Distance of the GPU's nearest usable NIC, whichever GPU got that one; None on a node without usable NICs."""


class Assignment(NamedTuple):
    """One rail of the node."""

    rail: str
    nic: Nic
    gpu: Gpu | None
    """The GPU that it is paired with; None on a node with fewer GPUs than rails."""
    distance: Distance | None
    nearest: Distance | None


class Outcome(NamedTuple):
    """The node's rails, and what is in the way of the others."""

    rails: tuple[Assignment, ...]
    """In the order of the fabric's rails."""
    findings: tuple[Finding, ...]


def gpus(devices: Iterable[pci.Device]) -> tuple[Gpu, ...]:
    """The node's accelerators by PCI address; graphics of a BMC or CPU and virtual functions are none."""
    found = (device for device in devices if _is_gpu(device))
    return tuple(Gpu(device.address) for device in sorted(found, key=lambda device: pci.order(device.address)))


def _is_gpu(device: pci.Device) -> bool:
    kind = device.code >> 8
    inside = (device.vendor, kind) == _CPU_GRAPHICS
    return device.vendor in _GPU_VENDORS and kind in _GPU_CLASSES and not device.pf and not inside


def nics(
    netdevs: Iterable[NetDev],
    rdma_devices: Iterable[rdma.Device],
    tree: Tree,
    *,
    uplinks: Collection[int] = (),
    need_rdma: bool = True,
) -> tuple[Nic, ...]:
    """Every NIC port on PCI, by address and name, each with the reason if it cannot be a rail.

    ``uplinks`` are indexes of devices that carry a default route of the host (``cni.plan.HostView.uplinks``).
    """
    ports = [(device, port) for device in rdma_devices if device.pci for port in device.ports]
    physical = [device for device in netdevs if device.pci in tree]
    found = []
    for device in physical:
        mine = _rdma_port(device, ports)
        reason = _unusable(device, mine, tree, device.ifindex in uplinks, need_rdma)
        found.append(Nic(device.pci, device.name, mine[0].name if mine else "", reason))
    named = {nic.rdma for nic in found}
    lonely = [(device, port) for device, port in ports if device.name not in named and device.pci in tree]
    found += [Nic(device.pci, "", device.name, _without_netdev(port)) for device, port in lonely]
    return tuple(sorted(set(found), key=_nic_order))


def _rdma_port(device: NetDev, ports: Sequence[tuple[rdma.Device, rdma.Port]]) -> tuple[rdma.Device, rdma.Port] | None:
    """A netdev's RDMA port: the one that names it, else the only one of its PCI function (InfiniBand names none)."""
    beside = [each for each in ports if each[0].pci == device.pci]
    named = [each for each in beside if each[1].netdev == device.name]
    unnamed = [each for each in beside if not each[1].netdev]
    return next(iter(named or unnamed), None)


def _unusable(
    device: NetDev, mine: tuple[rdma.Device, rdma.Port] | None, tree: Tree, uplink: bool, need_rdma: bool
) -> str:
    if mine and mine[1].link_layer != "Ethernet":
        return _without_netdev(mine[1])
    if uplink:
        return "carries the host's default route"
    if device.master:
        return "is a port of a bridge or bond"
    pf = tree[device.pci].pf
    if pf:
        return f"is a virtual function of {pf}"
    if need_rdma and mine is None:
        return "has no RDMA device"
    return ""


def _without_netdev(port: rdma.Port) -> str:
    if port.link_layer != "Ethernet":
        return f"its link is {port.link_layer or 'unknown'}, not Ethernet (InfiniBand storage or NVLink management)"
    return "its RDMA device has no network device here (a pod has it, or its driver gave it none)"


def _natural(name: str) -> tuple[str, int]:
    """``eth10`` after ``eth9``."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)


def _nic_order(nic: Nic) -> tuple[tuple[int, int, int, int], tuple[str, int], tuple[str, int], str]:
    return pci.order(nic.pci), _natural(nic.netdev), _natural(nic.rdma), nic.reason


def distance(one: str, other: str, tree: Tree) -> Distance:
    """Distance of two functions by address. ValueError for an address that the tree does not have."""
    return _measure(one, other, tree)[0]


def _measure(one: str, other: str, tree: Tree) -> tuple[Distance, int]:
    """Distance, and how many functions the way crosses below what both have in common."""
    try:
        a, b = tree[one], tree[other]
    except KeyError as error:
        raise ValueError(f"this machine has no PCI device {error.args[0]}") from None
    shared = 0
    for x, y in zip(a.chain, b.chain, strict=False):
        if x != y:
            break
        shared += 1
    below = len(a.chain) - shared, len(b.chain) - shared
    if a.root != b.root or not a.root:
        return (Distance.NODE if a.numa_node == b.numa_node else Distance.SYS), sum(below)
    if not shared:
        return Distance.PHB, sum(below)
    # Under one switch each side has at most its downstream port and itself below the common upstream port.
    return (Distance.PIX if max(below) <= 2 else Distance.PXB), sum(below)


def pair(gpus: Iterable[Gpu], nics: Iterable[Nic], tree: Tree) -> tuple[Pairing, ...]:
    """Each GPU's NIC, by PCI address of the GPUs. Unusable NICs are nobody's. ValueError for what is not in ``tree``.

    A GPU goes without only where usable NICs run out, and then it is the one whose going without costs least.
    """
    rows = sorted(set(gpus), key=lambda gpu: (pci.order(gpu.pci), gpu.uuid))
    columns = sorted({nic for nic in nics if not nic.reason}, key=_nic_order)
    ways = [[_measure(gpu.pci, nic.pci, tree) for nic in columns] for gpu in rows]
    chosen = cheapest(_costs(ways, len(columns)))
    pairings = []
    for number, gpu in enumerate(rows):
        column = chosen[number]
        got = column < len(columns)
        pairings.append(
            Pairing(
                gpu=gpu,
                nic=columns[column] if got else None,
                distance=ways[number][column][0] if got else None,
                nearest=min((way[0] for way in ways[number]), default=None),
            )
        )
    return tuple(pairings)


def neighbours(gpus: Iterable[Gpu], nics: Iterable[Nic], held: Collection[str], tree: Tree) -> dict[str, Pairing]:
    """By PCI address of a NIC the GPU that the node pairs it with, also for NICs that pods have (``held``).

    Those are paired as if they were here, a virtual function as its physical one, so that who has what changes nothing.
    """
    physical = {address: tree[address].pf or address for address in held if address in tree}
    away = set(physical.values())
    here = [nic for nic in nics if nic.pci not in away]
    pairings = pair(gpus, [*here, *(Nic(address, "", "") for address in away if address in tree)], tree)
    found = {each.nic.pci: each for each in pairings if each.nic}
    return {**found, **{address: found[place] for address, place in physical.items() if place in found}}


def _costs(ways: Sequence[Sequence[tuple[Distance, int]]], count: int) -> list[list[int]]:
    """What each GPU (row) pays for each NIC, and, in one more column for each GPU, for none.

    One number holds four criteria, each large enough never to be outweighed by all that follow: how many pairs of the
    worst class (a digit for each class, in a base above the number of pairs), how many functions crossed, and last
    the NIC's place, as a digit at the GPU's place: so no two solutions cost the same.
    """
    size = len(ways)
    base, digit = size + 1, count + 2
    far = base * (1 + max((hops for row in ways for _, hops in row), default=0))
    ties = digit**size
    rows = []
    for number, row in enumerate(ways):
        place = digit ** (size - 1 - number)
        costs = [(base**kind * far + hops) * ties + column * place for column, (kind, hops) in enumerate(row)]
        rows.append(costs + [base ** (max(Distance) + 1) * far * ties + count * place] * size)
    return rows


def rails_named(rails: Sequence[tuple[str, str]], gpus: Iterable[Gpu], nics: Iterable[Nic], tree: Tree) -> Outcome:
    """The rails that the fabric file names, as ``(rail, PCI address or netdev name)``: the same NIC whatever is near.

    GPUs are paired with these NICs only.
    """
    known = sorted(set(nics), key=_nic_order)
    findings: list[Finding] = []
    named: list[tuple[str, Nic]] = []
    for rail, name in rails:
        matches = [nic for nic in known if name.lower() == nic.pci or name == nic.netdev]
        problem = _name_problem(name, matches, [nic for _, nic in named])
        if problem:
            findings.append(Finding(f"rail {rail}", problem))
        else:
            named.append((rail, matches[0]))
    pairings = pair(gpus, [nic for _, nic in named], tree)
    return Outcome(_assigned(named, pairings), tuple(findings))


def _name_problem(name: str, matches: Sequence[Nic], taken: Collection[Nic]) -> str:
    if not matches:
        return f"this node has no NIC {name}"
    if len(matches) > 1:
        ports = ", ".join(nic.netdev or nic.rdma for nic in matches)
        return f"NIC {name} has several ports; name one by its netdev: {ports}"
    if matches[0].reason:
        return f"{matches[0]} cannot be a rail: {matches[0].reason}"
    return f"{matches[0]} is another rail already" if matches[0] in taken else ""


def _assigned(rails: Iterable[tuple[str, Nic]], pairings: Iterable[Pairing]) -> tuple[Assignment, ...]:
    owners = {pairing.nic: pairing for pairing in pairings if pairing.nic}
    assignments = []
    for rail, nic in rails:
        owner = owners.get(nic)
        if owner is None:
            assignments.append(Assignment(rail, nic, None, None, None))
        else:
            assignments.append(Assignment(rail, nic, owner.gpu, owner.distance, owner.nearest))
    return tuple(assignments)


def rails_auto(rails: Sequence[str], gpus: Iterable[Gpu], nics: Iterable[Nic], tree: Tree) -> Outcome:
    """The rails of a node whose type says ``rails: auto``: the nth rail is the NIC of the nth GPU by PCI address.

    A rail must be the same wire on every node, so nothing moves up when something is missing: a GPU without a NIC
    leaves its rail out. Where the number of GPUs is not that of rails, it is the nth NIC in the order of the GPUs
    paired (of PCI addresses on a node without GPUs), provided that there are as many as rails. Anything else is told
    and left out, for then the fabric file has to name the NICs.
    """
    usable = sorted({nic for nic in nics if not nic.reason}, key=_nic_order)
    pairings = pair(gpus, usable, tree)
    paired = [each.nic for each in pairings if each.nic]
    if len(pairings) == len(rails):
        named = [(rail, each.nic) for rail, each in zip(rails, pairings, strict=True) if each.nic]
        lost = [
            Finding(f"rail {rail}", f"no NIC is left for {each.gpu}")
            for rail, each in zip(rails, pairings, strict=True)
            if each.nic is None
        ]
        return Outcome(_assigned(named, pairings), (*lost, *_odd_ones(pairings)))
    chosen = paired if pairings else usable
    if len(chosen) == len(rails):
        return Outcome(_assigned(zip(rails, chosen, strict=True), pairings), tuple(_odd_ones(pairings)))
    counts = f"{len(rails)} rails, {len(pairings)} GPUs and {len(usable)} usable NICs"
    return Outcome((), (Finding("rails", f"{counts} do not tell which NIC is which rail; name the NICs"),))


def _odd_ones(pairings: Sequence[Pairing]) -> list[Finding]:
    """A pair farther apart than the others': its own NIC may be dead and a storage NIC have taken its place."""
    known = [each.distance for each in pairings if each.distance]
    usual = max(set(known), key=lambda kind: (known.count(kind), -kind)) if known else None
    return [
        Finding(str(each.gpu), f"{each.nic} is {each.distance.name}, most pairs are {usual.name}: is a NIC missing?")
        for each in pairings
        if usual and each.distance and each.distance > usual
    ]
