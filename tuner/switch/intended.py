"""What fabric.yaml calls for on one switch: its ports with speed, MTU and cable, and the class. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric
from conf.findings import did_you_mean
from conf.node import node
from conf.qos import Qos
from conf.switches import Switch as Described

__all__ = ["MTU", "Intended", "WantedPort", "intended"]

MTU = 9216
"""Bytes of an IP packet on every port: the most that all five platforms do, and more than any host sends."""

_FIRST_CLASS = 0  # everything that no class claims
_CNP_SHARE = 10  # percent: what keeps CNPs from waiting behind bulk traffic


@dataclass(frozen=True, slots=True)
class WantedPort:
    """One port that fabric.yaml has a cable for."""

    name: str
    facing: Literal["host", "switch"]
    other: str
    """``gpu-001/rail0``, ``spine-0:Ethernet0``."""
    speed: int | None
    """Mb/s"""
    cable: float | None
    """Metres."""


@dataclass(frozen=True, slots=True)
class Intended:
    """One switch as it should be."""

    described: Described
    qos: Qos
    ports: tuple[WantedPort, ...]

    @property
    def lossless(self) -> tuple[int, ...]:
        """Priorities with PFC; empty where RoCE is to run without."""
        return self.roce if self.qos.lossless.pfc else ()

    @property
    def roce(self) -> tuple[int, ...]:
        """Priorities of RoCE and its companions, which ECN keeps short."""
        return (self.qos.lossless.priority, *(each.priority for each in self.qos.also))

    @property
    def dscp_to_tc(self) -> dict[int, int]:
        """All 64 code points; a class has the number of its priority, the rest is class 0."""
        own = {self.qos.lossless.dscp: self.qos.lossless.priority, self.qos.cnp.dscp: self.qos.cnp.priority}
        own |= {each.dscp: each.priority for each in self.qos.also}
        return {dscp: own.get(dscp, _FIRST_CLASS) for dscp in range(64)}

    @property
    def weights(self) -> dict[int, int]:
        """Percent of each weighted class, 100 in all: RoCE's share divided among its classes, a tenth for CNPs where
        they are not strict, and the rest, 1 at least, for everything else."""
        cnp = {self.qos.cnp.priority: _CNP_SHARE} if self.qos.cnp.scheduling == "ets" else {}
        room = 99 - sum(cnp.values())
        share = max(1, min(self.qos.lossless.bandwidth, room) // len(self.roce))
        found = cnp | dict.fromkeys(self.roce, share)
        found.setdefault(_FIRST_CLASS, 100 - sum(found.values()))
        return dict(sorted(found.items()))

    @property
    def strict(self) -> tuple[int, ...]:
        """Classes that are served before all others."""
        return (self.qos.cnp.priority,) if self.qos.cnp.scheduling == "strict" else ()


def intended(fabric: Fabric, name: str) -> Intended:
    """What the fabric calls for on the switch of this name. ConfigError where there is none."""
    described = next((each for each in fabric.switches if each.name == name), None)
    if described is None:
        names = [each.name for each in fabric.switches]
        near = did_you_mean(name, names)
        known = f"; there is {', '.join(names[:10])}{' …' if len(names) > 10 else ''}" if names and not near else ""
        raise ConfigError(fabric.metadata.name, [Finding("switches", f"there is no switch {name}{near}{known}")])
    return Intended(described, fabric.qos, tuple(_ports(fabric, described)))


def _ports(fabric: Fabric, described: Described) -> Iterator[WantedPort]:
    for cable in described.attachments():
        kind = fabric.node_types[node(fabric, cable.node).type]
        yield WantedPort(cable.port, "host", f"{cable.node}/{cable.rail}", kind.speed, kind.cable)
    for link in fabric.links:
        for one, other in link.ends():
            for mine, theirs in ((one, other), (other, one)):
                if mine.switch == described.name:
                    yield WantedPort(mine.port, "switch", str(theirs), link.speed, link.cable)
