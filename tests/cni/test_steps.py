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
    AwaitGid,
    BindVf,
    Bring,
    CreateLink,
    DeleteGroup,
    DeleteRule,
    HostNic,
    HostRdma,
    MoveLink,
    MoveRdma,
    ReleaseVf,
    RestoreDriver,
    RestoreLink,
    RestoreRdma,
    RestoreVf,
    SetConf,
    SetSysctl,
    SetVf,
    Step,
    UnbindVf,
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
RDMA = st.builds(HostRdma, NUMBER, TEXT, TEXT, TEXT, NUMBER)
VALUES = st.tuples(NUMBER, TEXT, NUMBER)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(SetVf, TEXT, TEXT, TEXT, NUMBER, VALUES, VALUES, TEXT),
    st.builds(UnbindVf, TEXT, TEXT, TEXT),
    st.builds(BindVf, TEXT, TEXT, TEXT, TEXT),
    st.builds(MoveRdma, TEXT, RDMA, TEXT),
    st.builds(AwaitGid, TEXT, TEXT, TEXT, st.booleans(), NUMBER),
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


UNDOING = DeleteRule | RestoreLink | DeleteGroup | RestoreRdma | RestoreVf | RestoreDriver | ReleaseVf


@given(PLANS)
def test_undo_is_of_undo_steps_only_and_takes_every_rule_nic_and_group_back_once(steps: list[Step]) -> None:
    back = undo(steps, netns_alive=True)
    assert all(isinstance(step, UNDOING) for step in back)
    assert [step.device for step in back if isinstance(step, RestoreRdma)] == [
        step.device for step in reversed(steps) if isinstance(step, MoveRdma)
    ]
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
def test_with_the_namespace_gone_only_what_is_the_hosts_is_restored(steps: list[Step]) -> None:
    alive, gone = undo(steps, netns_alive=True), undo(steps, netns_alive=False)
    assert gone == tuple(step for step in alive if not isinstance(step, DeleteRule | DeleteGroup))


NIC = HostNic(7, "eth2", "", "0000:18:00.0", "04:00:00:00:00:07", "02:00:00:00:00:07", 9000, True, (), (), ())
NO_MAC, MAC = (0, "00:00:00:00:00:00", 0), (0, "02:aa:00:00:00:01", 0)
UNBIND, BIND = UnbindVf("rail0", "0000:18:00.1", "mlx5_core"), BindVf("rail0", "0000:18:00.1", "mlx5_core", "mlx5_4")


def told(seen: tuple[object, ...], wanted: tuple[object, ...]) -> SetVf:
    return SetVf("rail0", "0000:18:00.1", "0000:18:00.0", 0, seen, wanted, "02:00:00:00:00:07")


def test_a_node_guid_goes_with_the_mac_that_it_was_made_of() -> None:
    """The VF leaves the pod before its VLAN is taken, and its driver finds the PF's old word when it is bound."""
    word, move = told(NO_MAC, MAC), MoveLink("rail0", NIC)
    rdma = MoveRdma("rail0", HostRdma(4, "mlx5_4", "0000:0000:0000:0000", "0000:18:00.1"), "mlx5_4")
    assert undo((word, UNBIND, BIND, move, rdma), netns_alive=True) == (
        ReleaseVf(*UNBIND),
        RestoreVf(*word),
        RestoreDriver(*BIND),
        RestoreRdma("rail0", rdma.device),
        RestoreLink("rail0", NIC),
        RestoreVf(*word),
    )


def test_with_the_mac_of_before_the_driver_stays_bound() -> None:
    word = told(MAC, MAC)
    assert undo((word, UNBIND, BIND), netns_alive=True) == (RestoreDriver(*BIND), RestoreVf(*word))


def test_a_journal_of_before_rdma_devices_had_addresses_is_sound() -> None:
    old = [["MoveRdma", "rail0", [4, "mlx5_4", "b8ce:f603:00d2:3b1a"], "mlx5_4"]]
    assert load(old) == (MoveRdma("rail0", HostRdma(4, "mlx5_4", "b8ce:f603:00d2:3b1a", ""), "mlx5_4"),)


@given(PLANS)
def test_undo_needs_nothing_that_is_not_in_the_journal(steps: list[Step]) -> None:
    assert undo(load(json.loads(json.dumps(dump(steps)))), netns_alive=True) == undo(steps, netns_alive=True)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (DeleteRule("10.0.0.2/32", 1000, 1001), "delete rule 1001 from 10.0.0.2/32 lookup 1000"),
        (DeleteGroup(0x40000001), "delete the links of group 0x40000001"),
        (RestoreLink("rail0", NIC), "return rail0 to the host as eth2 (0000:18:00.0)"),
        (RestoreLink("rail0", NIC._replace(pci="")), "return rail0 to the host as eth2"),
        (UNBIND, "unbind mlx5_core from 0000:18:00.1 for rail0"),
        (BIND, "bind mlx5_core to 0000:18:00.1 again for the node GUID of mlx5_4 (rail0)"),
        (ReleaseVf(*UNBIND), "unbind mlx5_core from 0000:18:00.1 (rail0), if it has got a node GUID"),
        (RestoreDriver(*BIND), "have mlx5_core on 0000:18:00.1 (rail0)"),
        (AddRoute("rail0", "10.0.0.0/8", "", 254, ""), "route 10.0.0.0/8 dev rail0 table 254"),
    ],
)
def test_the_text_of_what_no_plan_shows(step: Step, text: str) -> None:
    assert str(step) == text
