"""The changes that attach a pod, as values. Each prints as one line, knows its undo and what it should look like after.

Pure. A step names devices by what does not change under it (index, PCI address), never by a name that a pod can alter.
``Undo`` steps succeed when there is nothing left to undo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

__all__ = [
    "AddAddress",
    "AddRoute",
    "AddRule",
    "AwaitGid",
    "Bring",
    "CreateLink",
    "DeleteGroup",
    "DeleteRule",
    "HostNic",
    "HostRdma",
    "MoveLink",
    "MoveRdma",
    "RestoreLink",
    "RestoreRdma",
    "RestoreVf",
    "SetConf",
    "SetSysctl",
    "SetVf",
    "Step",
    "dump",
    "load",
    "undo",
]


class HostNic(NamedTuple):
    """A physical NIC as it was on the host, to be put back exactly so."""

    ifindex: int
    name: str
    kind: str
    pci: str
    permanent_mac: str
    mac: str
    mtu: int
    up: bool
    altnames: tuple[str, ...]
    addresses: tuple[str, ...]
    conf4: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"{self.name} ({self.pci})" if self.pci else self.name


class HostRdma(NamedTuple):
    """An RDMA device as it was on the host. ``dev_index`` stays with it through moves and renames."""

    dev_index: int
    name: str
    node_guid: str

    def __str__(self) -> str:
        return self.name


class CreateLink(NamedTuple):
    """Create a macvlan or ipvlan on a NIC, straight in the pod's namespace under its final name."""

    rail: str
    kind: str
    nic: str
    nic_index: int
    mtu: int
    mac: str
    group: int

    def __str__(self) -> str:
        mac = f" mac {self.mac}" if self.mac else ""
        return f"create {self.kind} {self.rail} on {self.nic} mtu {self.mtu}{mac} group {self.group:#x}"


class MoveLink(NamedTuple):
    """Move a NIC into the pod's namespace under its final name."""

    rail: str
    nic: HostNic

    def __str__(self) -> str:
        return f"move {self.nic} into the pod as {self.rail}"


class MoveRdma(NamedTuple):
    """Move a NIC's RDMA device into the pod, after the NIC (exclusive mode only)."""

    rail: str
    device: HostRdma
    name: str
    """Its name in the pod."""

    def __str__(self) -> str:
        renamed = f" as {self.name}" if self.name != self.device.name else ""
        return f"move RDMA device {self.device} of {self.rail} into the pod{renamed}"


class AwaitGid(NamedTuple):
    """Wait until the kernel has made the RoCE v2 GID of an address: a program that starts at once must find it."""

    rail: str
    device: str
    """The RDMA device's name where ``inside`` says."""
    address: str
    inside: bool
    """Whether the device is the pod's alone (exclusive mode) and so only to be seen from there."""

    def __str__(self) -> str:
        return f"await the RoCE v2 GID of {self.address} on {self.device}"


class SetVf(NamedTuple):
    """Set what the PF says of a VF: MAC, VLAN, trust, spoof check, link state, rates."""

    rail: str
    pci: str
    """The VF's PCI address."""
    pf: str
    """The PF's."""
    vf: int
    """The VF's number among the PF's."""
    seen: tuple[Any, ...]
    """Fields of host.sriov.VfState as they were; ``wanted`` as they shall be."""
    wanted: tuple[Any, ...]
    mac: str
    """The VF's own MAC address as it was."""

    def __str__(self) -> str:
        return f"set vf {self.vf} of {self.pf} ({self.pci}) for {self.rail}: {self.wanted}"


class SetConf(NamedTuple):
    """Set MTU, MAC and IPv4 settings of a rail. Zero and empty leave a value alone."""

    rail: str
    mtu: int
    mac: str
    conf4: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        words = [f"mtu {self.mtu}"] if self.mtu else []
        words += [f"mac {self.mac}"] if self.mac else []
        words += [f"{name}={value}" for name, value in self.conf4]
        return f"set {self.rail} {' '.join(words)}"


class SetSysctl(NamedTuple):
    """Set one setting of a rail that only /proc/sys has (the IPv6 ones)."""

    rail: str
    family: str
    """``ipv4`` or ``ipv6``: the folder in /proc/sys/net."""
    key: str
    value: str

    def __str__(self) -> str:
        return f"sysctl net.{self.family}.conf.{self.rail}.{self.key}={self.value}"


class AddAddress(NamedTuple):
    """Give a rail an address (nodad)."""

    rail: str
    prefix: str

    def __str__(self) -> str:
        return f"address {self.prefix} on {self.rail}"


class Bring(NamedTuple):
    """Bring a rail up. With arp_notify and ndisc_notify set, the kernel announces its addresses to the neighbours."""

    rail: str

    def __str__(self) -> str:
        return f"bring {self.rail} up and announce it"


class AddRoute(NamedTuple):
    """A route through a rail."""

    rail: str
    destination: str
    """A prefix, or ``default``."""
    gateway: str
    table: int
    source: str

    def __str__(self) -> str:
        via = f" via {self.gateway}" if self.gateway else ""
        source = f" src {self.source}" if self.source else ""
        return f"route {self.destination}{via} dev {self.rail} table {self.table}{source}"


class AddRule(NamedTuple):
    """Look traffic from an address up in its rail's table."""

    source: str
    """A full-length prefix."""
    table: int
    priority: int

    def __str__(self) -> str:
        return f"rule {self.priority} from {self.source} lookup {self.table}"


class DeleteRule(NamedTuple):
    """Undo of AddRule."""

    source: str
    table: int
    priority: int

    def __str__(self) -> str:
        return f"delete rule {self.priority} from {self.source} lookup {self.table}"


class DeleteGroup(NamedTuple):
    """Undo of every CreateLink of an attachment at once: links of a group share one grace period."""

    group: int

    def __str__(self) -> str:
        return f"delete the links of group {self.group:#x}"


class RestoreLink(NamedTuple):
    """Undo of MoveLink: back to the host, with name, MAC, MTU, alternative names, addresses and settings."""

    rail: str
    nic: HostNic

    def __str__(self) -> str:
        return f"return {self.rail} to the host as {self.nic}"


class RestoreVf(NamedTuple):
    """Undo of SetVf, after the VF came home."""

    rail: str
    pci: str
    pf: str
    vf: int
    seen: tuple[Any, ...]
    wanted: tuple[Any, ...]
    mac: str

    def __str__(self) -> str:
        return f"put vf {self.vf} of {self.pf} ({self.pci}) back: {self.seen}"


class RestoreRdma(NamedTuple):
    """Undo of MoveRdma: back to the host under its name, before its NIC."""

    rail: str
    device: HostRdma

    def __str__(self) -> str:
        return f"return RDMA device {self.device} of {self.rail} to the host"


Step = (
    CreateLink
    | MoveLink
    | MoveRdma
    | SetVf
    | AwaitGid
    | SetConf
    | SetSysctl
    | AddAddress
    | Bring
    | AddRoute
    | AddRule
    | DeleteRule
    | DeleteGroup
    | RestoreLink
    | RestoreRdma
    | RestoreVf
)

_KINDS: dict[str, Any] = {
    each.__name__: each
    for each in (
        CreateLink,
        MoveLink,
        MoveRdma,
        SetVf,
        AwaitGid,
        SetConf,
        SetSysctl,
        AddAddress,
        Bring,
        AddRoute,
        AddRule,
        DeleteRule,
        DeleteGroup,
        RestoreLink,
        RestoreRdma,
        RestoreVf,
    )
}


_TYPES: dict[str, type] = {"str": str, "int": int, "bool": bool}
"""Types of fields by their annotation; all others are tuples."""


def undo(steps: Sequence[Step], *, netns_alive: bool) -> tuple[Step, ...]:
    """What puts the host back, whichever of ``steps`` ran.

    Addresses, routes and settings go with their link; rules do not. With the namespace gone only NICs are left to
    restore: the kernel destroyed the created links and returned the physical ones under whatever name they had.
    """
    reverse = tuple(reversed(steps))
    restore: list[Step] = [RestoreLink(step.rail, step.nic) for step in reverse if isinstance(step, MoveLink)]
    rdma: list[Step] = [RestoreRdma(step.rail, step.device) for step in reverse if isinstance(step, MoveRdma)]
    vfs: list[Step] = [RestoreVf(*step) for step in reverse if isinstance(step, SetVf)]
    if not netns_alive:
        return (*rdma, *restore, *vfs)
    rules: list[Step] = [DeleteRule(*step) for step in reverse if isinstance(step, AddRule)]
    groups = dict.fromkeys(step.group for step in reverse if isinstance(step, CreateLink))
    return (*rdma, *rules, *restore, *vfs, *(DeleteGroup(group) for group in groups))


def dump(steps: Iterable[Step]) -> list[list[Any]]:
    """Steps as JSON values."""
    return [[type(step).__name__, *step] for step in steps]


def load(values: Iterable[Sequence[Any]]) -> tuple[Step, ...]:
    """The inverse of :func:`dump`. ValueError when the values are no steps (a damaged journal)."""
    steps: list[Step] = []
    try:
        for name, *fields in values:
            step = _typed(_KINDS[name](*(_tuples(field) for field in fields)))
            if isinstance(step, MoveLink | RestoreLink):
                step = step._replace(nic=_typed(HostNic(*step.nic)))
            elif isinstance(step, MoveRdma | RestoreRdma):
                step = step._replace(device=_typed(HostRdma(*step.device)))
            steps.append(step)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"damaged journal: {error!r}") from error
    return tuple(steps)


def _typed(value: Any) -> Any:
    """``value`` (a NamedTuple), if its fields have the types that its class names; TypeError otherwise."""
    for field, (name, kind) in zip(value, type(value).__annotations__.items(), strict=True):
        if type(field) is not _TYPES.get(kind.__forward_arg__, tuple):
            raise TypeError(f"{name} is {field!r}, not {kind.__forward_arg__}")
    return value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
