"""``rails``: networks that do not overlap, and blocks that fit and suffice."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import combinations

from conf.blocks import address_range, blocks_in, gateway_in
from conf.checks.names import NamedNodes
from conf.draft import Draft
from conf.errors import Finding
from conf.names import IPNetwork
from conf.rails import NodeBlock, Rail

__all__ = ["check_blocks", "check_rails"]


def check_rails(draft: Draft) -> Iterator[Finding]:
    """Duplicated names, overlaps, and each rail by itself."""
    first: dict[str, int] = {}
    for position, rail in enumerate(draft.rails):
        if rail.name and first.setdefault(rail.name, position) != position:
            yield Finding(f"rails[{position}].name", f"{rail.name} is also the name of rails[{first[rail.name]}]")
    yield from _overlaps(draft)
    for position, (_, model, bad) in enumerate(draft.rails):
        if model is None:
            continue
        yield from _families(position, model)
        if "nodeBlock" not in bad:
            yield from _node_block(position, model)
        if not bad & {"gateway", "addressing"}:
            yield from _gateway(position, model)
        yield from _excluded(position, model)


def check_blocks(draft: Draft, nodes: NamedNodes) -> Iterator[Finding]:
    """Hosts for whom a rail has no block, or whose block has no address to give out."""
    indices = nodes.indices()
    for position, (_, rail, bad) in enumerate(draft.rails):
        if rail is None or bad & {"nodeBlock", "gateway", "addressing", "exclude"} or not indices:
            continue
        for network in rail.networks:
            prefix = rail.block_prefix(network.version)
            if prefix is not None and network.prefixlen <= prefix <= network.max_prefixlen:
                yield from _room(f"rails[{position}].nodeBlock", rail, network, prefix, indices)


def _network_paths(position: int, rail: Rail) -> Iterator[tuple[str, IPNetwork]]:
    for number, network in enumerate(rail.networks):
        yield f"rails[{position}].subnet" + (f"s[{number}]" if rail.subnets else ""), network


def _overlaps(draft: Draft) -> Iterator[Finding]:
    networks = [
        (position, path, network)
        for position, draft_rail in enumerate(draft.rails)
        if draft_rail.rail
        for path, network in _network_paths(position, draft_rail.rail)
    ]
    for (one, one_path, first), (other, path, second) in combinations(networks, 2):
        if one != other and first.version == second.version and first.overlaps(second):
            yield Finding(path, f"{second} overlaps {first} of {one_path}; every rail has a network of its own")


def _families(position: int, rail: Rail) -> Iterator[Finding]:
    if len(rail.subnets) == 2 and rail.subnets[0].version == rail.subnets[1].version:
        yield Finding(
            f"rails[{position}].subnets[1]",
            f"a second IPv{rail.subnets[1].version} network; a rail has one of each family",
        )


def _node_block(position: int, rail: Rail) -> Iterator[Finding]:
    path = f"rails[{position}].nodeBlock"
    if not isinstance(rail.node_block, NodeBlock) and len(rail.networks) > 1:
        yield Finding(path, "two address families need a length each; write {v4: 27, v6: 64}")
        return
    if isinstance(rail.node_block, NodeBlock):
        given = {version for version in (4, 6) if rail.block_prefix(version) is not None}
        for version in sorted(given ^ {network.version for network in rail.networks}):
            state = "has no network of that family" if version in given else "is missing for the rail's network"
            yield Finding(path, f"v{version} {state}")
    for network in rail.networks:
        prefix = rail.block_prefix(network.version)
        if prefix is not None and prefix > network.max_prefixlen:
            yield Finding(path, f"/{prefix} is no IPv{network.version} prefix; the longest is /{network.max_prefixlen}")
        elif prefix is not None and not blocks_in(network, prefix):
            yield Finding(path, f"a /{prefix} does not fit into {network}; write a number from {network.prefixlen} on")


def _gateway(position: int, rail: Rail) -> Iterator[Finding]:
    path, gateway = f"rails[{position}].gateway", rail.gateway
    if rail.addressing == "routed" and gateway != "first":
        yield Finding(path, f"a routed rail has a gateway in every node's block: write first, not {gateway}")
        return
    if isinstance(gateway, str):
        return
    inside = [network for network in rail.networks if network.version == gateway.version and gateway in network]
    if not inside:
        yield Finding(path, f"{gateway} is outside {' and '.join(map(str, rail.networks))}")
    elif inside[0].prefixlen < inside[0].max_prefixlen - 1 and gateway in _unusable(inside[0]):
        yield Finding(path, f"{gateway} is the network or broadcast address of {inside[0]}")


def _unusable(network: IPNetwork) -> tuple[object, ...]:
    ends = (network.network_address, network.broadcast_address)
    return ends if network.version == 4 else ends[:1]


def _excluded(position: int, rail: Rail) -> Iterator[Finding]:
    for number, hole in enumerate(rail.exclude):
        if not any(hole.version == network.version and hole.overlaps(network) for network in rail.networks):
            yield Finding(f"rails[{position}].exclude[{number}]", f"{hole} is outside the rail's network")


def _room(path: str, rail: Rail, network: IPNetwork, prefix: int, indices: dict[int, str]) -> Iterator[Finding]:
    blocks = blocks_in(network, prefix)
    last = max(indices)
    if last >= blocks:
        held = f"{blocks} block" + ("s" if blocks > 1 else "")
        yield Finding(path, f"{indices[last]} has index {last}, but {network} holds {held} of /{prefix}")
    for index in _suspects(rail, network, prefix, indices):
        try:
            address_range(rail, network, index)
        except ValueError as error:
            yield Finding(path, f"{error} ({indices[index]})")
            return


def _suspects(rail: Rail, network: IPNetwork, prefix: int, indices: dict[int, str]) -> list[int]:
    """The hosts whose block may have lost its last address; in all others nothing is taken away.

    That is the first host for the shape of a routed block, the ends of the network, the gateway, and ``exclude``.
    """
    shift, start, blocks = network.max_prefixlen - prefix, int(network.network_address), blocks_in(network, prefix)
    ordered = list(indices)
    found = {ordered[0], 0, blocks - 1}
    gateway = gateway_in(rail, network)
    if gateway is not None:
        found.add((int(gateway) - start) >> shift)
    for hole in rail.exclude:
        if hole.version == network.version:
            low = (int(hole.network_address) - start) >> shift
            high = (int(hole.broadcast_address) - start) >> shift
            found.update(ordered[bisect_left(ordered, low) : bisect_right(ordered, high)][:1])
    return sorted(index for index in found if 0 <= index < blocks and index in indices)
