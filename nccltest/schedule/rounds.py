"""Rounds: groups of nodes that measure at the same time, none of them in another's way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nccltest.measure import group_kind
from nccltest.model import GroupKind, Member

__all__ = ["Group", "RailMode", "Round", "bisect_groups", "rounds_of"]

RailMode = Literal["together", "side-by-side", "one-by-one"]
"""One job over all rails; a job for each rail, all at once; or rail after rail."""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that run one all-reduce."""

    members: tuple[Member, ...]
    kind: GroupKind

    @property
    def nodes(self) -> tuple[str, ...]:
        """The members' nodes, in order."""
        return tuple(member.node for member in self.members)

    @property
    def rail(self) -> str | None:
        """The one rail it uses; None for all."""
        return self.members[0].rail


@dataclass(frozen=True, slots=True)
class Round:
    """Groups that run at the same time; no NIC is in two of them."""

    purpose: str
    groups: tuple[Group, ...]

    @property
    def nodes(self) -> frozenset[str]:
        """Every node that takes part."""
        return frozenset(node for group in self.groups for node in group.nodes)


def rounds_of(
    purpose: str, teams: Sequence[Sequence[str]], rails: Sequence[str], mode: RailMode, kind: GroupKind | None = None
) -> Iterator[Round]:
    """The rounds in which these teams of nodes measure: one, or one for each rail."""
    if not teams:
        return
    if mode == "together" or not rails:
        yield Round(purpose, tuple(_group(team, None, kind) for team in teams))
    elif mode == "side-by-side":
        yield Round(purpose, tuple(_group(team, rail, kind) for rail in rails for team in teams))
    else:
        for rail in rails:
            yield Round(purpose, tuple(_group(team, rail, kind) for team in teams))


def _group(team: Sequence[str], rail: str | None, kind: GroupKind | None) -> Group:
    members = tuple(Member(node, rail) for node in team)
    return Group(members, kind or group_kind(members))


def bisect_groups(nodes: Iterable[str]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """⌈log2 N⌉ ways to part the nodes in two: round j by bit j of a node's number.

    Not adaptive: one faulty node is in a slow half in every round, and which half it was in spells its number. What is
    faulty *between* the halves (an uplink) shows in no round.
    """
    order = sorted(nodes)
    for bit in range(max(len(order) - 1, 0).bit_length()):
        zero = tuple(node for number, node in enumerate(order) if not number >> bit & 1)
        one = tuple(node for number, node in enumerate(order) if number >> bit & 1)
        yield tuple(half for half in (zero, one) if len(half) > 1)
