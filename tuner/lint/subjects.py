"""What rules look at, one at a time. Values only.

Every subject carries what the fabric wants of it; ``None`` where there is no fabric file or it does not say. One place
is written as the device's name, a space, and where on the device: ``leaf-r0 PORT_QOS_MAP|Ethernet0.pfc_enable``,
``gpu-001 rail0 (eth2)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from conf.nodes import NodeType
from conf.qos import Ecn, Qos
from tuner.nic import HostQos, NicQos
from tuner.switch.model import Finding, Port, Switch

__all__ = ["CableAt", "HostAt", "NicAt", "PortAt", "RailAt", "RoleAt", "Side", "Source", "SwitchAt", "TrunkAt"]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What reading one source brought up."""

    name: str
    """The switch's name; a recorded host's file."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NicAt:
    """One NIC of a rail."""

    host: HostQos
    nic: NicQos
    rail: str
    """Empty where neither the host's record nor fabric.yaml tells."""
    qos: Qos | None = None
    mtu: int | None = None
    """Wanted, bytes."""
    cable: float | None = None
    """As fabric.yaml has it, metres."""
    speed: int | None = None
    """As fabric.yaml has it, Mb/s."""
    before: NicQos | None = None
    """An earlier reading."""
    seconds: float | None = None
    """Time since that."""

    @property
    def place(self) -> str:
        """``gpu-001 rail0 (eth2)``."""
        return f"{self.host.node} {self.rail} ({self.nic.name})" if self.rail else f"{self.host.node} {self.nic.name}"


@dataclass(frozen=True, slots=True, eq=False)
class HostAt:
    """One host."""

    host: HostQos
    nics: tuple[NicAt, ...]

    @property
    def place(self) -> str:
        """Its name."""
        return self.host.node


@dataclass(frozen=True, slots=True, eq=False)
class RailAt:
    """One rail's NICs over all hosts that were read."""

    rail: str
    nics: tuple[NicAt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PortAt:
    """One port of a switch that was read."""

    switch: Switch
    port: Port
    incast: int = 1
    qos: Qos | None = None
    facing: str = ""
    """``host``, ``switch``, or empty: not in fabric.yaml's cabling."""
    cable: float | None = None
    """As fabric.yaml has it, metres."""
    speed: int | None = None
    """As the switch says, else as fabric.yaml has it, Mb/s."""
    marking: Ecn | None = None
    """fabric.yaml's ``qos.ecn``; None under a bare profile, whose thresholds nobody has chosen for this switch."""

    @property
    def place(self) -> str:
        """``leaf-r0 Ethernet0``."""
        return f"{self.switch.name} {self.port.name}"

    def at(self, attribute: str) -> str:
        """Where the source has a field: ``leaf-r0 PORT_QOS_MAP|Ethernet0.pfc_enable``; always with the port's name."""
        place = self.port.place(attribute)
        return f"{self.switch.name} {place}" if self.port.name in place else f"{self.place} {place}"


class Side(NamedTuple):
    """What one side expects of the switch port: the host as it is, or as the fabric wants it."""

    who: str
    pfc: frozenset[int] | None
    classes: tuple[tuple[int, int], ...] | None
    """(DSCP, priority) of what PFC is to protect."""
    cnp_dscp: int | None
    mtu: int | None
    """Bytes, of the IP packet."""


@dataclass(frozen=True, slots=True, eq=False)
class CableAt:
    """A cable from a NIC to a switch port, as fabric.yaml has it. Either end may not have been read."""

    node: str
    rail: str
    port: PortAt | None
    nic: NicAt | None
    where: str
    """``leaf-r0 Ethernet0 (gpu-001/rail0)``."""
    qos: Qos | None = None
    kind: NodeType | None = None
    sides: tuple[Side, ...] = ()
    """What host and fabric expect of the port; one where they expect the same."""
    lldp_heard: bool = False
    """The switch's source has LLDP neighbours, if not on this port."""
    rail_of: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(node, netdev or MAC) to rail, for every NIC of the fabric whose name is known."""


@dataclass(frozen=True, slots=True, eq=False)
class SwitchAt:
    """One switch that was read."""

    switch: Switch
    ports: tuple[PortAt, ...]
    incast: int = 1
    qos: Qos | None = None

    @property
    def place(self) -> str:
        """Its name."""
        return self.switch.name

    def at(self, place: str) -> str:
        """``leaf-r0 WRED_PROFILE|AZURE_LOSSLESS``."""
        return f"{self.switch.name} {place}" if place else self.switch.name


@dataclass(frozen=True, slots=True, eq=False)
class TrunkAt:
    """A cable between two switches; an end whose switch was not read is None."""

    one: PortAt | None
    other: PortAt | None
    names: tuple[str, str]
    """``leaf-r0:Ethernet256``, ``spine-0:Ethernet0``."""
    where: str
    lldp_heard: bool = False
    sides: tuple[Side, ...] = ()
    """What the fabric expects of both ends."""


@dataclass(frozen=True, slots=True, eq=False)
class RoleAt:
    """The switches of one role that were read."""

    role: str
    switches: tuple[SwitchAt, ...]
    alone: bool = False
    """fabric.yaml has no other switch of the role."""
