"""The whole pipeline on a real network: hosts are namespaces, an all-reduce runs over rails that tbf limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def four() -> Iterator[ProbeLab]:
    with ProbeLab(4) as lab:
        yield lab


def test_healthy_rails_reach_line_rate_and_nobody_is_blamed(four: ProbeLab) -> None:
    done, measured = four.run("--no-confirm", matchings=3, repeats=1)
    assert done.returncode == 0, done.stderr
    assert len(measured) == 12
    rates = sorted(each.busbw or 0 for each in measured)
    assert 0.75 * LINE < rates[len(rates) // 2] < 1.05 * LINE
    verdict = located(four, measured)
    assert verdict["verdict"] == "healthy", verdict
    assert measured == four.recorded()


def test_a_nic_at_80_percent_is_named(four: ProbeLab) -> None:
    four.shape("n2", 1, 0.8)
    _, measured = four.run("--no-confirm", matchings=3, repeats=1)
    for topology in (True, False):
        verdict = located(four, measured, topology=topology)
        assert sure(verdict) == ["nic n2/rail1"], verdict
        assert verdict["suspects"][0]["ratio"] == pytest.approx(0.8, abs=0.08)


def test_a_bad_uplink_is_named_among_three() -> None:
    with ProbeLab(6, rails=1, leaves=3) as lab:
        lab.shape_uplink(0, 1, 30)
        _, measured = lab.run("--no-confirm", matchings=4, repeats=1)
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


def test_counters_are_read_on_every_member_around_the_round() -> None:
    with ProbeLab(2, rails=1) as lab:
        _, (measured,) = lab.run("--no-confirm", matchings=1, repeats=1)
        moved = {(each.node, each.name): each.value for each in measured.counters}
        for node in ("n0", "n1"):
            # One warm-up, three iterations and a check, both halves, one MiB each.
            assert 10e6 < moved[node, "tx_bytes"] < 20e6
            assert 10e6 < moved[node, "rx_bytes"] < 20e6
        assert measured.fingerprint.driver == "veth"
        assert measured.fingerprint.nccl.startswith("mpirun (Open MPI)")
        assert measured.fingerprint.fabric
        assert measured.seconds > 0


def test_the_next_plan_knows_who_met_and_what_was_spent() -> None:
    with ProbeLab(4, rails=1) as lab:
        path = lab.write_fabric(repeats=1, matchings=1)
        state = ["--state", str(lab.folder / "state")]
        met: list[frozenset[str]] = []
        for _ in range(2):
            done = lab.probe("run", *lab.files(path), "--json", "--no-confirm")
            met += [
                frozenset(node["node"] for node in each["members"]) for each in json.loads(done.stdout)["measurements"]
            ]
        plan = json.loads(lab.probe("plan", "-f", str(path), *state, "--json").stdout)
        met += [frozenset(group["nodes"]) for one in plan["rounds"] for group in one["groups"]]
        assert len(set(met)) == 6  # all pairs of four nodes, none twice
        tight = Path(str(path).replace("fabric", "tight"))
        tight.write_text(path.read_text().replace("80000", "5"))
        refused = json.loads(lab.probe("plan", "-f", str(tight), *state, "--json").stdout)
        assert refused["rounds"] == []
        assert refused["dropped"] == ["random: 2 of 2 groups are over the budget"]
