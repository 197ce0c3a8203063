"""What a plan costs: seconds of a round, minutes, GPU-minutes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from nccltest.busbw import factor
from nccltest.schedule.rounds import Group, Round

__all__ = ["Cost", "Timing", "cost_of", "group_seconds", "round_seconds"]


class Timing(NamedTuple):
    """What the length of a measurement depends on."""

    sizes: tuple[int, ...]
    """Bytes."""
    repeats: int
    warmups: int
    iterations: int
    nic_rate: float
    """Line rate of one NIC, GB/s."""
    rails: int
    startup: float
    """Seconds from the launcher's start to the first byte, and from the last to its end; each repeat pays them."""
    timeout: float
    """Seconds after which a round is ended."""
    gpus: int
    """GPUs of a node: while one of its NICs is measured, none of them is free for other work."""


_SHARE = 0.8
"""Of line rate: what a healthy ring surely reaches."""
_HALVES = 2
"""Out of place and in place."""
_COLLECTIVE = "all_reduce"


def group_seconds(group: Group, timing: Timing) -> float:
    """How long a group takes, all its repeats; at most the timeout.

    An all-reduce of S bytes puts 2(n−1)/n·S on each rank's wire; a node's NICs share what its ranks send.
    """
    ranks = max(len(group.members), 2)
    wires = 1 if group.rail is not None else max(timing.rails, 1)
    bytes_on_wire = sum(timing.sizes) * factor(_COLLECTIVE, ranks) / wires
    runs = _HALVES * (timing.warmups + timing.iterations)
    once = timing.startup + runs * bytes_on_wire / (timing.nic_rate * 1e9 * _SHARE)
    return min(once * timing.repeats, timing.timeout)


def round_seconds(one: Round, timing: Timing) -> float:
    """A round ends with its last group."""
    return max((group_seconds(group, timing) for group in one.groups), default=0.0)


class Cost(NamedTuple):
    """What a plan costs if nothing hangs."""

    rounds: int
    minutes: float
    """From start to end."""
    gpu_minutes: float
    """Over all nodes: minutes that their GPUs are not free for work."""
    busiest_seconds: float
    """Of the node that is measured longest: this is what the budget is about."""


def cost_of(rounds: Sequence[Round], timing: Timing) -> Cost:
    """The cost of rounds, one after the other."""
    busy: Counter[str] = Counter()
    total = 0.0
    for each in rounds:
        seconds = round_seconds(each, timing)
        total += seconds
        for node in each.nodes:
            busy[node] += seconds  # type: ignore[assignment]  # Counter adds floats as well
    return Cost(
        rounds=len(rounds),
        minutes=total / 60,
        gpu_minutes=sum(busy.values()) * timing.gpus / 60,
        busiest_seconds=max(busy.values(), default=0.0),
    )
