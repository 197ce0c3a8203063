"""The whole pipeline on a real network: hosts are namespaces, an all-reduce runs over rails that tbf limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any, NamedTuple

import pytest

from nccltest.model import Measurement, write_measurements
from tests.netns.probe_lab import ProbeLab

LINE = 50 / 8000
"""GB/s of a NIC."""


def located(lab: ProbeLab, measured: list[Measurement], *, topology: bool = True) -> Any:
    path = lab.folder / "measured.jsonl"
    path.write_text(write_measurements(measured))
    done = lab.probe("locate", str(path), "--json", *(["-f", str(lab.folder / "fabric.yaml")] if topology else []))
    return json.loads(done.stdout)


def sure(verdict: Any) -> list[str]:
    return [f"{each['kind']} {each['id']}" for each in verdict["suspects"] if each["confidence"] > 0.9]


class Healthy(NamedTuple):
    """Four hosts on two rails, after two runs, of two matchings and of one, in which nothing was wrong."""

    lab: ProbeLab
    done: tuple[CompletedProcess[str], ...]
    measured: list[Measurement]


@pytest.fixture(scope="module")
def healthy() -> Iterator[Healthy]:
    with ProbeLab(4) as lab:
        runs = [lab.run("--no-confirm", matchings=count, repeats=1) for count in (2, 1)]
        yield Healthy(lab, tuple(done for done, _ in runs), [each for _, measured in runs for each in measured])


def test_healthy_rails_reach_line_rate_and_nobody_is_blamed(healthy: Healthy) -> None:
    lab, done, measured = healthy
    assert [each.returncode for each in done] == [0, 0], done
    assert len(measured) == 12
    rates = sorted(each.busbw or 0 for each in measured)
    assert 0.75 * LINE < rates[len(rates) // 2] < 1.05 * LINE
    verdict = located(lab, measured)
    assert verdict["verdict"] == "healthy", verdict
    assert measured == lab.recorded()


def test_counters_are_read_on_every_member_around_the_round(healthy: Healthy) -> None:
    for each in healthy.measured:
        moved = {(delta.node, delta.name): delta.value for delta in each.counters}
        for node in each.nodes:
            # One warm-up, three iterations and a check, both halves, one MiB each.
            assert 10e6 < moved[node, "tx_bytes"] < 20e6
            assert 10e6 < moved[node, "rx_bytes"] < 20e6
        assert {delta.rail for delta in each.counters} == {each.rail}
        assert each.fingerprint.driver == "veth"
        assert each.fingerprint.nccl.startswith("mpirun (Open MPI)")
        assert each.fingerprint.fabric
        assert each.seconds > 0


def test_the_next_run_knows_who_met_and_what_was_spent(healthy: Healthy) -> None:
    lab, _, measured = healthy
    path = lab.write_fabric(repeats=1, matchings=1)
    state = ["--state", str(lab.folder / "state")]
    met = [frozenset(each.nodes) for each in measured if each.rail == "rail0"]
    assert len(met) == len(set(met)) == 6  # all pairs of four nodes, none twice
    tight = path.with_name("tight.yaml")
    tight.write_text(path.read_text().replace("80000", "5"))
    refused = json.loads(lab.probe("plan", "-f", str(tight), *state, "--json").stdout)
    assert refused["rounds"] == []
    assert refused["dropped"] == ["random: 2 of 2 groups are over the budget"] * 2  # one for each rail


def test_a_nic_at_80_percent_is_named(healthy: Healthy) -> None:
    lab = healthy.lab
    lab.shape("n2", 1, 0.8)
    try:
        _, measured = lab.run("--no-confirm", matchings=3, repeats=1)
    finally:
        lab.shape("n2", 1, 1.0)
    for topology in (True, False):
        verdict = located(lab, measured, topology=topology)
        assert sure(verdict) == ["nic n2/rail1"], verdict
        assert verdict["suspects"][0]["ratio"] == pytest.approx(0.8, abs=0.08)


def test_a_bad_uplink_is_named_among_three() -> None:
    with ProbeLab(6, rails=1, leaves=3) as lab:
        lab.shape_uplink(0, 1, 30)
        # Everybody meets everybody: without the pair inside the leaf it might be the leaf itself.
        _, measured = lab.run("--no-confirm", matchings=5, repeats=1)
        verdict = located(lab, measured)
        assert sure(verdict) == ["uplink leaf-0-1"], verdict


def test_a_dead_host_is_named_by_the_launcher_and_by_the_evidence() -> None:
    with ProbeLab(4, rails=1) as lab:
        lab.die("n3")
        done, measured = lab.run("--no-confirm", matchings=3, repeats=1)
        assert done.returncode == 1
        dead = [each for each in measured if "n3" in each.nodes]
        alive = [each for each in measured if "n3" not in each.nodes]
        assert {each.status for each in dead} == {"failed"}
        assert {each.unreachable for each in dead} == {("n3",)}
        assert {each.status for each in alive} == {"ok"}
        assert "n3 out of reach" in done.stderr
        verdict = located(lab, measured)
        (name,) = sure(verdict)
        assert name in ("node n3", "nic n3/rail0"), verdict  # with one rail these are one thing
        # What mpirun said is kept for whoever looks into it.
        kept = sorted((lab.folder / "state" / "output").iterdir())
        assert len(kept) == len(dead)
        assert "No route to host" in kept[0].read_text()
