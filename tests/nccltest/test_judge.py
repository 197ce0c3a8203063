"""Against its past: what is a regression, what is noise, and what is neither."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.fabric import load
from nccltest.__main__ import PROBE
from nccltest.baseline import ENOUGH, baseline
from nccltest.conclude import conclude, line_rate
from nccltest.cusum import drift
from nccltest.detector import CONFIRMATIONS, confirmed, screened
from nccltest.expect import expected_busbw, wire_rate
from nccltest.fdr import outliers, survivors
from nccltest.figures import at_least, at_most
from nccltest.history import History
from nccltest.judge import judge, to_confirm
from nccltest.judge_sim import detection, drifts
from nccltest.judgement import Before, Judgement
from nccltest.launch.job import fabric_hash
from nccltest.model import Fingerprint, GroupKind, Measurement, Member, Outcome, write_measurements
from nccltest.remember import remember
from nccltest.series import Series, series_of
from tuner.cli import run

ROOT = Path(__file__).parents[2]
REFUTED = 1e-4


def group(
    busbw: float | None,
    *,
    nodes: int = 4,
    rail: str | None = "rail0",
    kind: GroupKind = "whole",
    status: Outcome = "ok",
    purpose: str = "whole",
    schedule: str = "now",
    size: int = 1 << 32,
) -> Measurement:
    members = tuple(Member(f"n{i}", rail) for i in range(nodes))
    return Measurement("all_reduce", size, members, busbw, status=status, kind=kind, purpose=purpose, schedule=schedule)


def past(level: float = 46.0, count: int = 30, sigma: float = 0.01) -> Before:
    values = (log(level) + np.random.default_rng(1).normal(0, sigma, count)).tolist()
    return Before(values, values)


def only(measurements: Sequence[Measurement], before: Before) -> Judgement:
    (made,) = judge(measurements, lambda _: before)
    return made


# one judgement


def test_as_usual_is_ok() -> None:
    made = only([group(45.8)], past())
    assert (made.status, made.suspected, made.confirmed) == ("ok", False, False)
    assert made.baseline == pytest.approx(46.0, rel=0.005)
    assert made.change_pct == pytest.approx(-0.4, abs=0.6)


def test_ten_percent_less_is_suspected_then_confirmed() -> None:
    first = only([group(41.0)], past())
    assert (first.status, first.suspected, first.confirmed) == ("regressed", True, False)
    again = [group(41.2, purpose="confirm") for _ in range(CONFIRMATIONS)]
    second = only([group(41.0), *again], past())
    assert (second.status, second.suspected, second.confirmed) == ("regressed", False, True)
    assert "5 runs" in second.reason


def test_the_runs_after_a_suspicion_clear_it_whatever_the_first_was() -> None:
    again = [group(46.1, purpose="confirm") for _ in range(CONFIRMATIONS)]
    made = only([group(30.0), *again], past())
    assert (made.status, made.suspected, made.confirmed) == ("ok", False, False)


def test_one_stray_confirmation_decides_nothing() -> None:
    again = [group(busbw, purpose="confirm") for busbw in (41.0, 41.1, 20.0, 46.2, 41.2)]
    assert only([group(41.0), *again], past()).confirmed
    again = [group(busbw, purpose="confirm") for busbw in (46.0, 46.1, 20.0, 46.2, 45.9)]
    assert not only([group(41.0), *again], past()).confirmed


def test_a_group_run_again_by_hand_is_judged_like_any_other() -> None:
    made = only([group(38.0, purpose="confirm")], past())
    assert (made.status, made.suspected) == ("regressed", True)


def test_what_was_measured_again_counts_once_for_locating() -> None:
    def pair(one: int, other: int, busbw: float, purpose: str = "random") -> Measurement:
        members = (Member(f"n{one}", "rail0"), Member(f"n{other}", "rail0"))
        return replace(group(busbw, kind="pair", purpose=purpose), members=members)

    pairs = [pair(i, j, 46.0 + (i + j) / 100) for i in range(8) for j in range(i)]
    stray = [replace(each, busbw=20.0) if each.members[0].node == "n3" else each for each in pairs]
    assert conclude(stray).verdict.suspects
    again = [replace(each, busbw=46.0, purpose="confirm") for each in stray if each.busbw == 20.0 for _ in range(5)]
    cleared = conclude([*stray, *again]).verdict
    assert (cleared.verdict, cleared.tested) == ("healthy", len(pairs))


def test_two_percent_is_no_loss_however_quiet_the_series() -> None:
    assert only([group(46 * 0.97)], past(sigma=0.001)).status == "ok"


def test_more_than_usual_is_improved() -> None:
    assert only([group(52.0)], past()).status == "improved"


def test_too_little_history_is_no_baseline() -> None:
    made = only([group(20.0)], past(count=ENOUGH - 1))
    assert (made.status, made.change_pct, made.z) == ("no-baseline", None, None)


@pytest.mark.parametrize("status", ["failed", "wrong-data", "incomplete", "timeout"])
def test_what_broke_is_told_as_what_it_is_and_never_as_slow(status: Outcome) -> None:
    made = only([group(10.0, status=status)], past())
    assert made.status == status
    assert (made.change_pct, made.z, made.suspected) == (None, None, False)


def test_one_rank_is_no_collective() -> None:
    assert only([group(0.0, nodes=1, kind="single")], past()).status == "not-collective"


def test_no_bandwidth_between_several_is_a_failure() -> None:
    assert only([group(0.0)], past()).status == "failed"


def test_what_the_operator_ended_is_not_judged() -> None:
    assert judge([group(None, status="interrupted")], lambda _: past()) == ()


def test_a_new_driver_begins_a_new_series() -> None:
    old = group(46.0)
    new = replace(old, fingerprint=Fingerprint(driver="mlx5_core 24.10"))
    assert series_of(old) != series_of(new)
    assert series_of(old) != series_of(replace(old, size=1 << 33))
    assert series_of(old) != series_of(group(46.0, rail="rail1"))
    assert series_of(old) != series_of(group(46.0, nodes=5))


def test_of_hundred_groups_the_slowest_by_chance_is_no_alarm() -> None:
    rng = np.random.default_rng(4)
    before = past(sigma=0.02, count=60)
    pairs = [
        replace(group(46 * exp(rng.normal(0, 0.02)), kind="pair"), members=(Member(f"a{i}"), Member(f"b{i}")))
        for i in range(300)
    ]
    made = judge(pairs, lambda _: before)
    assert not [each for each in made if each.status == "regressed"]
    pairs[7] = replace(pairs[7], busbw=38.0)
    (slow,) = [each for each in judge(pairs, lambda _: before) if each.status == "regressed"]
    assert slow.members == "a7,b7"
    (wanted,) = to_confirm([slow], pairs)
    assert wanted is pairs[7]


def test_without_history_peers_and_line_rate_judge() -> None:
    pairs = [replace(group(46.0 + i / 100, kind="pair"), members=(Member(f"a{i}"), Member(f"b{i}"))) for i in range(8)]
    pairs[3] = replace(pairs[3], busbw=40.0)
    made = judge(pairs, lambda _: Before())
    assert [each.status for each in made].count("regressed") == 1
    assert "like groups" in made[3].reason
    slow = judge([group(20.0)], lambda _: Before(), expected=lambda _: 50.0)[0]
    assert slow.status == "regressed"
    assert slow.of_line_pct == pytest.approx(40)
    assert judge([group(46.0)], lambda _: Before(), expected=lambda _: 50.0)[0].status == "no-baseline"


def peers(slow: float) -> list[Measurement]:
    """Eight pairs of a first day, one of them slow."""
    pairs = [replace(group(46.0 + i / 100, kind="pair"), members=(Member(f"a{i}"), Member(f"b{i}"))) for i in range(8)]
    return [*pairs[:3], replace(pairs[3], busbw=slow), *pairs[4:]]


def again(one: Measurement, busbw: float) -> list[Measurement]:
    return [replace(one, busbw=busbw, purpose="confirm") for _ in range(CONFIRMATIONS)]


@pytest.mark.parametrize("slow", [40.0, 20.0])
def test_without_history_too_what_looks_slow_is_run_again_and_that_decides(slow: float) -> None:
    pairs = peers(slow)
    told = judge(pairs, lambda _: Before(), expected=lambda _: 50.0)
    assert [each.suspected for each in told] == [index == 3 for index in range(8)]
    assert to_confirm(told, pairs) == (pairs[3],)
    cleared = judge([*pairs, *again(pairs[3], 46.0)], lambda _: Before(), expected=lambda _: 50.0)
    assert {(each.status, each.suspected, each.confirmed) for each in cleared} == {("no-baseline", False, False)}
    borne_out = judge([*pairs, *again(pairs[3], slow)], lambda _: Before(), expected=lambda _: 50.0)[3]
    assert (borne_out.status, borne_out.suspected, borne_out.confirmed) == ("regressed", False, True)
    assert "5 runs at once" in borne_out.reason


def test_where_all_is_below_line_rate_running_it_again_is_no_use() -> None:
    pairs = [replace(each, busbw=20.0) for each in peers(20.0)]
    made = judge(pairs, lambda _: Before(), expected=lambda _: 50.0)
    assert {(each.status, each.suspected) for each in made} == {("regressed", False)}


def test_a_slower_path_is_learnt_and_not_called_slow_for_ever(tmp_path: Path) -> None:
    """Six of eight pairs at one level and two ten percent below: nobody knows yet that it is usual."""
    with History.open(tmp_path / "h.db") as history:
        for day in range(4):
            pairs = [replace(one, schedule=f"day-{day}") for one in peers(41.5)]
            pairs[5] = replace(pairs[5], busbw=41.6)
            conclusion = conclude(pairs, history=history)
            remember(conclusion, history)
        assert not [each for each in conclusion.judgements if each.status == "regressed"]


def test_what_is_below_line_rate_from_the_first_day_on_never_becomes_usual() -> None:
    def told(one: Measurement) -> bool:
        return judge([one], lambda _: Before(), expected=lambda _: 50.0)[0].unusual

    assert told(group(20.0))
    assert told(group(20.0, kind="pair"))
    assert not told(group(46.0))


FABRIC = """\
apiVersion: roceway/v1
kind: Fabric
metadata: {name: lab}
rails: [{name: rail0, subnet: 10.10.0.0/16, nodeBlock: 28}]
nodeTypes:
  new: {speed: 400G, mode: macvlan, rails: {rail0: p0}}
  old: {speed: 200G, mode: macvlan, rails: {rail0: p0}}
nodes: [{match: "n[0-3]", type: new}, {match: "n[4-7]", type: TYPE, firstIndex: 8}]
switches:
  - {name: leaf-0, platform: sonic, role: leaf, ports: {"p[0-1]": "n[0-1]/rail0", "p[2-3]": "n[4-5]/rail0"}}
  - {name: leaf-1, platform: sonic, role: leaf, ports: {"p[0-1]": "n[2-3]/rail0", "p[2-3]": "n[6-7]/rail0"}}
"""


def paths(tmp_path: Path, type_: str) -> list[str]:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC.replace("TYPE", type_))
    ends = [("n0", "n1"), ("n0", "n2"), ("n4", "n5"), ("n4", "n6"), ("n0", "n9")]
    pairs = [
        replace(group(46.0, kind="pair"), members=(Member(one, "rail0"), Member(other, "rail0"))) for one, other in ends
    ]
    return [each.series.group for each in conclude(pairs, fabric=load(path)).judgements]


def test_paths_within_a_leaf_and_across_leaves_have_series_of_their_own(tmp_path: Path) -> None:
    within, across = "pair, same leaf", "pair, across leaves"
    assert paths(tmp_path, "new") == [within, across, within, across, "pair"]


def test_where_nics_differ_a_pair_is_compared_with_pairs_of_its_rate(tmp_path: Path) -> None:
    new, old = "400 Gb/s", "200 Gb/s"
    made = paths(tmp_path, "old")
    assert made[:3] == [f"pair, same leaf, {new}", f"pair, across leaves, {new}", f"pair, same leaf, {old}"]


def test_a_host_or_a_comment_more_in_fabric_yaml_keeps_the_history_and_another_qos_does_not(tmp_path: Path) -> None:
    def hashed(text: str) -> str:
        path = tmp_path / "fabric.yaml"
        path.write_text(text)
        return fabric_hash(load(path))

    text = FABRIC.replace("TYPE", "old")
    assert hashed(text) == hashed(text.replace("n[4-7]", "n[4-8]") + "# a word\nprobe: {rounds: 3}\n")
    assert hashed(text) != hashed(text + "qos: {mtu: 4200}\n")
    assert hashed(text) != hashed(text.replace("400G", "100G"))


def test_a_slow_drift_is_told_although_no_run_is_bad() -> None:
    rng = np.random.default_rng(2)
    runs = [log(46) + rng.normal(0, 0.01) - 0.04 * max(0, i - 30) / 120 for i in range(150)]
    made = only([group(46 * exp(-0.04))], Before(runs[-60:], runs))
    assert (made.status, made.confirmed, made.drifting) == ("regressed", True, True)
    assert "slow drift" in made.reason


def test_after_a_repair_a_drift_is_gone_within_three_runs() -> None:
    rng = np.random.default_rng(2)
    runs = [*rng.normal(0, 0.01, 30), *rng.normal(-0.04, 0.01, 100)]
    assert drift(runs)[0]
    assert not drift([*runs, 0.0, 0.0, 0.0])[0]


# the parts


@given(st.lists(st.floats(-1, 1), min_size=ENOUGH, max_size=40), st.floats(-5, 5))
def test_a_baseline_moves_with_its_values(values: list[float], shift: float) -> None:
    one, other = baseline(values), baseline([value + shift for value in values])
    assert one is not None
    assert other is not None
    assert other.centre == pytest.approx(one.centre + shift, abs=1e-9)
    assert other.sigma == pytest.approx(one.sigma, abs=1e-9)


def test_spread_is_unbiased_and_not_moved_by_a_fifth_of_strays() -> None:
    rng = np.random.default_rng(1)
    spreads = []
    for _ in range(400):
        usual = baseline(rng.normal(0, 0.02, 20).tolist())
        assert usual is not None
        spreads.append(usual.sigma)
    assert np.mean(spreads) == pytest.approx(0.02, rel=0.05)
    strays = baseline([*rng.normal(0, 0.02, 40), *([-1.0] * 10)])
    assert strays is not None
    assert strays.sigma < 0.045


def test_false_discoveries_are_bounded_as_published() -> None:
    """Benjamini and Hochberg's own example: 15 p-values, 4 survive at 0.05."""
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528]
    p_values += [0.7590, 1.0000]
    assert sum(survivors(p_values, 0.05)) == 4
    assert survivors([]) == []


def test_peers_need_to_be_five() -> None:
    assert outliers([0, 0, 0, -1]) == [False] * 4
    assert outliers([0, 0.001, -0.001, 0.002, -1]) == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("arguments", "busbw"),
    [
        (("all_reduce", 2, 2, 1), 50.0),  # one rail, one rank for each node: the NIC itself
        (("all_reduce", 16, 2, 8), 400.0),  # Ring over 8 x 400 Gb/s
        (("all_gather", 32, 4, 8), 400.0),
        (("alltoall", 16, 2, 8), 93.75),  # 8 of 15 peers are across the wire
    ],
)
def test_line_rate_as_bus_bandwidth(arguments: tuple[str, int, int, int], busbw: float) -> None:
    assert expected_busbw(50.0, *arguments) == pytest.approx(busbw)
    assert wire_rate(busbw, *arguments) == pytest.approx(50.0)


def test_hierarchical_conversion() -> None:
    """busbw (k-1)/(n-1) for one NIC per rank: 4 nodes of 8."""
    assert wire_rate(400.0, "all_gather", 32, 4, 8, "hierarchical") == pytest.approx(400 * 3 / 31)
    assert wire_rate(400.0, "all_gather", 8, 1, 8) == 0
    with pytest.raises(ValueError, match="cannot be"):
        wire_rate(1.0, "all_reduce", 1, 2)


def test_line_rate_from_fabric_yaml() -> None:
    expected = line_rate(load(ROOT / "conf/examples/h100-8x400g.yaml"))
    pair = Measurement("all_reduce", 1, (Member("gpu-001", "rail3"), Member("gpu-002", "rail3")), 46.0)
    assert expected(pair) == 50.0
    every = Measurement("all_reduce", 1, (Member("gpu-001"), Member("gpu-002")), 365.0, ranks=16)
    assert expected(every) == 400.0
    assert expected(replace(pair, members=(Member("gpu-001"), Member("stranger")))) is None


# published rates


def test_ten_percent_at_two_percent_noise_is_found_99_times_in_100() -> None:
    for count in (12, 20, 30):
        found = detection(0.02, count, 0.10, 1500, seed=5)
        assert at_least(found.confirmed, found.runs, 0.99) > REFUTED, (count, found)


def test_one_false_alarm_in_ten_thousand_at_most() -> None:
    healthy = detection(0.02, 20, 0.0, 30_000, seed=5)
    assert at_most(healthy.confirmed, healthy.runs, 1e-4) > REFUTED, healthy
    assert healthy.screened > 100  # the screen is wide: it is the confirmation that is strict


def test_a_drift_of_four_percent_is_found_and_none_invented() -> None:
    assert drifts(0.04, 60, seed=5) > 0.9
    assert drifts(0.0, 150, seed=5) < 0.06
    assert drifts(0.0, 60, 0.5, 5.0, seed=5) > 0.2  # the textbook's settings would not do


def test_the_detector_needs_the_loss() -> None:
    usual = baseline(past().values)
    assert usual is not None
    assert not screened(log(46.0), usual)
    assert not confirmed([log(45.0)] * 5, usual)


# with history


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History.open(tmp_path / "probe" / "history.db") as opened:
        yield opened


def days(count: int, level: float = 46.0, start: int = 0) -> list[list[Measurement]]:
    rng = np.random.default_rng(3)
    made = []
    for day in range(start, start + count):
        schedule = f"day-{day:03}"
        run_ = [group(level * exp(rng.normal(0, 0.01)), rail=f"rail{i}", schedule=schedule) for i in range(4)]
        made.append([replace(each, time=1.7e9 + 86_400 * day) for each in run_])
    return made


def test_a_series_of_days_learns_then_alarms_and_does_not_get_used_to_it(history: History) -> None:
    for each in days(20):
        made = conclude(each, history=history)
        assert made.healthy, made.judgements
        assert remember(made, history)
    for day in range(20, 50):
        (run_,) = days(1, 40.0, start=day)
        made = conclude(run_, history=history)
        assert {each.status for each in made.judgements} == {"regressed"}, day
        remember(made, history)


def test_the_same_run_judged_twice_says_the_same_and_counts_once(history: History) -> None:
    for each in days(20):
        remember(conclude(each, history=history), history)
    (slow,) = days(1, 40.0, start=20)
    first = conclude(slow, history=history)
    assert remember(first, history)
    again = conclude(slow, history=history)
    assert again.judgements == first.judgements
    assert not remember(again, history)


def test_accepting_a_level_begins_anew(history: History) -> None:
    for each in days(20):
        remember(conclude(each, history=history), history)
    assert history.accept(1.7e9 + 86_400 * 19.5, "%rail1") == 1
    (slow,) = days(1, 40.0, start=20)
    statuses = {each.series.rail: each.status for each in conclude(slow, history=history).judgements}
    assert statuses["rail1"] != "regressed"
    assert statuses["rail0"] == "regressed"


def test_whole_groups_alone_cannot_tell_a_node_from_everything(history: History) -> None:
    for each in days(20):
        remember(conclude(each, history=history), history)
    (slow,) = days(1, 30.0, start=20)
    verdict = conclude(slow, history=history).verdict
    assert verdict.verdict == "ambiguous"
    assert {each.kind for each in verdict.suspects} == {"global", "node"}


# the command


def test_judge_prints_the_contracts_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text(write_measurements([one for day in days(15) for one in day]))
    database = str(tmp_path / "h.db")
    assert run(PROBE, ["judge", str(file), "--history", database, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["series"][-1].keys() >= {"status", "change_pct", "z", "confirmed"}
    assert document["series"][0]["status"] == "no-baseline"
    assert document["series"][-1]["status"] == "ok"
    file.write_text(write_measurements(days(1, 36.0, start=15)[0]))
    assert run(PROBE, ["judge", str(file), "--history", database]) == 1
    assert "-2" in capsys.readouterr().out


def test_no_record_leaves_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text(write_measurements(days(1)[0]))
    assert run(PROBE, ["judge", str(file), "--history", str(tmp_path / "h.db"), "--no-record"]) == 0
    assert not (tmp_path / "h.db").exists()
    assert "no-baseline" in capsys.readouterr().out


def test_a_series_is_named_by_what_is_comparable() -> None:
    assert series_of(group(1.0, kind="pair", nodes=2)) == Series(
        "all_reduce", "pair", "rail0", 1 << 32, Fingerprint().key
    )


def test_groups_of_other_ranks_are_series_of_their_own() -> None:
    one, eight = (replace(group(46.0, nodes=2, kind="pair"), ranks=ranks) for ranks in (2, 16))
    assert [series_of(each).group for each in (one, eight)] == ["pair", "pair, 16 ranks"]
