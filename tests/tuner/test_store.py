"""The tuner's state: whole files, root alone, damage told, one tuner at a time; the verdict that the agent reads."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from cni.agent.verdict import verdicts
from host.errors import Busy, HostError
from tests.tuner.nics import bnxt, fabric, host, mlx5
from tuner import verdict
from tuner.apply import restoring
from tuner.desired import desired
from tuner.nic import Applied, HostQos
from tuner.plan import plan
from tuner.steps import Step
from tuner.store import KEEP, Store

HOST = host(mlx5(), bnxt("eth3"))


def steps(seen: HostQos = HOST) -> tuple[Step, ...]:
    wanted = desired(fabric(), "n0", {"rail0": "eth2", "rail1": "eth3"})
    return tuple(step for each in plan(wanted, seen) for step in each.steps)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(str(tmp_path / "state"))
    with found.held():
        pass
    return found


def test_journal_and_snapshot_are_read_as_they_were_written(store: Store) -> None:
    journal = store.begin(HOST, steps(), "20260101T000000Z")
    assert store.journal() == journal
    snapshot = store.snapshot("20260101T000000Z")
    assert (snapshot.host, snapshot.steps) == (HOST, steps())
    store.end()
    assert store.journal() is None
    store.end()


def test_a_clock_that_goes_back_does_not_age_a_snapshot(store: Store) -> None:
    for name in ("20260102T000000Z", "20260101T000000Z"):
        store.begin(HOST, (), name)
    assert store.snapshots() == ("20260102T000000Z", "20260102T000000Z-1")


def test_only_root_may_look(store: Store) -> None:
    store.begin(HOST, steps(), "20260101T000000Z")
    for folder, _, files in os.walk(store.folder):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert all(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600 for name in files)


def test_two_runs_in_one_second_have_two_snapshots_and_ten_are_kept(store: Store) -> None:
    for _ in range(KEEP + 2):
        store.begin(HOST, (), "20260101T000000Z")
    assert store.snapshots() == tuple(f"20260101T000000Z-{number}" for number in range(2, KEEP + 2))


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"snapshot": "x"}', '{"snapshot": "x", "boot_id": "", "steps": [{}]}']
)
def test_a_damaged_journal_is_told_and_kept(store: Store, damage: str) -> None:
    path = Path(store.folder, "journal.json")
    path.write_text(damage)
    with pytest.raises(HostError, match=r"journal\.json: damaged"):
        store.journal()
    assert path.read_text() == damage


@pytest.mark.parametrize("name", ["../journal", "20260101T000000Z.json", ""])
def test_a_snapshot_s_name_is_no_path(store: Store, name: str) -> None:
    with pytest.raises(HostError, match="this is no snapshot's name"):
        store.snapshot(name)


def test_an_unknown_snapshot_lists_those_there_are(store: Store) -> None:
    store.begin(HOST, (), "20260101T000000Z")
    with pytest.raises(HostError, match="there is 20260101T000000Z"):
        store.snapshot("20250101T000000Z")


def test_one_tuner_at_a_time(store: Store) -> None:
    with (
        store.held(),
        pytest.raises(Busy, match="another roceway-tune is changing this host"),
        Store(os.path.dirname(store.folder)).held(),
    ):
        pass


def test_what_was_applied(store: Store) -> None:
    assert store.applied() is None
    applied = Applied(at="2026-01-01T00:00:00Z", boot_id="x", complete=True, gids={"eth2": {"10.200.0.1": 3}})
    store.set_applied(applied)
    assert store.applied() == applied
    Path(store.folder, "applied.json").write_text("{")
    assert store.applied() is None


def test_going_back_over_two_runs_undoes_both_once(store: Store) -> None:
    first = steps()
    store.begin(HOST, first, "20260101T000000Z")
    later = host(mlx5(mtu=4200), bnxt("eth3"))
    store.begin(later, steps(later), "20260102T000000Z")
    now = host(mlx5(mtu=9000), bnxt("eth3", mtu=9000))
    chain = [store.snapshot(name) for name in store.snapshots()]
    back = [str(step) for step in restoring(chain, now)]
    assert [line for line in back if "MTU" in line] == ["eth3: MTU 9000 → 1500", "eth2: MTU 9000 → 1500"]
    (only,) = [str(step) for step in restoring(chain[1:], now) if "eth2: MTU" in str(step)]
    assert only == "eth2: MTU 9000 → 4200"


# -- the verdict --


def test_the_agent_reads_what_the_tuner_found(tmp_path: Path) -> None:
    wanted = desired(fabric(), "n0", {"rail0": "eth2", "rail1": "eth3"})
    well = mlx5("eth3", mtu=1500, pci=None)
    settled = replace(
        wanted.nics[1], dscp_prio=None, prio_tc=None, pfc=None, mtu=1500, pause=None, tos=None, cable_m=None
    )
    seen = host(mlx5(mtu=1500), well)
    plans = plan(replace(wanted, nics=(wanted.nics[0], settled)), seen)
    given = verdict.of_plans(plans, seen)
    verdict.write(str(tmp_path), given)
    found = verdicts(str(tmp_path))
    assert {"eth2", "0000:18:00.0"} <= set(found)
    assert "eth3" not in found
    assert "MTU 1500 → 9000" in found["eth2"]
    assert verdict.read(str(tmp_path)) == given


def test_a_verdict_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert verdict.read(str(tmp_path)) is None
    (tmp_path / verdict.FILE).write_text('{"version": 1}')
    assert verdict.read(str(tmp_path)) is None
