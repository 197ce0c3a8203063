"""Which NIC is plugged into which leaf, and what joins the leaves. Pure; from fabric.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from conf.fabric import Fabric
from conf.hostlist import expand
from nccltest.locate.names import fold

__all__ = ["Cabling", "from_fabric"]


@dataclass(frozen=True)
class Cabling:
    """The topology as far as localising needs it."""

    leaf: Mapping[tuple[str, str], str]
    """(node, rail) -> the leaf switch its NIC is plugged into."""
    plane: Mapping[str, str] = field(default_factory=dict)
    """Leaf -> the switches that join it to other leaves, folded: ``spine-[0-3]``. Leaves of one plane reach each
    other. A leaf that is joined to others by a cable alone has the plane ````."""
    pod: Mapping[str, str] = field(default_factory=dict)
    """Leaf -> its pod: leaves that one switch joins are of one pod. Leaves of one plane and two pods reach each other
    by a further tier."""
    node_type: Mapping[str, str] = field(default_factory=dict)
    """Node -> the name of its type: another type may be another generation, slower in health."""
    line_rate: Mapping[str, float] = field(default_factory=dict)
    """Node -> bandwidth of one of its NICs, GB/s."""
    uplinks: Mapping[str, int] = field(default_factory=dict)
    """Leaf -> its cables to other switches."""
    rails: tuple[str, ...] = ()

    def rails_of(self, node: str) -> tuple[str, ...]:
        """The rails on which the node has a cabled NIC."""
        return tuple(rail for rail in self.rails if (node, rail) in self.leaf)


def from_fabric(fabric: Fabric) -> Cabling:
    """The cabling of ``switches`` and ``links``; empty maps where fabric.yaml describes none."""
    leaf = {(each.node, each.rail): switch.name for switch in fabric.switches for each in switch.attachments()}
    joined = [(one.switch, other.switch) for link in fabric.links for one, other in link.ends()]
    leaves = set(leaf.values())
    uplinks = {name: sum(name in pair for pair in joined) for name in leaves}
    rate = {node: fabric.node_types[group.type].speed / 8000 for group in fabric.nodes for node in expand(group.match)}
    types = {node: group.type for group in fabric.nodes for node in expand(group.match)}
    return Cabling(
        leaf,
        plane=_planes(leaves, joined),
        pod=_planes(leaves, [pair for pair in joined if leaves & set(pair)]),
        node_type=types,
        line_rate=rate,
        uplinks=uplinks,
        rails=tuple(rail.name for rail in fabric.rails),
    )


def _planes(leaves: set[str], joined: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Leaf -> folded names of the switches above it that are joined to it, however far."""
    part: dict[str, str] = {}

    def root(name: str) -> str:
        while part.setdefault(name, name) != name:
            part[name] = name = part[part[name]]
        return name

    for one, other in joined:
        part[root(one)] = root(other)
    above: dict[str, list[str]] = {}
    for name in list(part):
        if name not in leaves:
            above.setdefault(root(name), []).append(name)
    return {leaf: fold(above.get(root(leaf), [])) for leaf in leaves}
