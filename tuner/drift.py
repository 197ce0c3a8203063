"""Where a host is not what is wanted, as a unified diff of two short texts. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tuner.nic import HostQos, HostWanted, NicQos, NicWanted
from tuner.plan import NicPlan, candidates

__all__ = ["diff", "drifted", "lines"]


def lines(wanted: NicWanted, seen: NicQos) -> tuple[list[str], list[str]]:
    """One NIC in two texts: as it is, and as it is wanted; one line for each thing that is wanted of it."""
    steps = sorted(candidates(wanted, seen), key=lambda step: step.label)
    now = [f"{wanted.rail} {seen.name} {step.label} {step.before}" for step in steps]
    then = [f"{wanted.rail} {seen.name} {step.label} {step.after}" for step in steps]
    return now, then


def diff(wanted: HostWanted, seen: HostQos) -> str:
    """A unified diff from what the host is to what fabric.yaml says; empty where they agree."""
    now: list[str] = []
    then: list[str] = []
    for one in wanted.nics:
        nic = seen.nic(one.rail) or seen.nic(one.nic)
        if nic is None or nic.dcb is None:
            continue  # it is elsewhere, or nowhere: the plan says which
        has, wants = lines(one, nic)
        now, then = now + has, then + wants
    return "\n".join(_unified(now, then, f"{seen.node} (now)", f"{wanted.node} (fabric.yaml)"))


def _unified(now: Sequence[str], then: Sequence[str], one: str, other: str) -> Iterable[str]:
    return difflib.unified_diff(now, then, one, other, lineterm="", n=1)


def drifted(plans: Iterable[NicPlan]) -> bool:
    """Whether something is to be done or is blocked. A rail that a pod has is judged by what can be seen of it."""
    return any(plan.steps or plan.blocked for plan in plans)
