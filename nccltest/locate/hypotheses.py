"""What could be at fault, and which measurements each fault would touch. Pure.

A fault's bandwidth is a ceiling: a group is as slow as the slowest thing it uses, so a whole-group result is the
minimum over its members, and a pair is touched by the faults of either end and of the path between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log
from typing import Literal, NamedTuple

import numpy as np

from nccltest.locate.cabling import Cabling
from nccltest.locate.evidence import Evidence, Flags, Ints
from nccltest.model import Member

__all__ = ["BETWEEN_LEAVES", "BETWEEN_PODS", "OF_TYPE", "Hypotheses", "Key", "Kind", "build", "healthy_mask", "told"]

Kind = Literal["global", "node", "inside", "nic", "leaf", "uplink", "spine", "path"]
"""``inside`` is a node whose own links (NVLink, PCIe) are slow; it is reported as ``node``. ``path`` is no fault: a
class of groups that may be slower than others in health (between leaves, between pods, with nodes of another type)."""

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


BETWEEN_LEAVES = Key("path", "between leaves")
BETWEEN_PODS = Key("path", "between pods")
OF_TYPE = "with nodes of type "


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

    def path_class(self, count: int) -> Ints:
        """For ``count`` measurements: equal numbers where the same classes of paths touch them."""
        number = np.zeros(count, dtype=np.int64)
        paths = [candidate for candidate, key in enumerate(self.keys) if key.kind == "path"]
        for place, candidate in enumerate(paths, 1):
            number[self.touches(candidate)] *= len(paths) + 1
            number[self.touches(candidate)] += place
        return number

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
    numbering = _Numbering(evidence, cabling)
    touching = [
        numbering.named(members, one.unreachable) if one.unreachable else numbering.group(members, inside)
        for members, one, inside in zip(evidence.members, evidence.source, evidence.inside.tolist(), strict=True)
    ]
    counts = np.fromiter((len(each) for each in touching), dtype=np.int64, count=len(touching))
    owner = np.fromiter(chain.from_iterable(touching), dtype=np.int64, count=int(counts.sum()))
    touched = np.repeat(np.arange(len(touching)), counts)
    own = np.flatnonzero(~np.isnan(evidence.expected))
    if len(own) >= 2:
        owner = np.concatenate([owner, np.full(len(own), numbering.of(Key("global", "fabric")))])
        touched = np.concatenate([touched, own])
    keys = tuple(numbering.numbers)
    return _sorted(keys, _priors(keys, cabling), owner, touched)


def _sorted(keys: tuple[Key, ...], prior: tuple[float, ...], owner: Ints, touched: Ints) -> Hypotheses:
    order = np.lexsort((touched, owner))
    owner, touched = owner[order], touched[order]
    return Hypotheses(keys, prior, owner, touched, np.searchsorted(owner, np.arange(len(keys) + 1)))


def _priors(keys: Sequence[Key], cabling: Cabling) -> tuple[float, ...]:
    count: dict[str, int] = {}
    for key in keys:
        count[key.kind] = count.get(key.kind, 0) + 1
    guessed = 0.0 if cabling.leaf else log(_INFERRED)

    def prior(key: Key) -> float:
        if key.kind == "path":  # tiers differ in every fabric; a type of few nodes could be so many faults as well
            return 0.0 if not key.id.startswith(OF_TYPE) else -log(max(2, count.get("node", 2)))
        return log(_EXPECTED[key.kind] / count[key.kind]) + (guessed if key.kind == "leaf" else 0.0)

    return tuple(prior(key) for key in keys)


def _one_rail_nodes(evidence: Evidence) -> set[str]:
    """Nodes of which one rail alone was ever tested: there a slow node is a slow NIC, and the NIC is the finer name."""
    rails: dict[str, set[str | None]] = {}
    for members, inside in zip(evidence.members, evidence.inside, strict=True):
        if not inside:
            for member in members:
                rails.setdefault(member.node, set()).add(member.rail)
    return {node for node, seen in rails.items() if len(seen) == 1 and None not in seen}


class _Numbering:
    """Candidates by number, in the order in which they are met. Rounds repeat their members by the thousand, so what a
    member or a path touches is reckoned once."""

    def __init__(self, evidence: Evidence, cabling: Cabling) -> None:
        self.numbers: dict[Key, int] = {}
        self._cabling = cabling
        self._single = {(each.node, each.rail) for group in evidence.members for each in group if each.rail is not None}
        self._several_rails = len({rail for _, rail in self._single}) > 1
        self._alone = _one_rail_nodes(evidence)
        types = {cabling.node_type.get(node, "") for one in evidence.source for node in one.nodes}
        self._typed = len(types - {""}) > 1
        self._ends: dict[tuple[str, str | None], tuple[int, ...]] = {}
        self._paths: dict[frozenset[str], tuple[int, ...]] = {}

    def of(self, key: Key) -> int:
        """The number of a candidate."""
        return self.numbers.setdefault(key, len(self.numbers))

    def group(self, members: tuple[Member, ...], inside: bool) -> Collection[int]:
        """The candidates that a group touches."""
        if inside:
            return (self.of(Key("inside", members[0].node)), *map(self.of, self._type(members[0].node)))
        found: set[int] = set()
        for member in members:
            found.update(self._end(member.node, member.rail))
        if self._cabling.leaf:
            for leaves in self._crossed(members):
                found.update(self._path(leaves))
        return found

    def named(self, members: Iterable[Member], lost: Sequence[str]) -> Collection[int]:
        """The launcher itself says who was lost: nobody else is a suspect of this failure."""
        return [
            self.of(key)
            for member in members
            if member.node in lost
            for key in self._endpoint(member.node, member.rail)
            if key.kind in ("node", "nic")
        ]

    def _end(self, node: str, rail: str | None) -> tuple[int, ...]:
        known = self._ends.get((node, rail))
        if known is None:
            known = self._ends[node, rail] = tuple(self.of(key) for key in self._endpoint(node, rail))
        return known

    def _endpoint(self, node: str, rail: str | None) -> Iterator[Key]:
        yield from self._type(node)
        if node not in self._alone:
            yield Key("node", node)
        for each in self._cabling.rails_of(node) if rail is None else (rail,):
            if (node, each) in self._single:  # a NIC never tested by itself cannot be told from its node
                yield Key("nic", f"{node}/{each}")
            leaf = self._cabling.leaf.get((node, each))
            if leaf is not None:
                yield Key("leaf", leaf)
            elif not self._cabling.leaf and self._several_rails:
                yield Key("leaf", each)  # nothing is known of switches, but a rail's NICs share some

    def _type(self, node: str) -> Iterator[Key]:
        if self._typed and node in self._cabling.node_type:
            yield Key("path", OF_TYPE + self._cabling.node_type[node])

    def _crossed(self, members: Sequence[Member]) -> Iterator[frozenset[str]]:
        """Sets of leaves among which traffic flows: for each rail on its own, since it stays on its rail."""
        first = members[0].rail
        if first is not None and all(member.rail == first for member in members):
            yield self._leaves((member.node, first) for member in members)
            return
        rails: dict[str, set[str]] = {}
        for member in members:
            for rail in self._cabling.rails_of(member.node) if member.rail is None else (member.rail,):
                rails.setdefault(rail, set()).add(member.node)
        if all(len(nodes) == 1 for nodes in rails.values()):  # members on different rails: one network after all
            yield self._leaves((node, rail) for rail, nodes in rails.items() for node in nodes)
        else:
            yield from (self._leaves((node, rail) for node in nodes) for rail, nodes in rails.items())

    def _leaves(self, nics: Iterable[tuple[str, str]]) -> frozenset[str]:
        return frozenset(leaf for nic in nics if (leaf := self._cabling.leaf.get(nic)) is not None)

    def _path(self, leaves: frozenset[str]) -> tuple[int, ...]:
        """Uplinks and spines between these leaves."""
        known = self._paths.get(leaves)
        if known is None:
            planes = {self._cabling.plane.get(leaf, "") for leaf in leaves} - {""}
            keys = [Key("uplink", leaf) for leaf in sorted(leaves)] + [Key("spine", plane) for plane in sorted(planes)]
            pods = {self._cabling.pod.get(leaf) for leaf in leaves}
            keys += [BETWEEN_LEAVES, BETWEEN_PODS] if len(pods) > 1 else [BETWEEN_LEAVES]
            known = self._paths[leaves] = tuple(self.of(key) for key in keys) if len(leaves) > 1 else ()
        return known


def told(key: Key) -> bool:
    """Whether the class of paths is one that the topology tells of."""
    return key in (BETWEEN_LEAVES, BETWEEN_PODS) or key.id.startswith(OF_TYPE)


def healthy_mask(count: int, hypotheses: Hypotheses, blamed: Iterable[int]) -> Flags:
    """Of ``count`` measurements those that none of the blamed candidates touches."""
    mask = np.ones(count, dtype=bool)
    for candidate in blamed:
        mask[hypotheses.touches(candidate)] = False
    return mask
