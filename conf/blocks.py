"""Cutting a rail's network into node blocks: the nth node gets the nth block. Integer arithmetic, no state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from conf.names import IPAddress, IPNetwork
from conf.rails import Rail

__all__ = ["AddressRange", "address_range", "block", "blocks_in", "gateway_in"]


class AddressRange(NamedTuple):
    """The addresses of one family that a node may give to pods on one rail."""

    subnet: IPNetwork
    """The network whose prefix a pod's address carries: the rail's (flat) or the node's block (routed)."""
    range_start: IPAddress
    """First address to give out."""
    range_end: IPAddress
    """Last address to give out, inclusive."""
    gateway: IPAddress | None
    """Never given out, wherever it lies."""
    exclude: tuple[IPNetwork, ...]
    """Holes between range_start and range_end that are never given out."""


def blocks_in(network: IPNetwork, prefix: int) -> int:
    """How many blocks of that prefix length the network holds; 0 if the block is the larger one."""
    return 1 << (prefix - network.prefixlen) if prefix >= network.prefixlen else 0


def block(network: IPNetwork, prefix: int, index: int) -> IPNetwork:
    """Block ``index`` (from 0) of the network. ValueError where the network holds no such block."""
    if not 0 <= index < blocks_in(network, prefix):
        raise ValueError(f"{network} holds {blocks_in(network, prefix)} blocks of /{prefix}, none with index {index}")
    start = int(network.network_address) + (index << (network.max_prefixlen - prefix))
    return type(network)((start, prefix))


def address_range(rail: Rail, network: IPNetwork, index: int) -> AddressRange:
    """What node ``index`` may give out from one of the rail's networks.

    Skipped: the network and broadcast address of the subnet and the gateway, where they fall inside the block, and
    ``exclude``. ValueError where the network holds no such block, or the block no address to give out.
    """
    prefix = rail.block_prefix(network.version)
    if prefix is None:
        raise ValueError(f"nodeBlock gives no prefix length for {network}")
    own = block(network, prefix, index)
    subnet = own if rail.addressing == "routed" else network
    gateway = gateway_in(rail, subnet)
    holes = _holes_in(own, rail.exclude, gateway)
    first, last = _usable(subnet)
    start, end = _trim(max(first, int(own.network_address)), min(last, int(own.broadcast_address)), holes)
    if start > end:
        raise ValueError(f"{own} holds no address that can be given to a pod")
    address = type(own.network_address)
    inside = tuple(hole for hole in holes if start <= int(hole.network_address) <= end)
    return AddressRange(subnet, address(start), address(end), gateway, inside)


def gateway_in(rail: Rail, subnet: IPNetwork) -> IPAddress | None:
    """The rail's gateway in a subnet: the rail's own network, or a node's block of a routed rail."""
    if rail.gateway == "none":
        return None
    if rail.gateway == "first":
        return type(subnet.network_address)(_usable(subnet)[0])
    return rail.gateway if rail.gateway.version == subnet.version else None


def _usable(network: IPNetwork) -> tuple[int, int]:
    """First and last address that a host may have: all of a /31, /127 (RFC 3021, RFC 6164) or a single address; else
    not the network's own (IPv6: the routers' anycast), nor, in IPv4, the broadcast address."""
    first, last = int(network.network_address), int(network.broadcast_address)
    if network.prefixlen >= network.max_prefixlen - 1:
        return first, last
    return first + 1, last - (network.version == 4)


def _holes_in(own: IPNetwork, excluded: Iterable[IPNetwork], gateway: IPAddress | None) -> tuple[IPNetwork, ...]:
    """What is never given out inside a block, lowest first."""
    holes = {hole for hole in excluded if hole.version == own.version and _overlap(hole, own)}
    if gateway is not None and gateway in own and not any(gateway in hole for hole in holes):
        holes.add(type(own)(gateway))
    return tuple(sorted(holes, key=lambda hole: (int(hole.network_address), hole.prefixlen)))


def _overlap(one: IPNetwork, other: IPNetwork) -> bool:
    return int(one.network_address) <= int(other.broadcast_address) and int(other.network_address) <= int(
        one.broadcast_address
    )


def _trim(start: int, end: int, holes: tuple[IPNetwork, ...]) -> tuple[int, int]:
    """The range without the holes at its ends; start > end where nothing is left."""
    for hole in holes:
        if int(hole.network_address) <= start <= int(hole.broadcast_address):
            start = int(hole.broadcast_address) + 1
    for hole in reversed(holes):
        if int(hole.network_address) <= end <= int(hole.broadcast_address):
            end = int(hole.network_address) - 1
    return start, end
