"""Plans as triples of text in tests/golden/plan: what is wanted, what is seen, what will be done or is impossible.

A rail's addresses are the first free ones of its ranges. After a wanted change: write the new plan into the file and
look at the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cni.decision import decide
from cni.ipam import next_free, pools
from cni.netconf import NetConf, Rail
from cni.plan import VF_STATE, Lease, plan, problems
from cni.selection import ANNOTATION, CAPABILITY
from cni.steps import AddAddress, AddRoute, AddRule, Bring, CreateLink, MoveLink, SetConf, SetSysctl, Step
from host.inet import unpack
from host.sriov import VfState
from tests.cni.hosts import view
from tests.cni.netconfs import parsed

GOLDEN = Path(__file__).parent.parent / "golden" / "plan"
FILES = sorted(path.stem for path in GOLDEN.glob("*.txt"))
GROUP = 0x4ABCDEF0
TAKEN = frozenset({"lo", "eth0"})


def sections(text: str) -> dict[str, str]:
    """``== name`` and what follows."""
    parts = text.split("== ")[1:]
    return {head: body.strip() for head, _, body in (part.partition("\n") for part in parts)}


def configuration(parts: dict[str, str]) -> NetConf:
    rails = [json.loads(line) for line in parts["wanted"].splitlines()]
    asked = {CAPABILITY: {ANNOTATION: parts.get("attach", "all")}}
    routing = json.loads(parts.get("routing", '{"tableBase": 1000}'))
    return parsed({"name": "pods", "rails": rails, "routing": routing, "runtimeConfig": asked})


def leases(rail: Rail) -> list[Lease]:
    found = []
    for pool in pools(rail.ranges):
        address = next_free(pool.free, None, lambda low, high: ())
        assert address is not None
        each = pool.range_of(address)
        size = 4 if pool.family == 4 else 16
        gateway = unpack(each.gateway.to_bytes(size, "big")) if each.gateway is not None else ""
        prefix = f"{unpack(address.to_bytes(size, 'big'))}/{each.prefix_length}"
        found.append(Lease(rail.name, prefix, each.subnet, gateway))
    return found


def steps_of(parts: dict[str, str]) -> tuple[Step, ...]:
    conf, host = configuration(parts), view(parts["seen"])
    rails = decide(conf, (), dict).rails
    numbers = {rail.name: number for number, rail in enumerate(conf.rails)}
    taken = {rail.name: leases(rail) for rail in rails}
    return plan(rails, host, taken, group=GROUP, table_base=conf.table_base, numbers=numbers)


def outcome(parts: dict[str, str]) -> str:
    """The plan as text, or why there is none."""
    rails = decide(configuration(parts), (), dict).rails
    found = problems(rails, view(parts["seen"]), TAKEN)
    if found:
        return "\n".join(f"! {finding}" for finding in found)
    return "\n".join(map(str, steps_of(parts)))


@pytest.mark.parametrize("name", FILES)
def test_the_plan_is_the_golden_one(name: str) -> None:
    parts = sections((GOLDEN / f"{name}.txt").read_text())
    assert outcome(parts) == parts["plan"]


@pytest.mark.parametrize("name", [name for name in FILES if name != "impossible"])
def test_the_order_is_the_kernels(name: str) -> None:
    """A link before what it carries, settings before up, addresses before up, routes after up."""
    steps = steps_of(sections((GOLDEN / f"{name}.txt").read_text()))
    for rail in {step.rail for step in steps if isinstance(step, Bring)}:
        own = [step for step in steps if getattr(step, "rail", "") == rail]
        order = [type(step) for step in own]
        assert order[0] in (CreateLink, MoveLink)
        up = order.index(Bring)
        assert all(kind in (SetConf, SetSysctl, AddAddress) for kind in order[1:up])
        assert all(kind is AddRoute for kind in order[up + 1 :])
    assert sum(isinstance(step, AddRule) for step in steps) in (0, sum(isinstance(step, AddAddress) for step in steps))


def test_the_fields_of_a_vf_are_those_of_its_door() -> None:
    assert VfState._fields == VF_STATE
