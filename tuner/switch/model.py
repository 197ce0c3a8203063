"""A switch as its configuration describes it: values only, the same for every operating system. Pure.

Three-valued throughout. ``None`` is *unknown*: the source does not say. "The source says that there is none" is a value
of its own: an empty set or mapping, :data:`UNBOUND`, :data:`NO_ECN`. So a rule asks ``is None`` first and is then *not
evaluated*; it never takes silence for "off".

Every object tells where in its source it was written: ``place`` (``WRED_PROFILE|AZURE_LOSSLESS``), and for the fields
of a port :meth:`Port.place` (``PORT_QOS_MAP|Ethernet0.pfc_enable``). Objects that many ports use (maps, profiles,
schedulers) are one object, so a fabric of 32,768 ports costs little. Compare with ``==``: a switch may have come out of
another process (everything here can be pickled).

Units: Mb/s, bytes, metres, milliseconds, percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

__all__ = [
    "NO_ECN",
    "UNBOUND",
    "BufferPool",
    "BufferProfile",
    "Counters",
    "Ecn",
    "Finding",
    "FindingKind",
    "LookupRow",
    "Neighbour",
    "Platform",
    "Port",
    "PriorityGroup",
    "QosMap",
    "Queue",
    "QueueCounters",
    "Scheduler",
    "Switch",
    "TrafficPattern",
    "Watchdog",
]

Platform = Literal["sonic", "cumulus", "eos", "nxos", "dell-sonic"]

FindingKind = Literal[
    "unreadable",  # nothing of the source could be read; the switch has no ports and every rule is "not evaluated"
    "partial",  # the source lacks most of what a switch's QoS consists of; one of these, not one per missing table
    "duplicate-key",  # a JSON object names a key twice (S14)
    "dangling",  # a reference to something that the source does not define (S14)
    "old-form",  # SONiC's "[TABLE|name]" reference (S14)
    "bad-value",  # a value of the wrong type or out of range; the field is unknown
    "ignored",  # a table or key that no rule needs, or that is not known; `place` names it
]

_EMPTY: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that reading the source brought up; the linter turns it into a finding of a rule."""

    kind: FindingKind
    place: str
    """``TABLE|key.field``, or empty for the source as a whole."""
    message: str
    """What is wrong, one sentence without a full stop."""
    rule: str = ""
    """The rule of the linter that it belongs to (``S14``), where there is one."""


@dataclass(frozen=True, slots=True)
class QosMap:
    """A named map from one small number to another (DSCP → TC, TC → queue, …)."""

    name: str
    entries: Mapping[int, int] | None
    """None: the map is named but not defined in the source (a dangling reference)."""
    place: str = ""
    """Where it is defined: ``DSCP_TO_TC_MAP|AZURE``; empty where it is not, or is the platform's built-in one."""

    def get(self, key: int) -> int | None:
        """What ``key`` maps to; None for unknown, also for a key that the map leaves out."""
        return None if self.entries is None else self.entries.get(key)


UNBOUND = QosMap("", {})
"""The source says that the port uses no such map."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """How a queue gets its turn."""

    name: str
    kind: Literal["strict", "dwrr", "wrr"] | None
    weight: int | None = None
    """Relative to the other weighted queues of the port; in percent where the platform counts so. None for strict."""
    min_rate: int | None = None
    """Guaranteed rate, Mb/s (SONiC ``cir``)."""
    max_rate: int | None = None
    """Ceiling, Mb/s (SONiC ``pir``)."""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Ecn:
    """Marking on a queue: WRED with ECN, for packets of the colour that RoCE has (green)."""

    name: str
    enabled: bool | None
    """False also where WRED only drops."""
    kmin: int | None = None
    """Bytes at which marking starts."""
    kmax: int | None = None
    """Bytes from which every packet is marked."""
    pmax: float | None = None
    """Percent marked just below kmax."""
    place: str = ""


NO_ECN = Ecn("", False)
"""The source says that the queue has no WRED profile."""


@dataclass(frozen=True, slots=True)
class BufferPool:
    """A shared part of the packet buffer."""

    name: str
    type: Literal["ingress", "egress", "both"] | None
    mode: Literal["static", "dynamic"] | None
    size: int | None = None
    """Bytes; None also where the buffer manager works it out."""
    xoff: int | None = None
    """Shared headroom pool, bytes; None where there is none or the buffer manager works it out."""
    place: str = ""


@dataclass(frozen=True, slots=True)
class BufferProfile:
    """What one priority group or queue takes from a pool."""

    name: str
    pool: BufferPool | None
    """None where the source does not name it, or names one that it does not define."""
    size: int | None = None
    xon: int | None = None
    xon_offset: int | None = None
    xoff: int | None = None
    """Headroom *after* the trigger, bytes (not the trigger). A profile with it is a lossless one."""
    dynamic_th: int | None = None
    """α = 2^dynamic_th of the pool's free part, -8 to 7."""
    static_th: int | None = None
    """Bytes of the pool."""
    headroom_dynamic: bool = False
    """SONiC ``headroom_type: dynamic``: the buffer manager works out size, xon and xoff from speed and cable."""
    place: str = ""

    @property
    def lossless(self) -> bool:
        """It has headroom, or the buffer manager will give it some."""
        return self.headroom_dynamic or self.xoff is not None


@dataclass(frozen=True, slots=True)
class PriorityGroup:
    """An ingress priority group of a port."""

    profile: BufferProfile | None
    """None where `automatic`, or where the source names a profile that it does not define."""
    automatic: bool = False
    """SONiC ``profile: NULL``: lossless, the buffer manager makes the profile from speed and cable."""
    place: str = ""

    @property
    def lossless(self) -> bool | None:
        """None for unknown."""
        if self.automatic:
            return True
        return None if self.profile is None else self.profile.lossless


@dataclass(frozen=True, slots=True)
class Queue:
    """An egress queue of a port."""

    scheduler: Scheduler | None = None
    ecn: Ecn | None = None
    """:data:`NO_ECN` where the source says that there is none."""
    profile: BufferProfile | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class Watchdog:
    """PFC watchdog of a port."""

    enabled: bool | None
    priorities: frozenset[int] | None = None
    """Queues that it watches; None where the source does not tell (then all with PFC)."""
    action: str | None = None
    """``drop``, ``forward``, ``alert``, …"""
    detection: float | None = None
    """ms"""
    restoration: float | None = None
    """ms"""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What is at the other end of a cable, as LLDP (or the switch's own records) says."""

    system: str | None
    """The other end's system name."""
    port: str | None
    """Its port: a name (``Ethernet0``, ``eth2``), or a MAC address in lower case with colons."""
    chassis: str | None = None
    """Its chassis ID: mostly a MAC address, and on a host that of *one* of its NICs, so it tells no port."""
    place: str = ""
    description: str | None = None
    """Of its port. lldpd, whose port ID is a MAC address, puts the interface's name here."""


@dataclass(frozen=True, slots=True)
class QueueCounters:
    """Of one queue since the counters were cleared; None: not told."""

    packets: int | None = None
    bytes: int | None = None
    dropped: int | None = None
    """Packets."""
    ecn_marked: int | None = None
    """Packets."""
    watermark: int | None = None
    """Bytes."""
    deadlocks: int | None = None
    """Storms that the watchdog detected."""
    restored: int | None = None
    """Storms that ended."""
    status: str | None = None
    """Of the watchdog: ``operational``, ``stormed``."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Of one port. Mappings are by priority, queue or priority group; None: the source has no such counter."""

    pfc_rx: Mapping[int, int] | None = None
    """Pause frames received."""
    pfc_tx: Mapping[int, int] | None = None
    pfc_rx_total: int | None = None
    """Where a platform counts all priorities together."""
    pfc_tx_total: int | None = None
    rx_pause_us: Mapping[int, int] | None = None
    """Time paused by the neighbour, µs."""
    queues: Mapping[int, QueueCounters] | None = None
    pg_watermark: Mapping[int, int] | None = None
    """Bytes of shared buffer at the worst moment."""
    pg_headroom_watermark: Mapping[int, int] | None = None
    pg_dropped: Mapping[int, int] | None = None
    """Packets dropped at ingress for want of headroom."""
    rx_discards: int | None = None
    tx_discards: int | None = None

    def merged(self, other: Counters) -> Counters:
        """Two sources about one port: what the other says, and this one where that is silent."""
        told = {name: value for name in _COUNTERS if (value := getattr(other, name)) is not None}
        if self.queues and other.queues:
            told["queues"] = {**self.queues, **other.queues}
        return replace(self, **told)


_COUNTERS = tuple(each.name for each in fields(Counters))


@dataclass(frozen=True, slots=True)
class Port:
    """One front-panel port. Every field is None until a source says something."""

    name: str
    alias: str | None = None
    speed: int | None = None
    """Mb/s"""
    mtu: int | None = None
    """Bytes, as the platform counts it: see :attr:`Switch.mtu_is_frame`."""
    cable: float | None = None
    """Metres, as the switch was told; 0.0 makes no lossless priority group on SONiC."""
    admin_up: bool | None = None
    oper_up: bool | None = None
    neighbour: Neighbour | None = None
    """What LLDP hears."""
    expected_neighbour: Neighbour | None = None
    """What the switch's configuration says should be there (SONiC DEVICE_NEIGHBOR)."""
    trust: frozenset[Literal["dscp", "pcp"]] | None = None
    """What the port classifies by; empty: nothing, everything is in the default class. With both, IP goes by DSCP."""
    dscp_to_tc: QosMap | None = None
    dot1p_to_tc: QosMap | None = None
    tc_to_queue: QosMap | None = None
    tc_to_pg: QosMap | None = None
    pfc_to_queue: QosMap | None = None
    pfc_to_pg: QosMap | None = None
    tc_to_dscp: QosMap | None = None
    """What the port rewrites DSCP to at egress; UNBOUND or None on a port that leaves it alone."""
    pfc: frozenset[int] | None = None
    """Priorities with PFC as configured; empty: PFC is off."""
    pfc_mode: Literal["on", "off", "auto"] | None = None
    """``auto`` (NX-OS): PFC is what DCBX agrees on, and off without a DCBX peer."""
    pfc_oper: frozenset[int] | None = None
    """Priorities with PFC as running, where the platform tells; empty: off."""
    pfc_asymmetric: bool | None = None
    global_pause: bool | None = None
    """802.3x pause in either direction."""
    watchdog: Watchdog | None = None
    """None: not told. A source with a watchdog table that has no row for this port: ``Watchdog(enabled=False)``."""
    queues: Mapping[int, Queue] | None = None
    """By number. None: the source has no such table."""
    queue_default: Queue | None = None
    """What holds for a queue that `queues` leaves out; None for unknown."""
    groups: Mapping[int, PriorityGroup] | None = None
    """Priority groups by number; None: the source has no such table."""
    dcbx: Literal["ieee", "cee", "off"] | None = None
    dcbx_peer: bool | None = None
    """A DCBX peer is heard."""
    vlans: frozenset[str] | None = None
    """VLANs in which it bridges, by itself or in a bundle; empty: a routed port."""
    counters: Counters | None = None
    places: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False, compare=False)
    """Field → where the source has it, ``{port}`` standing for the port's name; shared by all ports of a switch."""

    def place(self, attribute: str) -> str:
        """Where the source has a field of this port: ``place("pfc")`` → ``PORT_QOS_MAP|Ethernet0.pfc_enable``."""
        return self.places.get(attribute, "{port}").replace("{port}", self.name)

    def queue(self, number: int) -> Queue | None:
        """An egress queue, be it the platform's default; None for unknown."""
        return self.queue_default if self.queues is None else self.queues.get(number, self.queue_default)

    def tc_of(self, dscp: int) -> int | None:
        """The traffic class of an IP packet with this DSCP; None for unknown."""
        return None if self.dscp_to_tc is None else self.dscp_to_tc.get(dscp)

    def queue_of(self, tc: int) -> int | None:
        """The egress queue of a traffic class; None for unknown."""
        return None if self.tc_to_queue is None else self.tc_to_queue.get(tc)

    def pg_of(self, tc: int) -> int | None:
        """The priority group of a traffic class; None for unknown."""
        return None if self.tc_to_pg is None else self.tc_to_pg.get(tc)


@dataclass(frozen=True, slots=True)
class LookupRow:
    """One row of SONiC's pg_profile_lookup.ini: the lossless profile for a speed and a cable length."""

    speed: int
    cable: float
    size: int
    xon: int
    xoff: int
    threshold: int
    xon_offset: int | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class TrafficPattern:
    """What SONiC's dynamic buffer model reckons with (LOSSLESS_TRAFFIC_PATTERN)."""

    mtu: int | None
    small_packet_percentage: float | None
    place: str = ""


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch."""

    name: str
    platform: Platform
    source: str
    """Where it was read from: a file's name, an address. Never a credential."""
    role: Literal["leaf", "spine", "superspine"] | None = None
    """From fabric.yaml."""
    asic: str | None = None
    """``spectrum-4`` and the like: fabric.yaml's, or what the source says."""
    model: str | None = None
    """Hardware SKU or platform string, where the source says."""
    hostname: str | None = None
    """What the switch calls itself."""
    ports: Mapping[str, Port] = field(default_factory=dict)
    maps: Mapping[str, Mapping[str, QosMap]] | None = None
    """Every map that is defined: field of :class:`Port` (``dscp_to_tc``, …) → name → map. None: no such tables."""
    bindings_known: bool = False
    """The source tells which port uses which map (SONiC: it has PORT_QOS_MAP, be it empty)."""
    default_dscp_to_tc: QosMap | None = None
    """The switch-wide map (SONiC ``PORT_QOS_MAP|global``), for ports that bind none themselves."""
    maps_elsewhere: frozenset[str] = frozenset()
    """Maps bound by something other than a port (``DSCP_TO_TC_MAP|AZURE_TUNNEL``, by a TUNNEL)."""
    schedulers: Mapping[str, Scheduler] | None = None
    ecn_profiles: Mapping[str, Ecn] | None = None
    pools: Mapping[str, BufferPool] | None = None
    profiles: Mapping[str, BufferProfile] | None = None
    lookup: tuple[LookupRow, ...] | None = None
    """Lossless profiles by speed and cable; None: the source does not have the table."""
    buffer_model: Literal["dynamic", "traditional"] | None = None
    """SONiC: who makes lossless profiles (the buffer manager in both; ``dynamic`` also reckons their sizes)."""
    default_dynamic_th: int | None = None
    """dynamic_th of the profiles that the buffer manager makes."""
    over_subscribe_ratio: int | None = None
    """Of the shared headroom pool; 0 is off."""
    traffic_pattern: TrafficPattern | None = None
    watchdog_poll: int | None = None
    """ms"""
    watchdog_poll_place: str = ""
    mtu_is_frame: bool | None = None
    """Whether ``Port.mtu`` counts the Ethernet header too. SONiC, Cumulus, EOS and NX-OS count the IP packet alone."""
    operational: Switch | None = None
    """What runs, where the source tells it apart from what is configured (NVUE ``operational``, SONiC APPL_DB)."""
    findings: tuple[Finding, ...] = ()
    """What reading brought up, in the order of the source; kinds ``ignored`` included."""

    @property
    def readable(self) -> bool:
        """Something could be read."""
        return not any(finding.kind == "unreadable" for finding in self.findings)

    @property
    def partial(self) -> bool:
        """The source lacks most of what a switch's QoS consists of."""
        return any(finding.kind == "partial" for finding in self.findings)
