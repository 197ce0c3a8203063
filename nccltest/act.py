"""When to act on a blame, when to stop, and on how many nodes at most. Pure: remembered state and a run in, state out.

A blame is acted upon after it was the one sure suspect of its fault in several runs in a row, and taken back after
several runs in a row that tested the node and did not blame it. A run that did not test the node says nothing about it.
Only nodes and NICs lead to a node; a leaf, an uplink or a spine is told (webhook), and no node is touched for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from conf.hostlist import expand
from nccltest.locate.verdict import SURE

__all__ = ["Act", "Blame", "Policy", "State", "act", "from_json", "label", "marked", "to_json"]

_ON_A_NODE = ("node", "nic")


@dataclass(frozen=True)
class Policy:
    """How sure, how long, how many."""

    after: int = 2
    """Runs in a row with the blame before anything is done."""
    clear_after: int = 2
    """Runs in a row without it, the node tested, before that is undone."""
    most: int = 2
    """Nodes that may be tainted at one time; blames beyond that are told and wait."""


@dataclass(frozen=True)
class Blame:
    """One suspect over several runs."""

    kind: str
    id: str
    hits: int
    """Runs in a row with it."""
    misses: int
    """Runs in a row without it, since it was last blamed."""
    since: float
    """Time of the first run of the row."""
    acted: bool
    evidence: str
    ratio: float

    @property
    def node(self) -> str | None:
        """The node that it is on; None for what is not on one."""
        return self.id.partition("/")[0] if self.kind in _ON_A_NODE else None


@dataclass(frozen=True)
class State:
    """What is remembered between runs."""

    run: int = 0
    """The latest run that was looked at."""
    blames: tuple[Blame, ...] = ()
    tainted: tuple[str, ...] = ()
    """Nodes that may not be scheduled because of us, in the order in which they were tainted."""


@dataclass(frozen=True)
class Act:
    """One thing to be told: a blame that is now acted upon, one that is over, or one that the cap holds back."""

    what: Literal["blame", "clear", "capped"]
    blame: Blame


def act(state: State, run: int, summary: Mapping[str, Any], policy: Policy) -> tuple[State, tuple[Act, ...]]:
    """The next state and what changed. A run that was looked at already changes nothing."""
    if run <= state.run:
        return state, ()
    if not summary:
        return replace(state, run=run), ()
    counted = _counted(state.blames, summary)
    begun = [each for each in counted if not each.acted and each.hits >= policy.after]
    ended = [each for each in counted if each.acted and each.misses >= policy.clear_after]
    kept = tuple(
        replace(each, acted=True) if each in begun else each
        for each in counted
        if each not in ended and (each.acted or each.misses == 0)
    )
    tainted, held = _capped(state.tainted, kept, policy.most)
    acts = (
        *(Act("clear", each) for each in ended),
        *(Act("blame", replace(each, acted=True)) for each in begun),
        *(Act("capped", each) for each in kept if each.node in held and _newly(each, begun, state)),
    )
    return State(run, kept, tainted), acts


def _newly(blame: Blame, begun: Sequence[Blame], state: State) -> bool:
    """The cap is told once, when the blame is."""
    return any((each.kind, each.id) == (blame.kind, blame.id) for each in begun) and blame.node not in state.tainted


def _counted(blames: Sequence[Blame], summary: Mapping[str, Any]) -> list[Blame]:
    sure = {(each["kind"], each["id"]): each for each in summary["locate"]["suspects"] if each["confidence"] >= SURE}
    tested = set(expand(summary["nodes"])) if summary.get("nodes") else set()
    counted = []
    for each in blames:
        now = sure.pop((each.kind, each.id), None)
        if now is not None:
            hits = each.hits + 1 if each.misses == 0 else 1
            counted.append(replace(each, hits=hits, misses=0, evidence=now["evidence"], ratio=float(now["ratio"])))
        elif each.node is None or each.node in tested:
            counted.append(replace(each, misses=each.misses + 1))
        else:
            counted.append(each)
    new = (
        Blame(kind, name, 1, 0, float(summary["time"]), False, now["evidence"], float(now["ratio"]))
        for (kind, name), now in sure.items()
    )
    return [*counted, *new]


def _capped(tainted: Sequence[str], blames: Sequence[Blame], most: int) -> tuple[tuple[str, ...], set[str]]:
    """Nodes to be tainted, the longest tainted first, and those for which there is no room."""
    wanted = dict.fromkeys(each.node for each in blames if each.acted and each.node)
    order = [node for node in tainted if node in wanted] + [node for node in wanted if node not in tainted]
    return tuple(order[:most]), set(order[most:])


def marked(state: State) -> dict[str, tuple[Blame, ...]]:
    """Node -> the blames that are acted upon there."""
    nodes: dict[str, list[Blame]] = {}
    for each in state.blames:
        if each.acted and each.node:
            nodes.setdefault(each.node, []).append(each)
    return {node: tuple(blames) for node, blames in nodes.items()}


def label(blames: Sequence[Blame]) -> str | None:
    """A label's value: ``node``, ``nic-rail3``; 63 letters, digits, '-', '_' and '.'; None for no blame."""
    words = sorted({"node" if each.kind == "node" else f"nic-{each.id.partition('/')[2]}" for each in blames})
    return re.sub(r"[^A-Za-z0-9._-]", "-", "_".join(words))[:63].strip("-_.") or None


def to_json(state: State) -> dict[str, Any]:
    """For the history."""
    return asdict(state)


def from_json(document: Mapping[str, Any] | None) -> State:
    """What :func:`to_json` wrote; the empty state for None."""
    if document is None:
        return State()
    return State(document["run"], tuple(Blame(**each) for each in document["blames"]), tuple(document["tainted"]))
