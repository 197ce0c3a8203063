"""Which nodes measure with which, and what it costs. Pure: values in, a plan out; the same seed, the same plan."""

from nccltest.schedule.cost import Cost, Timing, cost_of, group_seconds
from nccltest.schedule.past import Past, past_of
from nccltest.schedule.plan import Plan, Policy, Suspicion, make_plan
from nccltest.schedule.rounds import Group, RailMode, Round

__all__ = [
    "Cost",
    "Group",
    "Past",
    "Plan",
    "Policy",
    "RailMode",
    "Round",
    "Suspicion",
    "Timing",
    "cost_of",
    "group_seconds",
    "make_plan",
    "past_of",
]
