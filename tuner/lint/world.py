"""Everything that was read, joined by the cabling of fabric.yaml into the subjects that rules look at. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from conf.fabric import Attachment, Fabric, NodeType, Qos
from conf.hostlist import expand
from tuner.lint.rule import Scope
from tuner.lint.sides import sides_of
from tuner.lint.subjects import CableAt, HostAt, NicAt, PortAt, RailAt, RoleAt, Source, SwitchAt, TrunkAt
from tuner.nic import HostQos, NicQos
from tuner.switch.model import Port, Switch

__all__ = ["Given", "World"]


@dataclass(frozen=True, slots=True)
class Given:
    """Everything that was read."""

    fabric: Fabric | None = None
    qos: Qos | None = None
    """The class to judge by where there is no fabric: a shipped profile. Ports with PFC then count as facing hosts."""
    hosts: tuple[HostQos, ...] = ()
    """A host that is there twice was read twice: the later reading is judged, the earlier one is for rates."""
    switches: tuple[Switch, ...] = ()
    broken: tuple[Source, ...] = ()
    """Recorded hosts that could not be read."""


@dataclass(frozen=True)
class World:
    """The subjects of every scope, made once from what was given."""

    given: Given

    def subjects(self) -> Mapping[Scope, Sequence[object]]:
        """Everything that rules look at, by scope."""
        return {
            Scope.NIC: [nic for host in self.hosts for nic in host.nics],
            Scope.HOST: self.hosts,
            Scope.RAIL: self.rails,
            Scope.PORT: [port for switch in self.switches for port in switch.ports],
            Scope.SWITCH: self.switches,
            Scope.CABLE: self.cables,
            Scope.TRUNK: self.trunks,
            Scope.ROLE: self.roles,
            Scope.SOURCE: self.sources,
        }

    @property
    def qos(self) -> Qos | None:
        """The class that everything is judged by."""
        return self.given.fabric.qos if self.given.fabric else self.given.qos

    @property
    def sources(self) -> tuple[Source, ...]:
        """Everything that was read or should have been."""
        switches = (Source(each.name, each.findings) for each in self.given.switches)
        hosts = (Source(each.node, ()) for each in self.given.hosts)
        return (*switches, *hosts, *self.given.broken)

    @cached_property
    def hosts(self) -> tuple[HostAt, ...]:
        """Every host, in the order read."""
        readings: dict[str, list[HostQos]] = {}
        for host in self.given.hosts:
            readings.setdefault(host.node, []).append(host)
        return tuple(self._host(sorted(several, key=lambda host: host.at or "")) for several in readings.values())

    def _host(self, readings: list[HostQos]) -> HostAt:
        host = readings[-1]
        before = readings[-2] if len(readings) > 1 else None
        seconds = _seconds(before, host)
        kind = self._kinds.get(host.node)
        return HostAt(host, tuple(self._nic(host, nic, kind, before, seconds) for nic in host.nics))

    def _nic(
        self, host: HostQos, nic: NicQos, kind: NodeType | None, before: HostQos | None, seconds: float | None
    ) -> NicAt:
        return NicAt(
            host=host,
            nic=nic,
            rail=nic.rail or _rail_named(nic, kind),
            qos=self.qos,
            mtu=(kind.mtu if kind else None) or (self.qos.mtu if self.qos else None),
            cable=kind.cable if kind else None,
            speed=kind.speed if kind else None,
            before=before.nic(nic.name) if before and seconds else None,
            seconds=seconds,
        )

    @cached_property
    def _kinds(self) -> dict[str, NodeType]:
        """Node to its type."""
        fabric = self.given.fabric
        groups = fabric.nodes if fabric else ()
        return (
            {name: fabric.node_types[group.type] for group in groups for name in expand(group.match)} if fabric else {}
        )

    @cached_property
    def rails(self) -> tuple[RailAt, ...]:
        """Every rail that a NIC was read of; NICs of no known rail are compared under their own name."""
        found: dict[str, list[NicAt]] = {}
        for host in self.hosts:
            for nic in host.nics:
                found.setdefault(nic.rail or nic.nic.name, []).append(nic)
        return tuple(RailAt(rail, tuple(nics)) for rail, nics in found.items())

    @cached_property
    def switches(self) -> tuple[SwitchAt, ...]:
        """Every switch that could be read."""
        incast = self.given.fabric.lint.incast if self.given.fabric else 1
        return tuple(
            SwitchAt(each, tuple(self._port(each, port, incast) for port in each.ports.values()), incast, self.qos)
            for each in self.given.switches
            if each.readable
        )

    def _port(self, switch: Switch, port: Port, incast: int) -> PortAt:
        attached = self._attached.get((switch.name, port.name))
        linked = self._linked.get((switch.name, port.name))
        if attached:
            kind = self._kinds.get(attached.node)
            facing, cable, speed = "host", kind.cable if kind else None, kind.speed if kind else None
        elif linked:
            facing, cable, speed = "switch", linked[0], linked[1]
        else:
            facing, cable, speed = "" if self.given.fabric or not (self.qos and port.pfc) else "host", None, None
        marking = self.given.fabric.qos.ecn if self.given.fabric else None
        return PortAt(switch, port, incast, self.qos, facing, cable, port.speed or speed, marking)

    @cached_property
    def _attached(self) -> dict[tuple[str, str], Attachment]:
        fabric = self.given.fabric
        switches = fabric.switches if fabric else ()
        return {(switch.name, each.port): each for switch in switches for each in switch.attachments()}

    @cached_property
    def _linked(self) -> dict[tuple[str, str], tuple[float | None, int | None]]:
        """Port to length and speed of its cable to another switch."""
        fabric = self.given.fabric
        links = fabric.links if fabric else ()
        return {end: (link.cable, link.speed) for link in links for ends in link.ends() for end in ends}

    @cached_property
    def _ports(self) -> dict[tuple[str, str], PortAt]:
        return {(each.switch.name, port.port.name): port for each in self.switches for port in each.ports}

    @cached_property
    def _hear(self) -> frozenset[str]:
        """Switches whose source has LLDP neighbours."""
        heard = (each.switch for each in self.switches if any(port.port.neighbour for port in each.ports))
        return frozenset(switch.name for switch in heard)

    @cached_property
    def cables(self) -> tuple[CableAt, ...]:
        """Every cable to a host: those of fabric.yaml, or, under a bare profile, every port with PFC."""
        if self.given.fabric is None:
            alike = sides_of(None, self.qos, None, "the profile")
            facing = (port for port in self._ports.values() if port.facing == "host")
            return tuple(CableAt("", "", port, None, port.place, self.qos, sides=alike) for port in facing)
        nics = {(host.host.node, nic.rail): nic for host in self.hosts for nic in host.nics}
        return tuple(self._cable(*key, each, nics.get((each.node, each.rail))) for key, each in self._attached.items())

    def _cable(self, switch: str, port: str, attached: Attachment, nic: NicAt | None) -> CableAt:
        return CableAt(
            node=attached.node,
            rail=attached.rail,
            port=self._ports.get((switch, port)),
            nic=nic,
            where=f"{switch} {port} ({attached.node}/{attached.rail})",
            qos=self.qos,
            kind=(kind := self._kinds.get(attached.node)),
            sides=sides_of(nic, self.qos, kind),
            lldp_heard=switch in self._hear,
            rail_of=self._rail_of,
        )

    @cached_property
    def _rail_of(self) -> dict[tuple[str, str], str]:
        names: dict[tuple[str, str], str] = {}
        for node, kind in self._kinds.items():
            if kind.rails != "auto":
                names.update({(node, nic.nic): rail for rail, nic in kind.rails.items()})
        for host in self.hosts:
            for nic in host.nics:
                names[host.host.node, nic.nic.name] = nic.rail
                if nic.nic.mac:
                    names[host.host.node, nic.nic.mac.lower()] = nic.rail
        return names

    @cached_property
    def trunks(self) -> tuple[TrunkAt, ...]:
        """Every cable between switches."""
        fabric = self.given.fabric
        wanted = sides_of(None, self.qos, None)
        ends = (ends for link in (fabric.links if fabric else ()) for ends in link.ends())
        return tuple(
            TrunkAt(
                self._ports.get(one),
                self._ports.get(other),
                (str(one), str(other)),
                f"{one.switch} {one.port} ({other})",
                one.switch in self._hear,
                wanted,
            )
            for one, other in ends
        )

    @cached_property
    def roles(self) -> tuple[RoleAt, ...]:
        """The switches that were read, by role; those without one are left out."""
        found: dict[str, list[SwitchAt]] = {}
        for each in self.switches:
            if each.switch.role:
                found.setdefault(each.switch.role, []).append(each)
        fabric = self.given.fabric
        described: Counter[str] = Counter(each.role for each in (fabric.switches if fabric else ()))
        return tuple(RoleAt(role, tuple(several), described[role] == 1) for role, several in found.items())


def _seconds(before: HostQos | None, after: HostQos) -> float | None:
    """Time between two readings of one boot; None where that cannot be told."""
    if before is None or before.at is None or after.at is None or before.boot_id != after.boot_id:
        return None
    try:
        seconds = (datetime.fromisoformat(after.at) - datetime.fromisoformat(before.at)).total_seconds()
    except (ValueError, TypeError):
        return None
    return seconds if seconds > 0 else None


def _rail_named(nic: NicQos, kind: NodeType | None) -> str:
    """The rail whose NIC the node type names so; empty for none."""
    if kind is None or kind.rails == "auto":
        return ""
    own = {nic.name, nic.pci.address if nic.pci else None}
    return next((rail for rail, wanted in kind.rails.items() if wanted.nic in own), "")
