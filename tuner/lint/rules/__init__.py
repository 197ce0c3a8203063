"""The rules, one family per module."""

from __future__ import annotations

from tuner.lint.rule import Rule
from tuner.lint.rules import (
    between_switches,
    cable_classes,
    cabling,
    host_agents,
    host_machine,
    nic_classes,
    nic_congestion,
    peers,
    reading,
    run_time,
    switch_buffers,
    switch_maps,
    switch_queues,
)

__all__ = ["RULES", "by_id"]

_FAMILIES = (
    nic_classes, nic_congestion, host_agents, host_machine, peers, cable_classes, cabling, switch_maps, switch_buffers,
    switch_queues, between_switches, run_time, reading,
)  # fmt: skip

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (rule for family in _FAMILIES for rule in family.RULES), key=lambda rule: ("HXLSTR".index(rule.id[0]), rule.id)
    )
)
"""All, in the order H, X, L, S, T, R."""


def by_id(id: str) -> Rule:
    """One rule. KeyError for an id that there is not."""
    return {rule.id: rule for rule in RULES}[id]
