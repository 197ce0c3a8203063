"""Which rail a difference speaks of."""

from __future__ import annotations

from cni.agent.drift import by_rail, rails_of
from cni.steps import AddAddress, AddRule, Bring

STEPS = (AddAddress("rail0", "10.200.0.2/24"), Bring("rail1"), AddRule("10.200.0.2/32", 1000, 1000))


def test_a_rule_belongs_to_the_rail_of_its_address() -> None:
    lines = [
        "rail0: address: wanted 10.200.0.2/24, got none",
        "rule: wanted from 10.200.0.2/32 lookup 1000 priority 1000, got none",
        "rail1: link: wanted up, got down",
    ]
    assert by_rail(lines, STEPS) == {"rail0": lines[:2], "rail1": lines[2:]}


def test_what_speaks_of_no_rail_becomes_no_metric_label() -> None:
    lines = ["the rails were attached to another namespace (/run/netns/x)", "rule: wanted from 192.0.2.1 lookup 1"]
    assert rails_of(lines, STEPS) == frozenset()
