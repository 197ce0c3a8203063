"""Steps as values: text, journal, undo."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni.steps import (
    AddAddress,
    AddRoute,
    AddRule,
    Bring,
    CreateLink,
    DeleteGroup,
    DeleteRule,
    HostNic,
    MoveLink,
    RestoreLink,
    SetConf,
    SetSysctl,
    Step,
    dump,
    load,
    undo,
)

TEXT = st.text(max_size=15)
NUMBER = st.integers(0, 2**32 - 1)
PAIRS = st.lists(st.tuples(TEXT, NUMBER), max_size=4).map(tuple)
NICS = st.builds(
    HostNic,
    ifindex=NUMBER,
    name=TEXT,
    kind=TEXT,
    pci=TEXT,
    permanent_mac=TEXT,
    mac=TEXT,
    mtu=NUMBER,
    up=st.booleans(),
    altnames=st.lists(TEXT, max_size=3).map(tuple),
    addresses=st.lists(TEXT, max_size=3).map(tuple),
    conf4=PAIRS,
)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(CreateLink, TEXT, TEXT, TEXT, NUMBER, NUMBER, TEXT, NUMBER),
    st.builds(MoveLink, TEXT, NICS),
    st.builds(RestoreLink, TEXT, NICS),
    st.builds(SetConf, TEXT, NUMBER, TEXT, PAIRS),
    st.builds(SetSysctl, TEXT, TEXT, TEXT, TEXT),
    st.builds(AddAddress, TEXT, TEXT),
    st.builds(Bring, TEXT),
    st.builds(AddRoute, TEXT, TEXT, TEXT, NUMBER, TEXT),
    st.builds(AddRule, TEXT, NUMBER, NUMBER),
    st.builds(DeleteRule, TEXT, NUMBER, NUMBER),
    st.builds(DeleteGroup, NUMBER),
)
PLANS = st.lists(STEPS, max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=11),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)


@given(PLANS)
def test_a_journal_gives_back_the_steps_that_were_written(steps: list[Step]) -> None:
    assert load(json.loads(json.dumps(dump(steps)))) == tuple(steps)


@given(JSON)
def test_any_other_json_is_a_damaged_journal(value: Any) -> None:
    try:
        steps = load(value)
    except ValueError:
        return
    assert json.loads(json.dumps(dump(steps))) == list(value)


@given(PLANS.filter(bool), st.data())
def test_a_journal_damaged_in_one_field_is_not_taken_for_sound(steps: list[Step], data: st.DataObject) -> None:
    values = json.loads(json.dumps(dump(steps)))
    step = data.draw(st.sampled_from(values))
    place = data.draw(st.integers(0, len(step) - 1))
    step[place] = data.draw(st.sampled_from([None, 1.5, {"a": 1}, [], "x", 7]).filter(lambda new: new != step[place]))
    try:
        loaded = load(values)
    except ValueError:
        return
    assert [type(each) for each in loaded] == [type(each) for each in steps]
    for before, after in zip(steps, loaded, strict=True):
        assert [type(field) for field in before] == [type(field) for field in after]


@given(PLANS)
def test_undo_is_of_undo_steps_only_and_takes_every_rule_nic_and_group_back_once(steps: list[Step]) -> None:
    back = undo(steps, netns_alive=True)
    assert all(isinstance(step, DeleteRule | RestoreLink | DeleteGroup) for step in back)
    assert [step[:] for step in back if isinstance(step, DeleteRule)] == [
        step[:] for step in reversed(steps) if isinstance(step, AddRule)
    ]
    assert [step[:] for step in back if isinstance(step, RestoreLink)] == [
        step[:] for step in reversed(steps) if isinstance(step, MoveLink)
    ]
    groups = [step.group for step in back if isinstance(step, DeleteGroup)]
    assert set(groups) == {step.group for step in steps if isinstance(step, CreateLink)}
    assert len(groups) == len(set(groups))


@given(PLANS)
def test_with_the_namespace_gone_only_nics_are_restored(steps: list[Step]) -> None:
    alive, gone = undo(steps, netns_alive=True), undo(steps, netns_alive=False)
    assert gone == tuple(step for step in alive if isinstance(step, RestoreLink))


@given(PLANS)
def test_undo_needs_nothing_that_is_not_in_the_journal(steps: list[Step]) -> None:
    assert undo(load(json.loads(json.dumps(dump(steps)))), netns_alive=True) == undo(steps, netns_alive=True)


NIC = HostNic(7, "eth2", "", "0000:18:00.0", "04:00:00:00:00:07", "02:00:00:00:00:07", 9000, True, (), (), ())


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (DeleteRule("10.0.0.2/32", 1000, 1001), "delete rule 1001 from 10.0.0.2/32 lookup 1000"),
        (DeleteGroup(0x40000001), "delete the links of group 0x40000001"),
        (RestoreLink("rail0", NIC), "return rail0 to the host as eth2 (0000:18:00.0)"),
        (RestoreLink("rail0", NIC._replace(pci="")), "return rail0 to the host as eth2"),
        (AddRoute("rail0", "10.0.0.0/8", "", 254, ""), "route 10.0.0.0/8 dev rail0 table 254"),
    ],
)
def test_the_text_of_what_no_plan_shows(step: Step, text: str) -> None:
    assert str(step) == text
