"""Plans as text and JSON, and the exit code that they make. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tuner.exits import DONE, FOUND, REFUSED
from tuner.plan import NicPlan
from tuner.steps import SetPfc, dump

__all__ = ["code_of", "notes", "plans_json", "plans_text"]


def code_of(plans: Iterable[NicPlan]) -> int:
    """3 where somebody else must act first, 1 where there is something to do, else 0."""
    plans = tuple(plans)
    if any(plan.blocked for plan in plans):
        return REFUSED
    return FOUND if any(plan.steps for plan in plans) else DONE


def notes(plan: NicPlan) -> list[str]:
    """What is to be said of a NIC besides its steps."""
    said = [f"blocked: {sentence}" for sentence in plan.blocked]
    said += [f"skipped: {plan.skipped}"] if plan.skipped else []
    return said + [f"not shown: {sentence}" for sentence in plan.unseen]


def plans_text(plans: Sequence[NicPlan]) -> str:
    """One block per rail."""
    lines: list[str] = []
    for plan in plans:
        state = f"{len(plan.steps)} step{'s' * (len(plan.steps) != 1)}" if plan.steps else "as wanted"
        if plan.blocked or plan.skipped:
            state = "blocked" if plan.blocked else "skipped"
        lines.append(f"{plan.rail} ({plan.nic}): {state}")
        lines += [f"  {step}" for step in plan.steps]
        lines += [f"  {sentence}" for sentence in notes(plan)]
    return "\n".join(lines)


def plans_json(plans: Iterable[NicPlan]) -> dict[str, Any]:
    """For machines: ``{"rails": [{"rail", "nic", "steps", "text", "drops_link", "blocked", "skipped", "unseen"}]}``."""
    return {
        "rails": [
            {
                "rail": plan.rail,
                "nic": plan.nic,
                "steps": dump(plan.steps),
                "text": [str(step) for step in plan.steps],
                "drops_link": any(isinstance(step, SetPfc) and step.toggles for step in plan.steps),
                "blocked": list(plan.blocked),
                "skipped": plan.skipped,
                "unseen": list(plan.unseen),
            }
            for plan in plans
        ]
    }
