"""What probes show: counting, judging, and what the other end may claim."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.qos import Qos
from tuner import prove
from tuner.nic import Counters
from tuner.prove import BACK, OUT, Marking, Plan, Seen
from tuner.prove_report import SwitchPort, counter_changes, findings, hint, to_json
from tuner.switch.model import Counters as PortCounters
from tuner.switch.model import QueueCounters

RUN = b"run-0001"
ROCE, CNP = Marking(26, 2), Marking(48, 0)
PLAN = Plan(RUN, (ROCE, CNP), count=10)


def seen(sent: Marking, arrived: Marking, numbers: range, way: int = OUT, run: bytes = RUN) -> list[Seen]:
    return [Seen(run, way, sent, number, arrived) for number in numbers]


def test_every_probe_back_as_it_was_sent_is_ok() -> None:
    counts = prove.tally(seen(ROCE, ROCE, range(10)) + seen(CNP, CNP, range(10)), RUN, OUT)
    assert [result.verdict for result in prove.judge(PLAN, OUT, counts)] == ["ok", "ok"]


def test_other_runs_other_directions_and_repetitions_do_not_count() -> None:
    caught = (
        seen(ROCE, ROCE, range(4)) * 3 + seen(ROCE, ROCE, range(9), BACK) + seen(ROCE, ROCE, range(9), run=b"x" * 8)
    )
    (result, _) = prove.judge(PLAN, OUT, prove.tally(caught, RUN, OUT))
    assert (result.arrived, result.lost, result.verdict) == (4, 6, "lost")


def test_ce_on_an_ecn_capable_probe_is_congestion_and_on_another_it_is_a_rewrite() -> None:
    ce = Marking(26, 3)
    roce, _ = prove.judge(PLAN, OUT, prove.tally(seen(ROCE, ce, range(10)), RUN, OUT))
    assert (roce.verdict, roce.congested) == ("ok", 10)
    plain = Plan(RUN, (Marking(26, 0),), count=10)
    (rewritten,) = prove.judge(plain, OUT, prove.tally(seen(Marking(26, 0), ce, range(10)), RUN, OUT))
    assert (rewritten.verdict, rewritten.remarked) == ("re-marked", ((ce, 10),))


def test_a_lost_ect_is_a_rewrite_and_the_hint_says_what_it_breaks() -> None:
    (roce, _) = prove.judge(PLAN, OUT, prove.tally(seen(ROCE, Marking(26, 0), range(10)), RUN, OUT))
    assert roce.verdict == "re-marked"
    assert "congestion control is blind" in hint(roce)


def test_a_rewritten_dscp_names_the_rule() -> None:
    (roce, cnp) = prove.judge(PLAN, BACK, prove.tally(seen(ROCE, Marking(0, 2), range(10), BACK), RUN, BACK))
    assert hint(roce) == "a switch rewrites DSCP 26 to 0 (lint: L10)"
    assert (cnp.verdict, "nothing arrives" in hint(cnp)) == ("dropped", True)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 63), st.integers(0, 3)), max_size=60))
def test_what_arrived_and_what_was_lost_add_up(caught: list[tuple[int, int, int, int]]) -> None:
    frames = [Seen(RUN, OUT, (ROCE, CNP)[at], number, Marking(dscp, ecn)) for at, number, dscp, ecn in caught]
    for result in prove.judge(PLAN, OUT, prove.tally(frames, RUN, OUT)):
        kept = result.arrived - result.congested - sum(count for _, count in result.remarked)
        assert 0 <= kept <= result.arrived <= result.sent == result.arrived + result.lost


def test_plan_and_tally_survive_the_conversation() -> None:
    assert prove.plan_from_json(PLAN.json()) == PLAN
    counts = prove.tally(seen(ROCE, Marking(0, 1), range(3)), RUN, OUT)
    assert prove.tally_from_json(prove.tally_to_json(counts)) == counts


json_values: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=5), inner, max_size=5)),
    max_leaves=10,
)


@given(value=json_values, field=st.sampled_from([*PLAN.json()]))
def test_any_plan_of_the_other_end_is_one_or_is_refused(value: Any, field: str) -> None:
    for bad in (value, {**PLAN.json(), field: value}):
        try:
            plan = prove.plan_from_json(bad)
        except ValueError:
            continue
        assert plan.seconds <= prove.LONGEST


@given(value=json_values)
def test_any_count_of_the_other_end_is_one_or_is_refused(value: Any) -> None:
    for bad in (value, [value], [[26, 2, 26, 2, value]]):
        try:
            prove.tally_from_json(bad)
        except ValueError:
            continue


def test_a_plan_that_lasts_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 45 s"):
        prove.plan_from_json({**PLAN.json(), "count": 100_000, "rate": 100})


def test_the_markings_of_interest_are_the_fabrics() -> None:
    qos = Qos.model_validate({"lossless": {"dscp": 24}, "cnp": {"dscp": 56}})
    found = prove.markings(qos)
    assert {marking.dscp for marking in found} == {24, 56, 0}
    assert {marking.ecn for marking in found} == {0, 2, 3}
    assert len(found) == 9


def test_counters_that_moved_are_shown_by_priority() -> None:
    zero = (0,) * 8
    before = Counters(rx_packets=zero, tx_packets=(5,) * 8, rx_pause=None)
    after = Counters(rx_packets=(0, 0, 0, 30, 0, 0, 10, 0), tx_packets=(5,) * 8, rx_pause=(1,) * 8)
    assert counter_changes(before, after) == {"rx_packets": {3: 30, 6: 10}}
    assert counter_changes(None, after) == {}


def test_the_switchs_counters_stand_beside_the_hosts() -> None:
    before = PortCounters(pfc_rx={3: 5}, queues={3: QueueCounters(packets=100, ecn_marked=1)})
    after = PortCounters(pfc_rx={3: 9}, queues={3: QueueCounters(packets=130, ecn_marked=1)})
    counts = prove.tally(seen(ROCE, ROCE, range(10)), RUN, OUT)
    port = SwitchPort("leaf-r0 Ethernet0", before, after)
    found = findings(PLAN, (counts, {}), (0, 2), (None, None), (None, None), port)
    told = to_json(found)
    assert told["counters"]["switch"] == {"port": "leaf-r0 Ethernet0", "pfc_rx": {3: 4}, "queue_packets": {3: 30}}
    assert told["missed_by_host"] == {"listener": 0, "sender": 2}
    assert not told["ok"]
    assert [row["verdict"] for row in told["results"]] == ["ok", "dropped", "dropped", "dropped"]
