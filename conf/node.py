"""One host's share of the fabric: its NICs, and the addresses it may give to pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from conf.blocks import AddressRange, address_range
from conf.errors import ConfigError, Finding
from conf.fabric import Fabric, NodeGroup, NodeType, Rail
from conf.findings import did_you_mean
from conf.hostlist import expand, index_of
from conf.names import IPNetwork
from conf.nodes import Mode

__all__ = ["AddressRange", "Node", "NodeRail", "node", "node_names"]


class NodeRail(NamedTuple):
    """One rail, as one host has it."""

    name: str
    """The rail's name, and its interface's in the pod."""
    nic: str
    """PCI address or netdev name; ``"auto"``: paired on the host by PCI topology."""
    mode: Mode
    mtu: int
    """Bytes."""
    ranges: tuple[AddressRange, ...]
    """One for each of the rail's networks."""
    routes: tuple[IPNetwork, ...]
    """What is reached through the gateway: the rail's networks where it is routed, else nothing."""
    vf: dict[str, str | int]
    """Settings of the virtual function under sriov-cni's names; only those that are given."""


@dataclass(frozen=True, slots=True)
class Node:
    """One host."""

    name: str
    index: int
    """It gets the block with this number, from 0, of every rail."""
    type: str
    """Its key in nodeTypes."""
    driver: str | None
    rails: tuple[NodeRail, ...]
    """In the order of the fabric's rails."""


def node(fabric: Fabric, hostname: str) -> Node:
    """The host's share. ConfigError, naming what is near, for a host that no entry of ``nodes`` matches."""
    for group in fabric.nodes:
        position = index_of(group.match, hostname)
        if position is not None:
            return _node(fabric, group, hostname, group.first_index + position)
    near = did_you_mean(hostname, node_names(fabric), most=20_000)
    raise ConfigError(fabric.metadata.name, [Finding("nodes", f"no entry matches the host {hostname}{near}")])


def node_names(fabric: Fabric) -> tuple[str, ...]:
    """Every host of the fabric, in the order of ``nodes``."""
    return tuple(name for group in fabric.nodes for name in expand(group.match))


def _node(fabric: Fabric, group: NodeGroup, hostname: str, index: int) -> Node:
    kind = fabric.node_types[group.type]
    rails = tuple(_rail(rail, kind, kind.mtu or fabric.qos.mtu, index) for rail in fabric.rails)
    return Node(hostname, index, group.type, kind.driver, rails)


def _rail(rail: Rail, kind: NodeType, mtu: int, index: int) -> NodeRail:
    chosen = None if kind.rails == "auto" else kind.rails[rail.name]
    return NodeRail(
        name=rail.name,
        nic=chosen.nic if chosen else "auto",
        mode=kind.mode,
        mtu=mtu,
        ranges=tuple(address_range(rail, network, index) for network in rail.networks),
        routes=rail.networks if rail.addressing == "routed" else (),
        vf=chosen.vf if chosen else {},
    )
