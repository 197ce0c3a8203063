"""The plan of one run: the rounds that its budget allows, the most telling first. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple

from nccltest.locate.cabling import Cabling
from nccltest.model import GroupKind
from nccltest.schedule.cost import Cost, Timing, cost_of, round_seconds
from nccltest.schedule.matchings import Pair, across, edge, random_matching, within
from nccltest.schedule.past import Past
from nccltest.schedule.rounds import RailMode, Round, bisect_groups, rounds_of

__all__ = ["PURPOSES", "Plan", "Policy", "Suspicion", "make_plan"]

Purpose = Literal["follow-up", "random", "cross-leaf", "same-leaf", "whole", "rail", "bisect"]
PURPOSES: tuple[Purpose, ...] = ("follow-up", "random", "cross-leaf", "same-leaf", "whole", "rail", "bisect")

_FOLLOW_UPS = 3
"""Rounds for suspects: with three other partners a NIC's own fault and a partner's are told apart."""
_THIS_PLAN = 1_000_000
"""How much more than a meeting of earlier days one of this plan counts."""


class Suspicion(NamedTuple):
    """Something that an earlier run suspects, as ``locate`` names it."""

    kind: str
    id: str


@dataclass(frozen=True)
class Policy:
    """What the operator wants of a run."""

    purposes: tuple[Purpose, ...] = ("follow-up", "random", "whole")
    """In the order in which the budget is spent on them."""
    matchings: int = 2
    """Rounds of each kind of pairs."""
    rails: RailMode = "side-by-side"
    budget: float = 86.0
    """Seconds that each GPU may spend in 24 hours."""
    reserve: float = 0.0
    """Seconds of them that are not planned for: ending what hangs takes time as well."""


@dataclass(frozen=True)
class Plan:
    """Rounds in order, and what they cost."""

    rounds: tuple[Round, ...]
    cost: Cost
    dropped: tuple[str, ...]
    """What the budget did not allow, a sentence each."""


def make_plan(
    nodes: Sequence[str],
    cabling: Cabling,
    policy: Policy,
    timing: Timing,
    *,
    past: Past = Past(),  # noqa: B008  # frozen and empty
    suspects: Sequence[Suspicion] = (),
    seed: str = "",
) -> Plan:
    """The rounds that the budget allows, for these nodes on the cabling's rails.

    No node is planned for longer than the budget less what the last 24 hours cost it: groups of a node that has
    nothing left are left out, and said so.
    """
    wanted = _Draw(nodes, cabling, policy, past, suspects, Random(seed)).rounds()  # noqa: S311  # a lottery, no secret
    most = policy.budget - policy.reserve
    kept: list[Round] = []
    dropped: list[str] = []
    spent: Counter[str] = Counter()
    for each in wanted:
        affordable = _affordable(each, timing, lambda node: most - past.spent.get(node, 0.0) - spent[node])
        left_out = len(each.groups) - len(affordable.groups)
        if left_out:
            dropped.append(f"{each.purpose}: {left_out} of {len(each.groups)} groups are over the budget")
        if affordable.groups:
            kept.append(affordable)
            seconds = round_seconds(affordable, timing)
            for node in affordable.nodes:
                spent[node] += seconds  # type: ignore[assignment]  # Counter adds floats as well
    return Plan(tuple(kept), cost_of(kept, timing), tuple(dropped))


def _affordable(one: Round, timing: Timing, left: Callable[[str], float]) -> Round:
    """The round without the groups of nodes that cannot pay for it. A round is as long as its longest group."""
    groups = one.groups
    while True:
        seconds = round_seconds(Round(one.purpose, groups), timing)
        able = tuple(group for group in groups if all(left(node) >= seconds for node in group.nodes))
        if len(able) == len(groups):
            return Round(one.purpose, groups)
        groups = able


_Teams = tuple[Sequence[Sequence[str]], Sequence[str], RailMode]


class _Draw:
    """The lots of one plan: what met and who stayed out counts on from the past."""

    def __init__(
        self,
        nodes: Sequence[str],
        cabling: Cabling,
        policy: Policy,
        past: Past,
        suspects: Sequence[Suspicion],
        rng: Random,
    ) -> None:
        self.nodes = nodes
        self.cabling = cabling
        self.policy = policy
        self.suspects = suspects
        self.met = Counter(past.met)
        self.idle = Counter(past.idle)
        self.rng = rng

    def rounds(self) -> Iterator[Round]:
        """Every round that the policy asks for."""
        for purpose in self.policy.purposes:
            kind: GroupKind | None = "half" if purpose == "bisect" else None
            for teams, rails, mode in self._teams(purpose):
                yield from rounds_of(purpose, teams, rails, mode, kind)

    def _teams(self, purpose: Purpose) -> Iterator[_Teams]:
        """Teams of nodes, the rails they use, and how."""
        rails, mode = self.cabling.rails, self.policy.rails
        if purpose in ("whole", "rail"):
            apart: RailMode = "side-by-side" if purpose == "rail" and mode == "together" else mode
            yield from [([self.nodes], rails, apart)] if len(self.nodes) > 1 else []
        elif purpose == "bisect":
            yield from ((halves, rails, mode) for halves in bisect_groups(self.nodes))
        elif purpose == "follow-up":
            for suspicion in self.suspects:
                for pairs, rail in self._follow_up(suspicion):
                    yield pairs, [rail] if rail else rails, "one-by-one" if rail else mode
        else:
            yield from ((self._matching(purpose), rails, mode) for _ in range(self.policy.matchings))

    def _matching(self, purpose: Purpose) -> tuple[Pair, ...]:
        leaf = _leaf_of(self.cabling)
        known = [node for node in self.nodes if leaf(node)]
        if purpose == "same-leaf":
            pairs = within(known, leaf, self.rng, self.met)
        elif purpose == "cross-leaf":
            pairs = across(known, leaf, self.rng, self.met)
        else:
            pairs = random_matching(self.nodes, self.rng, self.met, self.idle)
        self._meet(pairs)
        self.idle.update(set(self.nodes) - {node for pair in pairs for node in pair})
        return pairs

    def _follow_up(self, suspicion: Suspicion) -> Iterator[tuple[tuple[Pair, ...], str | None]]:
        """Rounds for one suspect: its nodes with partners that nobody suspects, met least often so far."""
        accused = _nodes_of(suspicion, self.nodes, self.cabling)
        all_accused = {node for each in self.suspects for node in _nodes_of(each, self.nodes, self.cabling)}
        others = [node for node in self.nodes if node not in all_accused]
        rail = suspicion.id.rpartition("/")[2] if suspicion.kind == "nic" else None
        for _ in range(_FOLLOW_UPS if accused and others else 0):
            yield self._partners(accused, others), rail

    def _partners(self, accused: Sequence[str], others: Sequence[str]) -> tuple[Pair, ...]:
        free = list(others)
        self.rng.shuffle(free)
        pairs: list[Pair] = []
        for node in accused[: len(free)]:
            order = {other: self.met[edge(node, other)] for other in free}
            partner = min(free, key=order.__getitem__)
            free.remove(partner)
            pairs.append((node, partner))
        self._meet(pairs)
        return tuple(pairs)

    def _meet(self, pairs: Iterable[Pair]) -> None:
        """Pairs of this plan met just now: no past outweighs that."""
        for pair in pairs:
            self.met[edge(*pair)] += _THIS_PLAN


def _leaf_of(cabling: Cabling) -> Callable[[str], str]:
    """A node's leaves over all rails as one name: nodes under the same leaves are neighbours on every rail."""
    leaves: dict[str, list[str]] = defaultdict(list)
    for (node, rail), leaf in sorted(cabling.leaf.items()):
        leaves[node].append(f"{rail}={leaf}")
    return lambda node: " ".join(leaves.get(node, ()))


def _nodes_of(suspicion: Suspicion, nodes: Sequence[str], cabling: Cabling) -> tuple[str, ...]:
    """The nodes behind a suspect; of a leaf or an uplink two, since one NIC of them could itself be slow."""
    wanted = set(nodes)
    if suspicion.kind in ("leaf", "uplink"):
        below = {node for (node, _), leaf in cabling.leaf.items() if leaf == suspicion.id and node in wanted}
        return tuple(sorted(below)[:2])
    name = {"node": suspicion.id, "nic": suspicion.id.rpartition("/")[0]}.get(suspicion.kind)
    return (name,) if name in wanted and name else ()
