"""The rounds that confirm a suspicion: the suspected groups again, as often as the detector wants. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nccltest.detector import CONFIRMATIONS
from nccltest.judge import Judgement, to_confirm
from nccltest.model import Measurement, Member
from nccltest.schedule import Group, Round

__all__ = ["PURPOSE", "confirmation_rounds"]

PURPOSE = "confirm"


def confirmation_rounds(
    judgements: Sequence[Judgement], measurements: Sequence[Measurement], times: int = CONFIRMATIONS
) -> tuple[Round, ...]:
    """Every suspected group once in each of ``times`` passes; groups that share no NIC run side by side."""
    suspected = dict.fromkeys(Group(one.members, one.kind) for one in to_confirm(judgements, measurements))
    passes = _packed(tuple(suspected))
    return passes * times


def _packed(groups: Sequence[Group]) -> tuple[Round, ...]:
    rounds: list[list[Group]] = []
    busy: list[set[Member]] = []
    for group in groups:
        place = next((i for i, taken in enumerate(busy) if not _meets(group, taken)), len(rounds))
        if place == len(rounds):
            rounds.append([])
            busy.append(set())
        rounds[place].append(group)
        busy[place].update(group.members)
    return tuple(Round(PURPOSE, tuple(each)) for each in rounds)


def _meets(group: Group, taken: set[Member]) -> bool:
    """A member without a rail uses all of its node's."""
    nodes = {each.node for each in taken if each.rail is None}
    every = {each.node for each in taken}
    return any(
        member in taken or member.node in nodes or (member.rail is None and member.node in every)
        for member in group.members
    )
