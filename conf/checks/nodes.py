"""``nodes``: every host once, with an index of its own and a type that exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from conf.checks.names import NamedGroup, NamedNodes, some
from conf.draft import Draft
from conf.errors import Finding
from conf.findings import did_you_mean
from conf.paths import show

__all__ = ["check_nodes"]


def check_nodes(draft: Draft, nodes: NamedNodes) -> Iterator[Finding]:
    """Hosts named twice, indices given twice, unknown types, one MAC address for many hosts."""
    yield from nodes.findings
    yield from _types(draft)
    owners: dict[str, int] = {}
    indices: dict[int, tuple[str, int]] = {}
    free = max(
        (group.first_index + len(group.names) for group in nodes.groups if group.first_index is not None), default=0
    )
    for group in nodes.groups:
        yield from _names(group, owners)
        yield from _indices(group, indices, free)
    yield from _shared_macs(draft, nodes)


def _types(draft: Draft) -> Iterator[Finding]:
    for position, group in enumerate(draft.groups):
        if group.type and draft.types and group.type not in draft.types:
            message = f"there is no node type {group.type}" + did_you_mean(group.type, draft.types)
            yield Finding(f"nodes[{position}].type", message)


def _names(group: NamedGroup, owners: dict[str, int]) -> Iterator[Finding]:
    """A finding for the hosts that an earlier group names too; ``owners`` gains the others."""
    taken = [name for name in group.names if name in owners]
    owners.update((name, group.position) for name in group.names if name not in owners)
    if taken:
        yield Finding(f"nodes[{group.position}].match", f"{some(taken)}: also matched by nodes[{owners[taken[0]]}]")


def _indices(group: NamedGroup, indices: dict[int, tuple[str, int]], free: int) -> Iterator[Finding]:
    """A finding for the indices that an earlier group gives to other hosts; ``indices`` gains the others."""
    if group.first_index is None:
        return
    mine = {group.first_index + offset: (name, group.position) for offset, name in enumerate(group.names)}
    taken = [index for index, (name, _) in mine.items() if index in indices and indices[index][0] != name]
    indices.update((index, owner) for index, owner in mine.items() if index not in indices)
    if taken:
        other, position = indices[taken[0]]
        yield Finding(
            f"nodes[{group.position}].firstIndex",
            f"{mine[taken[0]][0]} would have index {taken[0]} and so the addresses of {other} (nodes[{position}]); "
            f"from {free} on indices are free",
        )


def _shared_macs(draft: Draft, nodes: NamedNodes) -> Iterator[Finding]:
    hosts_of = Counter[str]()
    for group in nodes.groups:
        hosts_of[group.type or ""] += len(group.names)
    for name, kind in draft.types.items():
        hosts = hosts_of[name]
        fixed = [rail for rail, nic in kind.nics.items() if nic.mac]
        if hosts > 1 and fixed:
            yield Finding(show(("nodeTypes", name, "rails", fixed[0])), f"mac would be the same on {hosts} hosts")
