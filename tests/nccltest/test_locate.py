"""Naming what is slow: the contract's shapes, and what every kind of evidence may and may not conclude."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.fabric import load, parse
from nccltest.__main__ import PROBE
from nccltest.causes import causes
from nccltest.locate.cabling import Cabling, from_fabric
from nccltest.locate.names import fold
from nccltest.locate.pathstory import AS_BUILT
from nccltest.locate.verdict import Verdict, locate, to_json
from nccltest.measure import measurements_of
from nccltest.model import Measurement, Member, Outcome, write_measurements
from nccltest.parse import parse_text
from nccltest.sim import Build, Cluster, Fault, Noise, healthy_rates, measure
from tuner.cli import run

ROOT = Path(__file__).parents[2]
CLUSTER = Cluster(16, rails=4, per_leaf=8)
QUIET = Noise(sigma=0.005, slower_paths=0, stray=0)


def evidence(*faults: Fault, cluster: Cluster = CLUSTER, rounds: int = 4, seed: int = 1) -> list[Measurement]:
    return measure(cluster, faults, np.random.default_rng(seed), rounds=rounds, noise=QUIET)


def pair(one: str, other: str, rail: str | None, busbw: float | None, status: Outcome = "ok") -> Measurement:
    made = Measurement("all_reduce", 1 << 32, (Member(one, rail), Member(other, rail)), busbw)
    return replace(made, status=status)


def blamed(verdict: Verdict) -> set[tuple[str, str]]:
    return {(each.kind, each.id) for each in verdict.suspects}


@pytest.mark.parametrize(
    ("kind", "name"),
    [("nic", "gpu-0003/rail2"), ("node", "gpu-0011"), ("leaf", "leaf-r1-0"), ("spine", "spine-[0-3]")],
)
def test_one_fault_is_named_alone(kind: str, name: str) -> None:
    share = 0.25 if kind == "spine" else 1.0
    verdict = locate(evidence(Fault(kind, name, 0.7, share), rounds=6), CLUSTER.cabling)
    assert verdict.verdict == "faulty"
    assert blamed(verdict) == {(kind, name)}
    assert verdict.suspects[0].ratio == pytest.approx(0.7, abs=0.02)
    assert verdict.suspects[0].confidence >= 0.95


def test_healthy_is_healthy() -> None:
    assert locate(evidence(), CLUSTER.cabling).verdict == "healthy"
    assert locate(evidence()).verdict == "healthy"


def test_three_leaves_tell_whose_uplink_it_is() -> None:
    cluster = Cluster(24, rails=2, per_leaf=8)
    verdict = locate(evidence(Fault("uplink", "leaf-r1-2"), cluster=cluster), cluster.cabling)
    assert blamed(verdict) == {("uplink", "leaf-r1-2")}


def test_two_leaves_cannot_tell_whose_uplink_it_is() -> None:
    verdict = locate(evidence(Fault("uplink", "leaf-r1-1")), CLUSTER.cabling)
    assert verdict.verdict == "ambiguous"
    assert blamed(verdict) == {("uplink", "leaf-r1-0"), ("uplink", "leaf-r1-1")}
    assert {each.fault for each in verdict.suspects} == {1}
    assert [each.confidence for each in verdict.suspects] == pytest.approx([0.5, 0.5], abs=0.03)


def test_several_faults_at_once() -> None:
    faults = [Fault("nic", "gpu-0001/rail0", 0.6), Fault("node", "gpu-0009", 0.8), Fault("nic", "gpu-0002/rail3", 0)]
    verdict = locate(evidence(*faults), CLUSTER.cabling)
    assert blamed(verdict) == {(each.kind, each.id) for each in faults}
    assert verdict.verdict == "faulty"


def test_one_slow_pair_of_two_nodes_blames_neither() -> None:
    pairs = [pair("a", "b", f"rail{i}", 46.0 if i else 30.0) for i in range(8)]
    verdict = locate(pairs)
    assert verdict.verdict == "ambiguous"
    assert {("nic", "a/rail0"), ("nic", "b/rail0")} <= blamed(verdict)
    assert all(each.confidence < 0.6 for each in verdict.suspects)


def test_a_node_whose_pairs_give_no_result_is_dead() -> None:
    verdict = locate(evidence(Fault("node", "gpu-0005", 0)), CLUSTER.cabling)
    assert blamed(verdict) == {("node", "gpu-0005")}
    assert verdict.suspects[0].ratio == 0
    assert "failed" in verdict.suspects[0].evidence


def test_the_launcher_saw_who_was_lost_and_the_partner_is_no_suspect() -> None:
    pairs = [pair(f"n{i}", f"n{i + 1}", "rail0", 46.0 + i / 50) for i in range(2, 12, 2)]
    lost = replace(pair("n0", "n1", "rail0", None, "failed"), unreachable=("n1",))
    verdict = locate([*pairs, lost])
    assert blamed(verdict) == {("nic", "n1/rail0")}


def test_wrong_data_is_told_as_corruption() -> None:
    bad = [replace(each, status="wrong-data") for each in evidence() if Member("gpu-0004", "rail1") in each.members]
    good = [each for each in evidence() if Member("gpu-0004", "rail1") not in each.members]
    verdict = locate([*good, *bad], CLUSTER.cabling)
    assert blamed(verdict) == {("nic", "gpu-0004/rail1")}
    assert "corruption" in verdict.suspects[0].evidence


@pytest.mark.parametrize("status", ["interrupted", "not-collective"])
def test_what_the_operator_ended_is_no_evidence(status: Outcome) -> None:
    ended = [pair("gpu-0001", f"gpu-{i:04d}", "rail0", None, status) for i in range(2, 9)]
    assert locate([*evidence(), *ended], CLUSTER.cabling).verdict == "healthy"


def test_a_single_rank_prints_zero_and_is_not_dead() -> None:
    alone = Measurement("all_reduce", 1 << 32, (Member("gpu-0001"),), 0.0, kind="single")
    assert locate([*evidence(), alone], CLUSTER.cabling).verdict == "healthy"


def test_a_node_slow_inside_is_told_from_its_network() -> None:
    inside = [
        Measurement("all_reduce", 1 << 33, (Member(name),) * 2, 300.0 if name == "gpu-0007" else 480.0, kind="single")
        for name in CLUSTER.names
    ]
    verdict = locate([*evidence(), *inside], CLUSTER.cabling)
    assert blamed(verdict) == {("node", "gpu-0007")}
    assert "without the network" in verdict.suspects[0].evidence


def test_all_rails_at_once_blame_the_node_and_see_a_lost_rail() -> None:
    made = measure(CLUSTER, [Fault("node", "gpu-0002", 0.75)], np.random.default_rng(3), by_rail=False, noise=QUIET)
    verdict = locate(made, CLUSTER.cabling)
    assert blamed(verdict) == {("node", "gpu-0002")}
    assert "3/4" in verdict.suspects[0].evidence


def test_a_class_that_is_not_lossless_shows_at_large_sizes() -> None:
    fault = Fault("nic", "gpu-0003/rail2", 0.3, from_size=4 << 30)
    made = measure(CLUSTER, [fault], np.random.default_rng(3), sizes=(1 << 30, 4 << 30), noise=QUIET)
    verdict = locate(made, CLUSTER.cabling)
    assert ("nic", "gpu-0003/rail2") in blamed(verdict)
    assert "only from 4GiB up" in verdict.suspects[0].evidence


def test_everything_slow_needs_the_past_or_the_line_rate() -> None:
    slow = evidence(Fault("global", "fabric", 0.4))
    assert locate(slow).verdict == "healthy"
    assert any("cannot be seen" in note for note in locate(slow).notes)
    assert blamed(locate(slow, CLUSTER.cabling)) == {("global", "fabric")}
    assert blamed(locate(slow, CLUSTER.cabling, [46.5] * len(slow))) == {("global", "fabric")}


def test_pairs_between_leaves_alone_do_not_tell_software_from_oversubscription() -> None:
    cluster = Cluster(16, rails=1, per_leaf=8, build=Build(between_leaves=0.5))
    across = [one for one in made_of(cluster) if len({cluster.cabling.leaf[m.node, "rail0"] for m in one.members}) > 1]
    verdict = locate(across, cluster.cabling)
    assert blamed(verdict) == {("global", "fabric")}
    assert not verdict.suspects[0].sure
    assert "oversubscribed" in verdict.suspects[0].evidence


def test_whole_group_results_are_minimums_over_members() -> None:
    """The rail on which the whole group is slow narrows a single slow pair to one rail's two NICs, not to nodes."""
    rails = [f"rail{i}" for i in range(4)]
    whole = [
        Measurement("all_reduce", 1 << 32, tuple(Member(n, r) for n in CLUSTER.names), 30.0 if r == "rail2" else 46.0)
        for r in rails
    ]
    verdict = locate([*evidence(Fault("nic", "gpu-0003/rail2", 30 / 46.5)), *whole], CLUSTER.cabling)
    assert blamed(verdict) == {("nic", "gpu-0003/rail2")}


def test_one_strange_pair_is_told_and_blames_nobody() -> None:
    made = evidence()
    made[10] = replace(made[10], busbw=25.0)
    verdict = locate(made, CLUSTER.cabling)
    assert verdict.verdict == "healthy"
    assert verdict.unexplained == (made[10],)


def test_groups_are_inferred_without_a_topology() -> None:
    cluster = Cluster(32, rails=2, per_leaf=8)
    verdict = locate(evidence(Fault("uplink", "leaf-r1-2"), cluster=cluster))
    assert blamed(verdict) == {("uplink", "gpu-[0017-0024]/rail1")}
    verdict = locate(evidence(Fault("leaf", "leaf-r0-1"), cluster=cluster, seed=5))
    assert blamed(verdict) == {("leaf", "gpu-[0009-0016]/rail0")}


def test_three_bad_cables_are_no_leaf() -> None:
    cluster = Cluster(64, rails=4, per_leaf=16)
    names = [f"gpu-00{i}/rail2" for i in (11, 29, 47)]
    verdict = locate(evidence(*(Fault("nic", name) for name in names), cluster=cluster))
    assert blamed(verdict) == {("nic", name) for name in names}


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False), st.floats(0.01, 1000))
def test_neither_order_nor_unit_matters(random: Random, unit: float) -> None:
    made = evidence(Fault("nic", "gpu-0003/rail2"), Fault("node", "gpu-0008", 0))
    changed = [replace(each, busbw=each.busbw * unit if each.busbw else None) for each in made]
    random.shuffle(changed)
    plain = Cabling(CLUSTER.cabling.leaf, CLUSTER.cabling.plane)
    assert blamed(locate(changed, plain)) == blamed(locate(made, plain))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_measured_a_verdict_comes(data: st.DataObject) -> None:
    """Nonsense too: no exception, confidences are probabilities, and one fault's add up to one at most."""
    nodes = [f"gpu-{i:04d}" for i in range(1, 7)]
    rails = st.sampled_from(["rail0", "rail1", None])
    member = st.builds(Member, st.sampled_from(nodes), rails)
    rate = st.sampled_from([None, 0.0, 1e-9, 30.0, 36.0, 41.0, 45.0, 46.0, 46.5, 47.0, 400.0, 1e12])
    one = st.builds(
        Measurement,
        st.just("all_reduce"),
        st.sampled_from([1 << 20, 1 << 32]),
        st.lists(member, min_size=1, max_size=4, unique=True).map(tuple),
        rate,
        status=st.sampled_from(["ok", "ok", "ok", "failed", "timeout", "wrong-data", "interrupted", "not-collective"]),
        unreachable=st.lists(st.sampled_from(nodes), max_size=1).map(tuple),
    )
    made = data.draw(st.lists(one, max_size=40))
    past = data.draw(st.lists(st.sampled_from([None, 46.0]), min_size=len(made), max_size=len(made)))
    for cabling in (Cabling({}), CLUSTER.cabling):
        verdict = locate(made, cabling, past)
        assert (verdict.verdict == "healthy") == (not verdict.suspects)
        for fault in {each.fault for each in verdict.suspects}:
            assert 0 < sum(each.confidence for each in verdict.suspects if each.fault == fault) <= 1 + 1e-9
        json.dumps(to_json(verdict), allow_nan=False)


def test_cabling_comes_from_fabric_yaml() -> None:
    cabling = from_fabric(load(ROOT / "conf/examples/h100-8x400g.yaml"))
    assert cabling.leaf["gpu-064", "rail7"] == "leaf-r7"
    assert cabling.plane["leaf-r0"] == "spine-[0-3]"
    assert cabling.uplinks["leaf-r0"] == 64
    assert cabling.line_rate["gpu-001"] == 50.0
    assert len(set(cabling.pod.values())) == 1
    assert cabling.node_type["gpu-001"] == "hgx-h100"


PODS = """\
apiVersion: roceway/v1
kind: Fabric
metadata: {name: lab}
rails: [{name: rail0, subnet: 10.10.0.0/16, nodeBlock: 28}]
nodeTypes: {plain: {speed: 400G, mode: macvlan, rails: {rail0: p0}}}
nodes: [{match: "n[1-3]", type: plain}]
switches:
  - {name: leaf-1, platform: sonic, role: leaf, ports: {p1: n1/rail0}}
  - {name: leaf-2, platform: sonic, role: leaf, ports: {p1: n2/rail0}}
  - {name: leaf-3, platform: sonic, role: leaf, ports: {p1: n3/rail0}}
  - {name: agg-1, platform: sonic, role: spine}
  - {name: agg-2, platform: sonic, role: spine}
  - {name: core, platform: sonic, role: spine}
links:
  - {from: "leaf-1:u1", to: "agg-1:d1"}
  - {from: "leaf-2:u1", to: "agg-1:d2"}
  - {from: "leaf-3:u1", to: "agg-2:d1"}
  - {from: "agg-1:u1", to: "core:d1"}
  - {from: "agg-2:u1", to: "core:d2"}
"""


def test_leaves_that_no_switch_joins_directly_are_of_two_pods() -> None:
    cabling = from_fabric(parse(PODS))
    assert cabling.pod["leaf-1"] == cabling.pod["leaf-2"] != cabling.pod["leaf-3"]
    assert len(set(cabling.plane.values())) == 1


@given(st.lists(st.from_regex(r"[a-z]{1,3}-?[0-9]{0,4}", fullmatch=True), min_size=1, max_size=30))
def test_folded_names_expand_to_themselves(names: Sequence[str]) -> None:
    from conf.hostlist import expand  # the law's other half

    assert sorted(expand(fold(names))) == sorted(set(names))


# the command


def write(path: Path, made: Sequence[Measurement]) -> str:
    path.write_text(write_measurements(made))
    return str(path)


def test_json_has_the_contracts_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "m.jsonl", evidence(Fault("nic", "gpu-0003/rail2")))
    assert run(PROBE, ["locate", file, "--json"]) == 1
    out = capsys.readouterr()
    document = json.loads(out.out)
    assert not out.err
    assert document["verdict"] == "faulty"
    (suspect,) = document["suspects"]
    assert (suspect["kind"], suspect["id"]) == ("nic", "gpu-0003/rail2")
    assert suspect["confidence"] > 0.95
    assert 0.75 < suspect["ratio"] < 0.85
    assert "4 of 4" in suspect["evidence"]


def test_healthy_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROBE, ["locate", write(tmp_path / "m.jsonl", evidence())]) == 0
    assert capsys.readouterr().out.startswith("healthy: 128 groups compared")


def test_bad_lines_are_all_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text('{"test": "a", "size": 1, "members": []}\nnonsense\n{"test": "a", "size": -1, "members": 3}\n')
    assert run(PROBE, ["locate", str(file), "--json"]) == 2
    out = capsys.readouterr()
    assert not out.out
    for word in ("line 1: members", "line 2: is not JSON", "line 3: size", "line 3: members"):
        assert word in out.err


def test_a_missing_file_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROBE, ["locate", "/nonexistent/m.jsonl"]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err


def test_hostile_names_are_shown_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [
        replace(each, members=tuple(replace(m, node=m.node.replace("gpu-0003", "[red]x[/]")) for m in each.members))
        for each in evidence(Fault("node", "gpu-0003"))
    ]
    assert run(PROBE, ["locate", write(tmp_path / "m.jsonl", made)]) == 1
    assert "node [red]x[/]" in capsys.readouterr().out


def test_to_json_shows_at_most_a_hundred_strange_groups() -> None:
    one = pair("a", "b", "rail0", 1.0)
    assert len(to_json(Verdict("healthy", (), 1, (one,) * 500, 0.01))["unexplained"]) == 100


def test_suspects_that_cannot_be_told_apart_come_with_the_command_that_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [pair("a", "b; rm x", f"rail{i}", 46.0 if i else 30.0) for i in range(8)]
    assert run(PROBE, ["locate", write(tmp_path / "m.jsonl", pairs)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "the only test of it is slow" in out
    assert "roceway-probe run -f fabric.yaml --suspect nic:a/rail0 --suspect 'nic:b; rm x/rail0'" in out


def test_a_possible_fault_of_a_fabric_that_may_be_built_so_is_called_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(PROBE, ["locate", write(tmp_path / "m.jsonl", made_of(RACKS))]) == 1
    out = capsys.readouterr().out
    assert out.startswith("ambiguous: 1 fault or none (the fabric may be built so); 64 groups compared")
    assert "nothing: built so" in out


def test_a_fabric_that_may_be_built_so_has_no_cause() -> None:
    made = made_of(RACKS)
    assert {each.kind for each in causes(locate(made), made, Cabling({}))} <= {"uplink"}


def test_one_group_alone_is_told_what_it_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROBE, ["locate", write(tmp_path / "m.jsonl", [pair("a", "b", None, 40.0)])]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "no verdict: nothing could be compared" in out
    assert "every node with two partners at least" in out


def test_small_messages_do_not_blur_large_ones() -> None:
    rng = np.random.default_rng(8)
    large = evidence(Fault("nic", "gpu-0003/rail2", 0.85))
    small = [replace(each, size=1 << 20, busbw=5 * float(rng.lognormal(0, 0.15))) for each in large]
    verdict = locate([*large, *small], CLUSTER.cabling)
    assert blamed(verdict) == {("nic", "gpu-0003/rail2")}
    assert verdict.noise < 0.02


@pytest.mark.parametrize("count", [3, 4, 6])
@pytest.mark.parametrize("rails", [(None,), ("rail0", "rail1")])
def test_a_slow_node_of_a_few_is_named(count: int, rails: tuple[str | None, ...]) -> None:
    """With three nodes two of three pairs are slow: less than a quarter of the results may be healthy."""
    made = [
        pair(f"n{one}", f"n{other}", rail, (36.0 if count - 1 in (one, other) else 46.0) + (one + 2 * other) / 20)
        for one in range(count)
        for other in range(one)
        for rail in rails
    ]
    assert blamed(locate(made)) == {("node", f"n{count - 1}")}


def test_groups_of_other_ranks_are_not_compared() -> None:
    names = [f"n{i}" for i in range(6)]
    pairs = [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]
    made = [replace(pair(*each, None, 40.0), ranks=2) for each in pairs]
    made += [replace(pair(*each, None, 90.0), ranks=16) for each in pairs]
    assert locate(made).verdict == "healthy"


# healthy at several levels

TWO_LEVELS = Build(between_leaves=0.9)
LEVELS = Cluster(48, rails=2, per_leaf=16, build=TWO_LEVELS)
RACKS = Cluster(16, rails=2, per_leaf=8, layout="rack", build=TWO_LEVELS)


def made_of(cluster: Cluster, *faults: Fault, seed: int = 1, by_rail: bool = True) -> list[Measurement]:
    return measure(cluster, faults, np.random.default_rng(seed), noise=QUIET, by_rail=by_rail)


def test_slower_paths_between_leaves_are_no_fault_and_are_told() -> None:
    verdict = locate(made_of(LEVELS), LEVELS.cabling)
    assert verdict.verdict == "healthy"
    assert any("those between leaves" in note and "90% of the fastest" in note for note in verdict.notes)


def test_without_a_topology_they_are_told_from_faults_all_the_same() -> None:
    verdict = locate(made_of(LEVELS))
    assert verdict.verdict == "healthy"
    assert any("two kinds" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("nic", "gpu-0003/rail1"), ("node", "gpu-0011"), ("leaf", "leaf-r1-0"), ("uplink", "leaf-r0-2")],
)
@pytest.mark.parametrize("compound", [False, True])
def test_faults_on_top_of_two_levels_are_named(kind: str, name: str, compound: bool) -> None:
    cluster = replace(LEVELS, build=replace(TWO_LEVELS, compound=compound))
    verdict = locate(made_of(cluster, Fault(kind, name, 0.75)), cluster.cabling)
    assert blamed(verdict) == {(kind, name)}
    assert verdict.verdict == "faulty"


def test_a_fault_as_deep_as_the_slower_paths_shows_inside_the_leaf() -> None:
    verdict = locate(made_of(LEVELS, Fault("nic", "gpu-0003/rail1", 0.88), seed=3), LEVELS.cabling)
    assert blamed(verdict) == {("nic", "gpu-0003/rail1")}


def test_with_two_leaves_and_no_past_a_slow_uplink_and_a_fabric_built_so_are_the_same() -> None:
    verdict = locate(made_of(RACKS), RACKS.cabling)
    assert verdict.verdict == "ambiguous"
    assert blamed(verdict) == {("global", AS_BUILT), ("uplink", "leaf-0"), ("uplink", "leaf-1")}
    (doubt,) = [each.evidence for each in verdict.suspects if each.id == AS_BUILT]
    assert "Replace nothing yet" in doubt
    assert "roceway-probe judge" in doubt


def test_the_past_tells_a_slow_uplink_from_a_fabric_built_so() -> None:
    healthy = made_of(RACKS)
    assert locate(healthy, RACKS.cabling, healthy_rates(RACKS, healthy)).verdict == "healthy"
    slow = made_of(RACKS, Fault("uplink", "leaf-1", 0.7))
    named = blamed(locate(slow, RACKS.cabling, healthy_rates(RACKS, slow)))
    assert named >= {("uplink", "leaf-0"), ("uplink", "leaf-1")}
    assert ("global", AS_BUILT) not in named


def test_another_rail_tells_an_uplink_of_two_leaves_from_a_fabric_built_so() -> None:
    cluster = Cluster(32, rails=4, per_leaf=16, build=TWO_LEVELS)
    verdict = locate(made_of(cluster, Fault("uplink", "leaf-r1-1", 0.75)), cluster.cabling)
    assert blamed(verdict) == {("uplink", "leaf-r1-0"), ("uplink", "leaf-r1-1")}


def test_pods_and_types_have_levels_of_their_own() -> None:
    pods = Cluster(64, rails=2, per_leaf=8, per_pod=4, build=Build(between_leaves=0.9, between_pods=0.75))
    types = Cluster(32, rails=2, per_leaf=8, build=Build(old=0.8, old_nodes=0.4))
    for cluster in (pods, types):
        assert locate(made_of(cluster), cluster.cabling).verdict == "healthy"
        fault = Fault("nic", "gpu-0006/rail1", 0.6)
        assert blamed(locate(made_of(cluster, fault), cluster.cabling)) == {("nic", "gpu-0006/rail1")}


def test_one_node_of_another_type_that_is_slow_is_not_blamed_alone() -> None:
    cluster = Cluster(16, rails=2, per_leaf=16)
    types = {name: "a" if name != "gpu-0007" else "b" for name in cluster.names}
    verdict = locate(made_of(cluster, Fault("node", "gpu-0007", 0.85)), replace(cluster.cabling, node_type=types))
    assert blamed(verdict) == {("node", "gpu-0007"), ("global", AS_BUILT)}
    assert "type b" in " ".join(each.evidence for each in verdict.suspects)


def test_many_nodes_equally_slow_with_everybody_are_a_leaf_or_another_kind_of_node() -> None:
    cluster = Cluster(32, rails=2, per_leaf=8, layout="rack")
    verdict = locate(made_of(cluster, Fault("leaf", "leaf-2", 0.8)))
    assert verdict.verdict == "ambiguous"
    assert blamed(verdict) == {("global", AS_BUILT), ("leaf", "gpu-[0017-0024]")}


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1 << 20), st.sampled_from([0.95, 0.9, 0.8, 0.6]), st.booleans(), st.booleans())
def test_whatever_the_level_nobody_is_blamed_alone_in_health(
    seed: int, ratio: float, topology: bool, by_rail: bool
) -> None:
    cluster = replace(LEVELS, build=Build(between_leaves=ratio))
    verdict = locate(made_of(cluster, seed=seed, by_rail=by_rail), cluster.cabling if topology else Cabling({}))
    assert not [each for each in verdict.suspects if each.sure]


# recorded: all pairs of ten healthy H100 nodes

HEALTHY = ROOT.parent / "shared" / "data" / "nccl-logs" / "pairwise-h100-10node-healthy"
recorded_only = pytest.mark.skipif(not HEALTHY.is_dir(), reason="the recorded logs are not on this machine")


@cache
def recorded() -> tuple[Measurement, ...]:
    runs = [
        each
        for file in sorted(HEALTHY.glob("*.log"))
        for each in parse_text(file.read_text(errors="replace"), file.name)
    ]
    return tuple(one for each in runs for one in measurements_of(each, smallest=1 << 30))


def of(test: str | None, ranks: int | None) -> list[Measurement]:
    return [one for one in recorded() if test in (None, one.test) and ranks in (None, one.ranks)]


EVERY = [(None, None), *((test, ranks) for test in ("sendrecv", "alltoall") for ranks in (2, 4, 8, 16))]


@recorded_only
@pytest.mark.parametrize(("test", "ranks"), EVERY)
def test_ten_recorded_nodes_whose_paths_are_of_two_kinds_are_healthy(test: str | None, ranks: int | None) -> None:
    made = of(test, ranks)
    verdict = locate(made)
    assert verdict.tested == len(made) >= 135
    assert (verdict.verdict, verdict.suspects, verdict.unexplained) == ("healthy", (), ())


@recorded_only
def test_the_two_levels_of_the_recorded_nodes_are_told() -> None:
    notes = locate(recorded()).notes
    assert any("sendrecv, 16 ranks" in note and "91% of the fastest" in note for note in notes)
    assert any("cnode3-009 was fast with nobody" in note for note in notes)


@recorded_only
@pytest.mark.parametrize(("test", "ranks"), EVERY)
@pytest.mark.parametrize("ratio", [0.5, 0.8, 0.9])
def test_a_recorded_node_made_slow_is_named_alone(test: str | None, ranks: int | None, ratio: float) -> None:
    made = of(test, ranks)
    for node in sorted({node for one in made for node in one.nodes}):
        planted = [replace(one, busbw=(one.busbw or 0) * ratio) if node in one.nodes else one for one in made]
        verdict = locate(planted)
        assert blamed(verdict) == {("node", node)}, node
        assert verdict.verdict == "faulty"


@recorded_only
def test_a_recorded_nic_made_slow_is_named_alone() -> None:
    """One rank on each node uses one NIC alone: its log is one rail's."""
    one_rail, other = (
        [replace(one, members=tuple(replace(m, rail=rail) for m in one.members)) for one in of("sendrecv", 2)]
        for rail in ("rail0", "rail1")
    )
    for node in ("cnode3-004", "cnode3-007", "cnode3-009"):
        planted = [replace(one, busbw=(one.busbw or 0) * 0.8) if node in one.nodes else one for one in one_rail]
        assert blamed(locate([*planted, *other])) == {("nic", f"{node}/rail0")}


def busy(seed: int, nodes: int, rails: int, share: float, *slow: tuple[str, str]) -> list[Measurement]:
    """Every pair on every rail, a share of them 5 to 15 % slow for no reason; the NICs ``slow`` leave 60 %."""
    rng = np.random.default_rng(seed)
    made = []
    for rail in (f"rail{number}" for number in range(rails)):
        for one, other in combinations((f"n{number}" for number in range(nodes)), 2):
            busbw = 46 * np.exp(rng.normal(0, 0.01)) * (1 - rng.uniform(0.05, 0.15) * (rng.random() < share))
            left = 0.6 if {(one, rail), (other, rail)} & set(slow) else 1.0
            made.append(pair(one, other, rail, float(busbw * left)))
    return made


@pytest.mark.parametrize(("nodes", "rails", "share"), [(4, 3, 0.3), (8, 2, 0.2), (8, 2, 0.3)])
def test_on_busy_hosts_what_is_slow_by_chance_is_seldom_blamed(nodes: int, rails: int, share: float) -> None:
    verdicts = [locate(busy(seed, nodes, rails, share)) for seed in range(50)]
    assert sum(any(each.sure for each in verdict.suspects) for verdict in verdicts) <= 5  # without strays: 30 to 47
    noisy = [verdict for verdict in verdicts if any("without a pattern" in note for note in verdict.notes)]
    assert len(noisy) >= 30


@pytest.mark.parametrize("nodes", [4, 8])
def test_on_busy_hosts_a_slow_nic_is_named_all_the_same(nodes: int) -> None:
    for seed in range(20):
        verdict = locate(busy(seed, nodes, 3, 0.15, ("n1", "rail1")))
        assert ("nic", "n1/rail1") in {(each.kind, each.id) for each in verdict.suspects if each.sure}
