"""The commands on a host without DCB, and on recorded hosts: exit codes, sentences, machine output."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.tuner.nics import fabric, host, mlx5
from tests.tuner.test_plan import after
from tuner.__main__ import TUNE
from tuner.cli import run
from tuner.desired import desired
from tuner.plan import plan
from tuner.table import rows, text

FABRIC = """
apiVersion: roceway/v1
kind: Fabric
metadata: {{name: test}}
rails: [{{name: rail0, subnet: 10.200.0.0/16, nodeBlock: 27}}, {{name: rail1, subnet: 10.201.0.0/16, nodeBlock: 27}}]
nodeTypes: {{hgx: {{speed: 400G, mode: host-device, cable: 3m, rails: {rails}}}}}
nodes: [{{match: "n[0-9]", type: hgx}}]
"""


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def tune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Calls a command with a state directory of its own."""

    def call(command: str, *words: str) -> Said:
        code = run(TUNE, [command, "--state-dir", str(tmp_path / "state"), *words])
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC.format(rails="{rail0: eth2, rail1: eth3}"))
    return str(path)


def well() -> Any:
    wanted = desired(fabric(), "n0", {"rail0": "eth2", "rail1": "eth3"})
    bare = host(mlx5(), mlx5("eth3"))
    done = [after(nic, each.steps) for nic, each in zip(bare.nics, plan(wanted, bare), strict=True)]
    return replace(bare, nics=tuple(done))


def recorded(folder: Path, seen: Any) -> str:
    path = folder / "n0.json"
    path.write_text(json.dumps(seen.to_json()))
    return str(path)


def test_a_recorded_host_that_is_as_wanted(tune: Any, file: str, tmp_path: Path) -> None:
    said = tune("verify", "-f", file, "--node", "n0", "--host", recorded(tmp_path, well()))
    assert (said.code, said.out) == (0, "")
    assert "of 2 NICs the driver does not show everything" in said.err  # ECN by priority: the firmware's business
    assert not (tmp_path / "state").exists()


def test_a_recorded_host_with_drift(tune: Any, file: str, tmp_path: Path) -> None:
    seen = well()
    bent = replace(seen, nics=(replace(seen.nics[0], mtu=1500), seen.nics[1]))
    said = tune("verify", "-f", file, "--node", "n0", "--host", recorded(tmp_path, bent), "--json")
    assert said.code == 1
    (found,) = json.loads(said.out)["hosts"]
    assert (found["node"], found["drift"]) == ("n0", True)
    assert "+rail0 eth2 MTU 9000" in found["diff"]
    assert [rail["text"] for rail in found["rails"]] == [["eth2: MTU 1500 → 9000"], []]


def test_a_folder_of_records_is_judged_whole(tune: Any, file: str, tmp_path: Path) -> None:
    folder = tmp_path / "states"
    folder.mkdir()
    seen = well()
    bent = replace(seen, node="n1", nics=(replace(seen.nics[0], mtu=1500), seen.nics[1]))
    for each in (seen, bent):
        (folder / f"{each.node}.json").write_text(json.dumps(each.to_json()))
    said = tune("verify", "-f", file, "--host", str(folder))
    assert said.code == 1
    assert [line for line in said.out.splitlines() if line[:3] in ("---", "+++")] == [
        "--- n1 (now)",
        "+++ n1 (fabric.yaml)",
    ]
    (folder / "n2.json").write_text("{")
    (folder / "n3.json").write_text(json.dumps(replace(seen, node="elsewhere").to_json()))
    said = tune("verify", "-f", file, "--host", str(folder))
    assert said.code == 2
    assert "--- n1 (now)" in said.out
    assert "n2.json" in said.err
    assert "no entry matches the host elsewhere" in said.err
    said = tune("verify", "-f", file, "--host", str(folder), "--json")
    assert said.code == 2
    assert [each["node"] for each in json.loads(said.out)["hosts"]] == ["n0", "n1"]


def test_a_folder_without_records_is_bad_input(tune: Any, file: str, tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    for words in ((), ("--json",)):
        said = tune("verify", "-f", file, "--host", str(tmp_path / "states"), *words)
        assert (said.code, said.out) == (2, "")
        assert "has no *.json" in said.err


def test_machine_output_is_json_where_no_record_could_be_judged(tune: Any, file: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    said = tune("verify", "-f", file, "--host", str(tmp_path / "bad.json"), "--json")
    assert said.code == 2
    assert json.loads(said.out) == {"hosts": []}


@pytest.mark.parametrize("content", ["", "[]", '{"node": "n0", "nics": [{"name": "eth2", "mtu": "x"}]}'])
def test_a_record_that_is_none_is_bad_input(tune: Any, file: str, tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    said = tune("verify", "-f", file, "--node", "n0", "--host", str(path))
    assert said.code == 2
    assert str(path) in said.err


def test_a_record_without_a_rail_s_nic_is_bad_input(tune: Any, file: str, tmp_path: Path) -> None:
    said = tune("verify", "-f", file, "--node", "n0", "--host", recorded(tmp_path, host(mlx5())))
    assert said.code == 2
    assert "eth3 of rail1 is not in it" in said.err


def test_a_host_that_fabric_yaml_does_not_know(tune: Any, file: str) -> None:
    said = tune("plan", "-f", file, "--node", "elsewhere")
    assert said.code == 2
    assert "no entry matches the host elsewhere" in said.err


def test_a_host_without_dcb_is_told_so_in_sentences(tune: Any, tmp_path: Path) -> None:
    path = tmp_path / "lo.yaml"
    path.write_text(FABRIC.format(rails="{rail0: ifb0, rail1: nosuch}"))
    if not os.path.exists("/sys/class/net/ifb0"):
        pytest.skip("this machine has no ifb0")
    for command in ("plan", "verify", *(["apply"] if os.geteuid() == 0 else [])):
        said = tune(command, "-f", str(path), "--node", "n0")
        assert said.code == 3, command
        assert "ifb0 has no DCB (driver ifb)" in said.out + said.err
        assert "there is no NIC nosuch here" in said.out + said.err
    said = tune("show", "ifb0")
    assert said.code == 3
    assert "no NIC here has DCB (ifb)" in said.err


def test_a_nic_that_is_not_there_lists_those_that_are(tune: Any) -> None:
    said = tune("show", "nosuch")
    assert said.code == 3
    assert "find nosuch: No such device (ENODEV): no such NIC; this host has" in said.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_nothing_to_roll_back(tune: Any, tmp_path: Path) -> None:
    assert tune("rollback").out.splitlines()[0] == "there is nothing to roll back: no snapshot, no unfinished run"
    assert json.loads(tune("rollback", "--list", "--json").out) == []
    said = tune("rollback", "20260101T000000Z")
    assert said.code == 2
    assert "there is no 20260101T000000Z; there is none" in said.err


def test_the_table_says_unknown_not_off() -> None:
    bare = replace(mlx5(), pfc=None, pause=None)
    cells = {row[0]: row[1:] for row in rows(host(bare, mlx5("eth3")))}
    assert cells["PFC"] == ("?", "none")
    assert cells["global pause"] == ("?", "rx on tx on")
    assert cells["MTU (RoCE)"][0] == "1500"


def test_a_wide_table_is_folded_and_loses_nothing() -> None:
    names = [f"nic-with-a-name{number}" for number in range(8)]
    shown = text(host(*(mlx5(name) for name in names)))
    assert max(map(len, shown.splitlines())) <= 200
    assert all(name in shown for name in names)
    assert shown.count("DSCP:priority") > 1


def test_show_and_plan_write_nothing(tune: Any, file: str, tmp_path: Path) -> None:
    tune("plan", "-f", file, "--node", "n0")
    tune("show", "lo")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--speed 0G", "--speed: 0G is no speed of a link"),
        ("--speed 400G --buffer 1MiB --alpha 1/0", "--alpha: 1/0 divides by zero"),
        (
            "--speed 400G --buffer 1MiB --alpha 1e999999999",
            "--alpha: 1e999999999 is no share; write it as 1/8 or 0.125",
        ),
    ],
)
def test_headroom_refuses_what_is_no_number_of_a_link(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(TUNE, ["headroom", "--model", "mlx5", "--cable", "3m", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_metrics_never_replace_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert run(TUNE, ["watch", "-f", "x.yaml", "--metrics", str(pipe)]) == 2
    assert f"--metrics: {pipe} is no file" in capsys.readouterr().err
    assert pipe.is_fifo()


ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="rollback needs root")


@ROOT_ONLY
@pytest.mark.parametrize(
    ("journal", "said"),
    [
        ("{", "damaged: "),
        ("[]", "damaged: "),
        (
            '{"snapshot": "x", "boot_id": "",'
            ' "steps": [{"step": "SetMtu", "nic": "gone0", "seen": 1500, "wanted": 9000}]}',
            "perhaps not as it was: gone0: MTU 1500 → 9000",
        ),
    ],
)
def test_a_run_that_cannot_be_undone_is_told_with_the_way_out_and_can_be_forgotten(
    journal: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tune"
    folder.mkdir()
    (folder / "journal.json").write_text(journal)
    rollback = ["rollback", "--state-dir", str(tmp_path)]
    assert run(TUNE, rollback) == 3
    assert (folder / "journal.json").exists()
    capsys.readouterr()
    assert run(TUNE, [*rollback, "--forget"]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert "`roceway-tune verify` says" in out
    assert not (folder / "journal.json").exists()
    assert run(TUNE, [*rollback, "--forget"]) == 0
    assert "nothing to forget" in capsys.readouterr().out


@ROOT_ONLY
def test_a_damaged_journal_names_the_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tune").mkdir()
    (tmp_path / "tune/journal.json").write_text("{")
    assert run(TUNE, ["rollback", "--state-dir", str(tmp_path)]) == 3
    assert "`roceway-tune rollback --forget` gives that run up" in capsys.readouterr().err


@ROOT_ONLY
def test_apply_waits_for_a_nic_that_is_not_there_and_not_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(fabric(rails="{rail0: nosuch0, rail1: nosuch1}").model_dump_json(by_alias=True, exclude_none=True))
    words = ["apply", "-f", str(path), "--node", "n0", "--state-dir", str(tmp_path / "state")]
    before = time.monotonic()
    assert run(TUNE, [*words, "--appear", "1"]) == 3
    assert 1 <= time.monotonic() - before < 20
    out = capsys.readouterr().out
    assert "waiting up to 1 s for nosuch0, nosuch1" in out
    assert "there is no NIC nosuch0 here" in out
    assert run(TUNE, words) == 3
    assert "waiting" not in capsys.readouterr().out


@ROOT_ONLY
def test_apply_does_not_wait_for_a_host_that_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(fabric().model_dump_json(by_alias=True, exclude_none=True))
    before = time.monotonic()
    assert run(TUNE, ["apply", "-f", str(path), "--node", "x", "--state-dir", str(tmp_path), "--appear", "30"]) == 2
    assert time.monotonic() - before < 10
