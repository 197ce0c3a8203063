"""One NIC's QoS as a host shows it, one host's NICs, and what is wanted of them. Pure values, with a JSON form each.

None always means *unknown*: the kernel, the driver or our rights did not show it. It is never "off" and never "none":
an empty tuple says that the host showed an empty table. Units are in the names or in the field comments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from tuner.record import decode, encode

__all__ = [
    "App",
    "Applied",
    "Buffer",
    "Counters",
    "Dcbx",
    "Ecn",
    "Ets",
    "Gid",
    "HostQos",
    "HostWanted",
    "InUse",
    "Link",
    "NicQos",
    "NicWanted",
    "Pause",
    "Pci",
    "Peer",
    "Pfc",
    "Tos",
    "Tsa",
]

Tsa = Literal["strict", "cbs", "ets", "vendor"]
"""Transmission selection of a traffic class (IEEE 802.1Q, TSA assignment table). ``vendor``: mlx5 at power-on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One entry of the IEEE APP table: packets with ``protocol`` go to ``priority``."""

    selector: str
    """``ethertype``, ``stream``, ``dgram``, ``any``, ``dscp`` or ``pcp``; the number as text for another one."""
    protocol: int
    """For ``dscp`` the DSCP, 0 to 63."""
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ets:
    """Priorities to traffic classes, and how those share the link. Eight values each, by priority or by class."""

    willing: bool = False
    cap: int = 8
    """How many traffic classes the NIC has."""
    cbs: bool = False
    prio_tc: tuple[int, ...] = (0,) * 8
    tsa: tuple[Tsa, ...] = ("strict",) * 8
    tc_bw: tuple[int, ...] = (0,) * 8
    """Percent of the link; means something only for classes with ``ets``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pfc:
    """Priority flow control."""

    enabled: tuple[int, ...] = ()
    """Priorities that pause instead of dropping, ascending."""
    cap: int = 8
    """How many priorities may be enabled at once."""
    mbc: bool = False
    delay: int = 0
    """IEEE says bit times; mlx5 takes it as the cable's length in metres."""
    requests: tuple[int, ...] = (0,) * 8
    """Pause frames sent, by priority."""
    indications: tuple[int, ...] = (0,) * 8
    """Pause frames received, by priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """The port's receive buffers."""

    prio_buffer: tuple[int, ...]
    """Buffer number of each priority."""
    size: tuple[int, ...]
    """Bytes, by buffer number."""
    total: int = 0
    """Bytes; 0 where the driver does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcbx:
    """Who negotiates DCB on this port (DCB_CAP_DCBX_* bits)."""

    host: bool = False
    """Programs on this host do: we, or lldpad."""
    lld_managed: bool = False
    """The driver or the NIC's firmware does."""
    cee: bool = False
    ieee: bool = False
    static: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What the neighbour advertised by DCBX; None for what it did not."""

    ets: Ets | None = None
    pfc: Pfc | None = None
    apps: tuple[App, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Global (802.3x) pause, which stops every priority at once."""

    autoneg: bool
    rx: bool
    tx: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tos:
    """Where the ToS byte (DSCP << 2 | ECN) of RoCE packets comes from on this NIC."""

    rdma_cm: int | None = None
    """configfs rdma_cm/…/default_roce_tos: for connections made with rdma_cm; 0 where nobody set it."""
    rdma_cm_mode: str | None = None
    """configfs rdma_cm/…/default_roce_mode: ``RoCE v2`` or ``IB/RoCE v1``."""
    traffic_class: int | None = None
    """OFED's /sys/class/infiniband/D/tc/P/traffic_class: overrides all on the device; None also where none is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ecn:
    """ECN and DCQCN on this NIC."""

    np: tuple[bool, ...] | None = None
    """Notification point (answers CE with CNPs) by priority."""
    rp: tuple[bool, ...] | None = None
    """Reaction point (slows down on a CNP) by priority."""
    single: bool = False
    """Whether NP and RP are one switch for all priorities (bnxt, irdma) that is shown eight times."""
    cnp_dscp: int | None = None
    cnp_prio: int | None = None
    """802.1p priority of CNPs that the firmware sends."""
    params: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """DCQCN's parameters under the driver's own names (``rp_ai_rate``, ``np_min_time_between_cnps``, …)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """One entry of the RDMA device's GID table."""

    index: int
    type: str
    """``RoCE v2`` or ``IB/RoCE v1``."""
    address: str
    netdev: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pci:
    """Where the NIC sits on PCIe."""

    address: str
    vendor: int = 0
    device: int = 0
    numa_node: int | None = None
    width: int | None = None
    """Lanes in use."""
    max_width: int | None = None
    speed: float | None = None
    """GT/s per lane in use."""
    max_speed: float | None = None
    max_read_request: int | None = None
    """Bytes."""
    max_payload: int | None = None
    relaxed_ordering: bool | None = None
    acs_enabled: tuple[str, ...] | None = None
    """Access Control Services (RR, CR, UF …) enabled on any port above the NIC; None: not readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The port."""

    up: bool
    """Administratively."""
    carrier: bool
    speed: int | None = None
    """Mb/s; None without a link."""
    changes: int | None = None
    """How often the carrier went or came since the device exists (carrier_changes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters since the driver was loaded, under one set of names for all drivers. Eight values each, by priority."""

    rx_bytes: tuple[int, ...] | None = None
    tx_bytes: tuple[int, ...] | None = None
    rx_packets: tuple[int, ...] | None = None
    tx_packets: tuple[int, ...] | None = None
    rx_pause: tuple[int, ...] | None = None
    """PFC frames received."""
    tx_pause: tuple[int, ...] | None = None
    rx_pause_us: tuple[int, ...] | None = None
    """Microseconds that the class could not send, since the other end paused it."""
    tx_pause_us: tuple[int, ...] | None = None
    rx_discards: tuple[int, ...] | None = None
    """Packets dropped for want of buffer (older bnxt_en: bytes)."""
    port: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Of the port: ``rx_global_pause``, ``tx_global_pause``, ``link_downs``, ``rx_discards``, ``tx_discards``."""
    rdma: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The RDMA device's hw_counters under the driver's names (``np_cnp_sent``, ``rp_cnp_handled``, …)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """Why the NIC counts as in a pod's hands, judged from the kernel alone."""

    reason: Literal["absent", "upper-elsewhere", "vf-elsewhere"]
    """``absent``: the PCI function is there, its netdev is in another namespace. ``upper-elsewhere``: a macvlan or
    ipvlan on it is. ``vf-elsewhere``: one of its VFs is."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NicQos:
    """One NIC as seen."""

    name: str
    """Its netdev, or its PCI address where the netdev is not in this namespace."""
    rail: str | None = None
    """The rail that fabric.yaml gives it; None where no file was asked."""
    ifindex: int | None = None
    driver: str | None = None
    """``mlx5_core``, ``bnxt_en``, ``ice``, ``ionic``, …"""
    firmware: str | None = None
    function: Literal["pf", "vf"] | None = None
    rdma: str | None = None
    """Its RDMA device."""
    mac: str | None = None
    addresses: tuple[str, ...] | None = None
    """With prefix length, ``10.200.0.1/24``; of the host's namespace."""
    in_use: InUse | None = None
    """None: nobody but the host has it."""

    dcb: bool | None = None
    """Whether the driver has dcbnl at all."""
    dcbx: Dcbx | None = None
    trust: Literal["dscp", "pcp"] | None = None
    """What received and sent packets are classified by."""
    apptrust: tuple[str, ...] | None = None
    """The kernel's trust order (selectors); None before kernel 6.2 and without driver support."""
    apps: tuple[App, ...] | None = None
    rewrite: tuple[App, ...] | None = None
    """Priority to DSCP or PCP on egress (DCB rewrite table); kernel 6.3."""
    ets: Ets | None = None
    pfc: Pfc | None = None
    buffer: Buffer | None = None
    maxrate: tuple[int, ...] | None = None
    """kb/s by traffic class; 0 for none."""
    peer: Peer | None = None
    fw_lldp: bool | None = None
    """Whether the NIC's firmware runs an LLDP agent of its own (private flag fw-lldp-agent and its like)."""

    pause: Pause | None = None
    mtu: int | None = None
    active_mtu: int | None = None
    """RoCE path MTU in bytes."""
    tos: Tos = field(default_factory=Tos)
    ecn: Ecn = field(default_factory=Ecn)
    cable_m: float | None = None
    """Cable length that the driver was told, metres."""
    gids: tuple[Gid, ...] | None = None
    pci: Pci | None = None
    link: Link | None = None
    sysctls: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """net.ipv4.conf.<netdev>.*: ``arp_ignore``, ``arp_announce``, ``rp_filter``."""
    counters: Counters = field(default_factory=Counters)

    def priorities_of(self, dscp: int) -> tuple[int, ...] | None:
        """The priorities that the APP table gives a DSCP, ascending; empty where it has no entry, None for unknown."""
        if self.apps is None:
            return None
        found = {app.priority for app in self.apps if app.selector == "dscp" and app.protocol == dscp}
        return tuple(sorted(found))

    def dscp_map(self) -> Mapping[int, tuple[int, ...]] | None:
        """Every DSCP of the APP table with its priorities; None for unknown."""
        if self.apps is None:
            return None
        found: dict[int, set[int]] = {}
        for app in self.apps:
            if app.selector == "dscp":
                found.setdefault(app.protocol, set()).add(app.priority)
        return {dscp: tuple(sorted(found[dscp])) for dscp in sorted(found)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NicWanted:
    """What one NIC shall be. None (and an empty mapping): not asked, leave alone."""

    nic: str
    """As fabric.yaml names it: PCI address or netdev."""
    rail: str
    dcbx: Dcbx | None = None
    trust: Literal["dscp", "pcp"] | None = None
    dscp_prio: tuple[tuple[int, int], ...] | None = None
    """The whole DSCP map as (DSCP, priority), ascending: an entry that is not in it is removed."""
    prio_tc: tuple[int, ...] | None = None
    tsa: tuple[Tsa, ...] | None = None
    tc_bw: tuple[int, ...] | None = None
    """Percent by traffic class."""
    maxrate: tuple[int, ...] | None = None
    """kb/s by traffic class; 0 for none."""
    pfc: tuple[int, ...] | None = None
    """Priorities with PFC, ascending."""
    cable_m: float | None = None
    buffer: Buffer | None = None
    headroom: int | None = None
    """Bytes that each lossless priority's receive buffer must have at least. Without ``buffer``: to be laid out from
    what the NIC has."""
    pause: Pause | None = None
    mtu: int | None = None
    """Bytes."""
    tos: int | None = None
    """ToS byte of RoCE, DSCP << 2 | ECN: rdma_cm's default and, where the driver has it, traffic_class."""
    ecn: bool | None = None
    """ECN NP and RP on the lossless priority."""
    lossless: int | None = None
    """The lossless priority."""
    cnp_dscp: int | None = None
    cnp_prio: int | None = None
    params: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """DCQCN's parameters under the driver's names."""
    sysctls: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """net.ipv4.conf.<netdev>.*"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What ``roceway-tune apply`` last left on this host."""

    at: str
    """ISO 8601, UTC."""
    boot_id: str
    complete: bool
    """Whether every step was read back as wanted."""
    wanted: tuple[NicWanted, ...] = ()
    ifindexes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Interface index by NIC when it was applied: a reloaded driver or replugged NIC has another."""
    gids: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    """RoCE v2 GID index by NIC and address at that time: an index that moved is a flap's trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWanted:
    """What one host shall be."""

    node: str
    nics: tuple[NicWanted, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON values; :meth:`from_json` reads them."""
        values: dict[str, Any] = encode(self)
        return values

    @classmethod
    def from_json(cls, value: Any) -> HostWanted:
        """ValueError naming the field that is wrong."""
        return decode(cls, value, "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostQos:
    """A host's NICs and what is true of the whole host."""

    node: str
    nics: tuple[NicQos, ...]
    at: str | None = None
    """When it was read: ISO 8601, UTC."""
    kernel: str | None = None
    boot_id: str | None = None
    agents: tuple[str, ...] | None = None
    """Programs on this host that negotiate DCBX and are not us (``lldpad``); None: could not look."""
    sysctls: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """net.ipv4.conf.all.*: ``arp_ignore``, ``arp_announce``, ``rp_filter``."""
    nccl_ib_tc: int | None = None
    """NCCL_IB_TC of /etc/nccl.conf; None where it is not set there."""
    ucx_tc: int | None = None
    """UCX_IB_TRAFFIC_CLASS of /etc/ucx/ucx.conf; None where it is not set there."""
    applied: Applied | None = None
    """None: nothing was ever applied, or its record cannot be read."""

    def to_json(self) -> dict[str, Any]:
        """JSON values; :meth:`from_json` reads them."""
        values: dict[str, Any] = encode(self)
        return values

    @classmethod
    def from_json(cls, value: Any) -> HostQos:
        """ValueError naming the field that is wrong."""
        return decode(cls, value, "host")

    def nic(self, name: str) -> NicQos | None:
        """The NIC of this netdev name, PCI address or rail."""
        names = ((each.name, each.pci.address if each.pci else None, each.rail) for each in self.nics)
        return next((nic for nic, own in zip(self.nics, names, strict=True) if name in own), None)
