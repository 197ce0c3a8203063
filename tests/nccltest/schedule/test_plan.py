"""Plans: groups never collide, pairs do not repeat, the budget holds whatever is asked for."""

from __future__ import annotations

import time
from collections import Counter
from itertools import combinations
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccltest.locate.cabling import Cabling
from nccltest.model import Measurement, measurement_from_json
from nccltest.schedule import Past, Plan, Policy, Round, Suspicion, Timing, group_seconds, make_plan, past_of
from nccltest.schedule.cost import round_seconds
from nccltest.schedule.plan import PURPOSES
from tests.nccltest.schedule.clusters import cabling, names, timing

ALWAYS = 1e6


def plan(count: int, purposes: tuple[str, ...], **changes: Any) -> Plan:
    policy = {"matchings": 2, "rails": "side-by-side", "budget": ALWAYS, **changes.pop("policy", {})}
    made = Policy(purposes=cast(Any, purposes), **policy)
    arguments = {"timing": timing(), "seed": "s", **changes}
    return make_plan(names(count), arguments.pop("cabling", cabling(count)), made, **arguments)


def pairs(one: Round) -> list[frozenset[str]]:
    return [frozenset(group.nodes) for group in one.groups]


@given(
    st.integers(0, 23),
    st.lists(st.sampled_from(PURPOSES), unique=True, max_size=7),
    st.sampled_from(["together", "side-by-side", "one-by-one"]),
    st.integers(0, 3),
    st.lists(
        st.sampled_from([("node", "n0001"), ("nic", "n0002/rail1"), ("uplink", "leaf-rail0-0"), ("global", "all")])
    ),
)
@settings(deadline=None)
def test_groups_of_a_round_never_share_a_nic(
    count: int, purposes: list[str], mode: str, rails: int, suspects: list[tuple[str, str]]
) -> None:
    made = plan(
        count,
        tuple(purposes),
        policy={"rails": mode},
        cabling=cabling(count, rails),
        suspects=[Suspicion(*each) for each in suspects],
    )
    for one in made.rounds:
        assert one.groups
        used = Counter((member.node, member.rail) for group in one.groups for member in group.members)
        assert set(used.values()) == {1}
        together = {node for node, rail in used if rail is None}
        assert not together & {node for node, rail in used if rail is not None}
        assert all(len(group.members) > 1 for group in one.groups)


@given(
    st.integers(2, 20),
    st.floats(1, 300),
    st.floats(0, 500),
    st.dictionaries(st.sampled_from(names(20)), st.floats(0, 400)),
    st.sampled_from(["together", "side-by-side", "one-by-one"]),
    st.integers(1, 5),
)
@settings(deadline=None)
def test_no_node_is_planned_for_more_than_its_budget(
    count: int, seconds: float, budget: float, spent: dict[str, float], mode: str, matchings: int
) -> None:
    made = plan(
        count,
        PURPOSES,
        policy={"budget": budget, "rails": mode, "matchings": matchings},
        timing=timing(seconds),
        past=Past(spent=spent),
        suspects=[Suspicion("node", "n0001")],
    )
    planned: Counter[str] = Counter()
    for one in made.rounds:
        for node in one.nodes:
            planned[node] += round_seconds(one, timing(seconds))  # type: ignore[assignment]  # a Counter of floats
    for node, total in planned.items():
        assert total + spent.get(node, 0) <= budget + 1e-6
    assert made.cost.busiest_seconds == pytest.approx(max(planned.values(), default=0))


def test_what_the_budget_leaves_out_is_told() -> None:
    made = plan(8, ("random",), policy={"budget": 15.0})
    assert len(made.rounds) == 1
    assert made.dropped == ("random: 8 of 8 groups are over the budget",)
    partly = plan(8, ("random",), policy={"budget": 15.0, "matchings": 1}, past=Past(spent={"n0003": 10.0}))
    assert len(partly.rounds[0].groups) == 6
    assert partly.dropped == ("random: 2 of 8 groups are over the budget",)


@pytest.mark.parametrize("count", [2, 4, 8, 9, 16])
def test_day_after_day_everybody_meets_everybody_before_anyone_meets_again(count: int) -> None:
    past = Past()
    met: Counter[frozenset[str]] = Counter()
    idle: Counter[str] = Counter()
    days = count - 1 if count % 2 == 0 else count
    for day in range(days):
        (one,) = plan(
            count, ("random",), past=past, seed=f"day {day}", policy={"matchings": 1, "rails": "together"}
        ).rounds
        met.update(pairs(one))
        idle.update(set(names(count)) - one.nodes)
        past = Past(met=dict(met), idle=dict(idle))
    if count % 2 == 0:
        assert len(met) == count * (count - 1) // 2
        assert set(met.values()) == {1}
    else:
        # Who stays out changes the seating, so a few meet twice; everybody stayed out once.
        assert set(idle.values()) == {1}
        assert max(met.values()) <= 3


def test_one_plan_repeats_no_pair_while_there_are_others_whatever_met_before() -> None:
    day = {frozenset((f"n{one:04}", f"n{other:04}")): 1 for one, other in combinations(range(4), 2)}
    first = plan(4, ("random",), policy={"matchings": 1, "rails": "together"}).rounds[0]
    for seed in range(20):
        lately = Past(met=day | {pair: 9 for pair in day if pair not in pairs(first)})
        made = plan(4, ("random",), past=lately, seed=str(seed), policy={"matchings": 3, "rails": "together"})
        assert len({pair for one in made.rounds for pair in pairs(one)}) == 6


def test_matchings_are_random_not_neighbours() -> None:
    drawn = {frozenset(pairs(plan(8, ("random",), seed=str(seed)).rounds[0])) for seed in range(40)}
    assert len(drawn) == 7  # the seven rounds of the tournament


def test_same_leaf_pairs_share_a_leaf_and_cross_leaf_pairs_do_not() -> None:
    count = 16
    leaf = {node: number // 4 for number, node in enumerate(names(count))}
    same = plan(count, ("same-leaf",)).rounds
    cross = plan(count, ("cross-leaf",)).rounds
    assert len(same) == len(cross) == 2
    for rounds, equal in ((same, True), (cross, False)):
        for one in rounds:
            assert len(one.nodes) == count
            for group in one.groups:
                assert (leaf[group.nodes[0]] == leaf[group.nodes[1]]) == equal
    assert not set(pairs(same[0])) & set(pairs(same[1]))


def test_without_cabling_there_are_no_leaves_to_choose_by() -> None:
    bare = Cabling({}, rails=("rail0",))
    assert plan(8, ("same-leaf", "cross-leaf"), cabling=bare).rounds == ()
    assert len(plan(8, ("random",), cabling=bare).rounds) == 2


def test_cross_leaf_pairs_use_a_lopsided_fabric_as_far_as_it_goes() -> None:
    lopsided = Cabling(
        {(node, "rail0"): "big" if place < 6 else "small" for place, node in enumerate(names(8))}, rails=("rail0",)
    )
    for one in plan(8, ("cross-leaf",), cabling=lopsided).rounds:
        assert len(one.groups) == 2


@pytest.mark.parametrize(
    ("mode", "rounds", "groups"), [("together", 1, 1), ("side-by-side", 1, 2), ("one-by-one", 2, 1)]
)
def test_rails_are_measured_as_asked(mode: str, rounds: int, groups: int) -> None:
    made = plan(4, ("whole",), policy={"rails": mode}).rounds
    assert [len(one.groups) for one in made] == [groups] * rounds
    assert {group.rail for one in made for group in one.groups} == (
        {None} if mode == "together" else {"rail0", "rail1"}
    )
    assert {group.kind for one in made for group in one.groups} == {"whole"}


@pytest.mark.parametrize("count", [2, 3, 7, 8, 33])
def test_bisection_spells_the_number_of_one_faulty_node(count: int) -> None:
    rounds = plan(count, ("bisect",), policy={"rails": "together"}).rounds
    assert len(rounds) <= (count - 1).bit_length()
    signature = {
        node: tuple(
            next((place for place, group in enumerate(one.groups) if node in group.nodes), -1) for one in rounds
        )
        for node in names(count)
    }
    if count > 3:
        assert len(set(signature.values())) == count
    assert {group.kind for one in rounds for group in one.groups} <= {"half"}


def test_suspects_are_followed_up_with_others_that_nobody_suspects() -> None:
    suspects = [Suspicion("node", "n0001"), Suspicion("nic", "n0002/rail1"), Suspicion("uplink", "leaf-rail0-1")]
    made = plan(16, ("follow-up",), suspects=suspects, policy={"rails": "one-by-one"}).rounds
    accused = {"n0001", "n0002", "n0004", "n0005"}
    partners: dict[str, list[str]] = {}
    for one in made:
        for group in one.groups:
            (suspect,) = accused & set(group.nodes)
            (partner,) = set(group.nodes) - accused
            partners.setdefault(f"{suspect}/{group.rail}", []).append(partner)
    assert all(len(set(each)) == 3 for each in partners.values())
    assert "n0002/rail0" not in partners  # a NIC is followed up on its own rail alone


def test_the_past_is_read_from_measurements() -> None:
    def measured(
        day: int, number: int, group: tuple[str, ...], size: int = 8, at: float = 0.0, purpose: str = "random"
    ) -> Measurement:
        document = {"test": "t", "size": size, "members": [{"node": node} for node in group], "busbw": 1.0}
        extra = {"schedule": str(day), "round": number, "kind": "pair", "seconds": 20.0, "time": at, "purpose": purpose}
        return measurement_from_json({**document, **extra})

    now = 1e6
    told = [
        measured(1, 0, ("a", "b"), at=now - 90_000),
        measured(2, 0, ("a", "b"), at=now - 50),
        measured(2, 0, ("a", "b"), size=16, at=now - 50),  # another size of the same run
        measured(2, 0, ("c", "d"), at=now - 50),
        measured(2, 1, ("a", "c"), at=now - 20),
        measured(2, 2, ("a", "c"), at=now - 10, purpose="confirm"),  # costs, and is no new meeting
    ]
    past = past_of(told, now)
    assert past.met == {frozenset("ab"): 2, frozenset("cd"): 1, frozenset("ac"): 1}
    assert past.spent == {"a": 60.0, "b": 20.0, "c": 60.0, "d": 20.0}
    assert past.idle == {"c": 1, "d": 2, "b": 1}


def test_a_plan_is_the_same_for_the_same_seed() -> None:
    assert plan(16, PURPOSES, seed="1") == plan(16, PURPOSES, seed="1")
    assert plan(16, ("random",), seed="1") != plan(16, ("random",), seed="2")


def test_seconds_follow_from_size_rate_and_ranks() -> None:
    # 8 GiB between 2 nodes puts 8.59 GB on a 50 GB/s NIC at 80 %: 0.215 s; 25 iterations of both halves.
    exact = Timing((8 << 30,), 3, 5, 20, 50.0, 8, 10.0, 600.0, 8)
    (one,) = plan(2, ("whole",), cabling=cabling(2, 1)).rounds
    assert group_seconds(one.groups[0], exact) == pytest.approx(3 * (10 + 50 * (8 << 30) / 40e9))
    assert group_seconds(one.groups[0], exact._replace(timeout=20.0)) == 20.0


def test_four_thousand_nodes_are_planned_in_seconds() -> None:
    start = time.process_time()
    made = plan(4096, ("random", "cross-leaf", "same-leaf", "whole", "bisect"), cabling=cabling(4096, 8, 64))
    assert time.process_time() - start < 20
    assert made.cost.rounds == 2 * 3 + 1 + 12


def test_all_pairs_of_a_matching_are_pairs() -> None:
    for one in plan(10, ("random",)).rounds:
        assert {group.kind for group in one.groups} == {"pair"}
        assert all(not (a & b) for a, b in combinations(set(pairs(one)), 2))
