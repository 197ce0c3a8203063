"""What could be at fault, and which measurements each fault would touch. Pure.

A fault's bandwidth is a ceiling: a group is as slow as the slowest thing it uses, so a whole-group result is the
minimum over its members, and a pair is touched by the faults of either end and of the path between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import log
from typing import Literal, NamedTuple

import numpy as np

from nccltest.locate.cabling import Cabling
from nccltest.locate.evidence import Evidence, Flags, Ints
from nccltest.model import Member

__all__ = ["Hypotheses", "Key", "Kind", "build"]

Kind = Literal["global", "node", "inside", "nic", "leaf", "uplink", "spine"]
"""``inside`` is a node whose own links (NVLink, PCIe) are slow; it is reported as ``node``."""

_EXPECTED: Mapping[str, float] = {
    "nic": 0.4,  # optics, cables and NICs are what breaks
    "node": 0.2,
    "inside": 0.1,
    "uplink": 0.15,
    "leaf": 0.1,
    "spine": 0.05,
    "global": 0.05,
}
"""Faults that a run is expected to find of each kind before it looks: shared out among the components of that kind.
It is what keeps thousands of healthy NICs from being blamed for somebody's noise."""
_INFERRED = 0.1
"""How much less a leaf is believed in that no topology tells of."""


class Key(NamedTuple):
    """What is blamed: its kind and its name."""

    kind: Kind
    id: str


@dataclass(frozen=True)
class Hypotheses:
    """c candidates and e entries, sorted by candidate: candidate ``owner[i]`` touches measurement ``touched[i]``."""

    keys: tuple[Key, ...]
    prior: tuple[float, ...]
    """log of the probability that this very component is at fault."""
    owner: Ints
    touched: Ints
    start: Ints
    """First entry of every candidate, and e at the end."""

    def touches(self, candidate: int) -> Ints:
        """The measurements that the candidate touches."""
        return self.touched[self.start[candidate] : self.start[candidate + 1]]

    def extended(self, more: Sequence[tuple[Key, float, Ints]]) -> Hypotheses:
        """With further candidates: key, log prior, what each touches."""
        if not more:
            return self
        owner = np.concatenate([self.owner, *(np.full(len(t), len(self.keys) + i) for i, (_, _, t) in enumerate(more))])
        touched = np.concatenate([self.touched, *(t for _, _, t in more)])
        keys = (*self.keys, *(key for key, _, _ in more))
        return _sorted(keys, (*self.prior, *(prior for _, prior, _ in more)), owner, touched)


def build(evidence: Evidence, cabling: Cabling) -> Hypotheses:
    """Every candidate that some measurement touches."""
    numbers: dict[Key, int] = {}
    owner: list[int] = []
    touched: list[int] = []
    keys_of = _memory(cabling, _single_nics(evidence))
    alone = _one_rail_nodes(evidence)
    for index, members in enumerate(evidence.members):
        lost = evidence.source[index].unreachable
        keys = _named(members, lost) if lost else keys_of(members, bool(evidence.inside[index]))
        for key in keys:
            if key.kind == "node" and key.id in alone:
                continue
            owner.append(numbers.setdefault(key, len(numbers)))
            touched.append(index)
    own = ~np.isnan(evidence.expected)
    if own.sum() >= 2:
        owner += [numbers.setdefault(Key("global", "fabric"), len(numbers))] * int(own.sum())
        touched += np.flatnonzero(own).tolist()
    keys = tuple(numbers)
    return _sorted(keys, _priors(keys, cabling), np.array(owner, dtype=np.int64), np.array(touched, dtype=np.int64))


def _sorted(keys: tuple[Key, ...], prior: tuple[float, ...], owner: Ints, touched: Ints) -> Hypotheses:
    order = np.lexsort((touched, owner))
    owner, touched = owner[order], touched[order]
    return Hypotheses(keys, prior, owner, touched, np.searchsorted(owner, np.arange(len(keys) + 1)))


def _priors(keys: Sequence[Key], cabling: Cabling) -> tuple[float, ...]:
    count: dict[str, int] = {}
    for key in keys:
        count[key.kind] = count.get(key.kind, 0) + 1
    guessed = 0.0 if cabling.leaf else log(_INFERRED)
    return tuple(log(_EXPECTED[key.kind] / count[key.kind]) + (guessed if key.kind == "leaf" else 0.0) for key in keys)


def _one_rail_nodes(evidence: Evidence) -> set[str]:
    """Nodes of which one rail alone was ever tested: there a slow node is a slow NIC, and the NIC is the finer name."""
    rails: dict[str, set[str | None]] = {}
    for members, inside in zip(evidence.members, evidence.inside, strict=True):
        if not inside:
            for member in members:
                rails.setdefault(member.node, set()).add(member.rail)
    return {node for node, seen in rails.items() if len(seen) == 1 and None not in seen}


def _named(members: Iterable[Member], lost: Sequence[str]) -> Iterator[Key]:
    """The launcher itself says who was lost: nobody else is a suspect of this failure."""
    for member in members:
        if member.node in lost:
            yield Key("node", member.node)
            if member.rail is not None:
                yield Key("nic", f"{member.node}/{member.rail}")


def _single_nics(evidence: Evidence) -> set[Member]:
    """NICs that were tested by themselves; others cannot be told from their node."""
    return {member for members in evidence.members for member in members if member.rail is not None}


def _memory(cabling: Cabling, single: Set[Member]) -> Callable[[tuple[Member, ...], bool], Iterable[Key]]:
    """Keys of a group. Rounds repeat their members by the thousand, so each member's keys are made once."""
    known: dict[Member, tuple[Key, ...]] = {}

    def of_member(member: Member) -> tuple[Key, ...]:
        if member not in known:
            known[member] = tuple(_endpoint(member, cabling, single))
        return known[member]

    def of_group(members: tuple[Member, ...], inside: bool) -> Iterable[Key]:
        if inside:
            return (Key("inside", members[0].node),)
        keys = {key for member in members for key in of_member(member)}
        return keys | set(_path(members, cabling))

    return of_group


def _endpoint(member: Member, cabling: Cabling, single: Set[Member]) -> Iterator[Key]:
    yield Key("node", member.node)
    for rail in _rails(member, cabling):
        if Member(member.node, rail) in single:
            yield Key("nic", f"{member.node}/{rail}")
        leaf = cabling.leaf.get((member.node, rail))
        if leaf is not None:
            yield Key("leaf", leaf)
        elif not cabling.leaf:
            yield Key("leaf", rail)  # nothing is known of switches, but a rail's NICs share some


def _rails(member: Member, cabling: Cabling) -> tuple[str, ...]:
    """A member without a rail uses all of its rails at once."""
    return cabling.rails_of(member.node) if member.rail is None else (member.rail,)


def _path(members: Sequence[Member], cabling: Cabling) -> Iterator[Key]:
    """Uplinks and spines between the members' leaves, for each rail on its own (traffic stays on its rail)."""
    if not cabling.leaf:
        return
    rails: dict[str, dict[str, str]] = {}
    for member in members:
        for rail in _rails(member, cabling):
            leaf = cabling.leaf.get((member.node, rail))
            if leaf is not None:
                rails.setdefault(rail, {})[member.node] = leaf
    if all(len(nodes) == 1 for nodes in rails.values()):  # members on different rails: one network after all
        rails = {"": {f"{node}/{rail}": leaf for rail, each in rails.items() for node, leaf in each.items()}}
    for nodes in rails.values():
        leaves = set(nodes.values())
        if len(leaves) > 1:
            yield from (Key("uplink", leaf) for leaf in leaves)
            yield from (Key("spine", plane) for plane in {cabling.plane.get(leaf, "") for leaf in leaves} if plane)


def healthy_mask(count: int, hypotheses: Hypotheses, blamed: Iterable[int]) -> Flags:
    """Of ``count`` measurements those that none of the blamed candidates touches."""
    mask = np.ones(count, dtype=bool)
    for candidate in blamed:
        mask[hypotheses.touches(candidate)] = False
    return mask
