"""The changes that attach a pod, as values. Each prints as one line, knows its undo and what it should look like after.

Pure. A step names devices by what does not change under it (index, PCI address), never by a name that a pod can alter.
``Undo`` steps succeed when there is nothing left to undo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

__all__ = [
    "NO_GUIDS",
    "AddAddress",
    "AddRoute",
    "AddRule",
    "AwaitGid",
    "BindVf",
    "Bring",
    "CreateLink",
    "DeleteGroup",
    "DeleteRule",
    "HostNic",
    "HostRdma",
    "MoveLink",
    "MoveRdma",
    "ReleaseVf",
    "RestoreDriver",
    "RestoreLink",
    "RestoreRdma",
    "RestoreVf",
    "SetConf",
    "SetSysctl",
    "SetVf",
    "Step",
    "UnbindVf",
    "dump",
    "load",
    "undo",
]


NO_GUIDS = frozenset({"0000:0000:0000:0000", "0000:00ff:fe00:0000"})
"""Node GUIDs that are none: an mlx5 VF's before its PF gave it a MAC, and what mlx5 makes of a MAC of zeros
(``node_guid_gen_from_mac``, drivers/net/ethernet/mellanox/mlx5/core/eswitch.c)."""
_VF_MAC = slice(1, 2)
"""Place of ``mac`` in host.sriov.VfState."""


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
    pci: str = ""
    """What it is found by once its driver was bound again, which gives it another index; empty where unknown."""
    port: int = 1
    """The port of it that is the NIC's: a function with two ports has one device for both."""

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
    port: int = 1

    def __str__(self) -> str:
        port = f" port {self.port}" if self.port != 1 else ""
        return f"await the RoCE v2 GID of {self.address} on {self.device}{port}"


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

    @property
    def changes_mac(self) -> bool:
        """Whether the PF gets to say another MAC than it said."""
        return self.seen[_VF_MAC] != self.wanted[_VF_MAC]  # slices: a damaged journal may be shorter

    def __str__(self) -> str:
        return f"set vf {self.vf} of {self.pf} ({self.pci}) for {self.rail}: {self.wanted}"


class UnbindVf(NamedTuple):
    """Take a VF from its driver; one that has none is left as it is.

    An mlx5 VF gets its node GUID from the MAC that its PF gave it, but only learns it when its driver is bound
    (``mlx5_query_node_guid`` while probing; see also sriov-network-operator #267: rdma_cm crashes without).
    """

    rail: str
    pci: str
    driver: str

    def __str__(self) -> str:
        return f"unbind {self.driver} from {self.pci} for {self.rail}"


class BindVf(NamedTuple):
    """Bind a VF to its driver again, and wait for its network device and for its RDMA device with a node GUID."""

    rail: str
    pci: str
    driver: str
    rdma: str
    """The name that its RDMA device had and gets again."""

    def __str__(self) -> str:
        return f"bind {self.driver} to {self.pci} again for the node GUID of {self.rdma} ({self.rail})"


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


class ReleaseVf(NamedTuple):
    """Undo of BindVf: unbind a VF whose RDMA device got a node GUID, which takes it from the pod; others stay bound."""

    rail: str
    pci: str
    driver: str

    def __str__(self) -> str:
        return f"unbind {self.driver} from {self.pci} ({self.rail}), if it has got a node GUID"


class RestoreDriver(NamedTuple):
    """Undo of UnbindVf: a VF without a driver gets its own again, and its RDMA device its name."""

    rail: str
    pci: str
    driver: str
    rdma: str

    def __str__(self) -> str:
        return f"have {self.driver} on {self.pci} ({self.rail})"


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
    | UnbindVf
    | BindVf
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
    | ReleaseVf
    | RestoreDriver
)

_KINDS: dict[str, Any] = {
    each.__name__: each
    for each in (
        CreateLink,
        MoveLink,
        MoveRdma,
        SetVf,
        UnbindVf,
        BindVf,
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
        ReleaseVf,
        RestoreDriver,
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
    drivers = _undo_bindings(steps)
    if not netns_alive:
        return (*drivers, *rdma, *restore, *vfs)
    rules: list[Step] = [DeleteRule(*step) for step in reverse if isinstance(step, AddRule)]
    groups = dict.fromkeys(step.group for step in reverse if isinstance(step, CreateLink))
    return (*drivers, *rdma, *rules, *restore, *vfs, *(DeleteGroup(group) for group in groups))


def _undo_bindings(steps: Sequence[Step]) -> list[Step]:
    """For VFs whose driver was bound again: it must be there before a VF can come home.

    Where the PF's word on the MAC is taken back, the node GUID that was made of it has to go too, or the next pod with
    this MAC shares it. So the driver is unbound, which takes the VF from the pod while its VLAN still holds, the PF's
    word is put back, and the driver bound finds that.
    """
    bound = [step for step in steps if isinstance(step, BindVf)]
    told = {step.rail: step for step in steps if isinstance(step, SetVf)}
    anew = [step for step in bound if step.rail in told and told[step.rail].changes_mac]
    return [
        *(ReleaseVf(step.rail, step.pci, step.driver) for step in anew),
        *(RestoreVf(*told[step.rail]) for step in anew),
        *(RestoreDriver(*step) for step in bound),
    ]


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
