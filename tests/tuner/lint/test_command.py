"""``roceway-tune lint`` as it is called: files in, exit code out."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.lint import big
from tests.tuner.lint.scene import FABRIC, Scene, host
from tuner.__main__ import TUNE
from tuner.cli import run

WELL = big.config_db(0)
WELL["CABLE_LENGTH"]["AZURE"]["Ethernet8"] = "40m"  # the small fabric's uplink
UNBOUND = {**WELL, "PORT_QOS_MAP": {}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(folder: Path, name: str, value: Any) -> str:
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return name


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(TUNE, ["lint", *words])
    out, err = capsys.readouterr()
    return code, out, err


def findings(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    _, out, _ = called(capsys, *words, "--json")
    found: list[dict[str, Any]] = json.loads(out)["findings"]
    return found


def test_a_switch_that_is_well_is_done(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "--switch", "sonic:" + put(folder, "leaf0.json", WELL))
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("nothing found; ")


def test_a_switch_whose_maps_are_bound_nowhere_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "--switch", "sonic:" + put(folder, "leaf0.json", UNBOUND), "--json")
    assert code == 1
    (finding,) = (each for each in json.loads(out)["findings"] if each["rule"] == "S01")
    assert finding["severity"] == "critical"
    assert finding["where"] == ["leaf0 PORT_QOS_MAP"]


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 0), ("high", 1), ("medium", 1), ("info", 1)])
def test_fail_on_decides_the_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str], fail_on: str, code: int
) -> None:
    no_watchdog = {table: rows for table, rows in WELL.items() if table != "PFC_WD"}
    name = put(folder, "leaf0.json", no_watchdog)
    assert {each["severity"] for each in findings(capsys, "--switch", f"sonic:{name}")} == {"high"}
    assert called(capsys, "--switch", f"sonic:{name}", "--fail-on", fail_on)[0] == code


def test_a_profile_stands_in_for_the_fabric(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lossy = {**WELL, "DSCP_TO_TC_MAP": {"AZURE": {str(dscp): "0" for dscp in range(64)}}}
    name = put(folder, "leaf0.json", lossy)
    found = findings(capsys, "--switch", f"sonic:{name}", "--profile", "lossless-dscp")
    assert [each["where"] for each in found if each["rule"] == "L02"] == [["leaf0 DSCP_TO_TC_MAP|AZURE"]]


def small(folder: Path) -> None:
    """fabric.yaml with a file for each leaf, and two recorded hosts."""
    for rail in (0, 1):
        put(folder, f"leaf-r{rail}.json", WELL)
    sourced = FABRIC.replace("role: leaf, ports", "role: leaf, source: {file: NAME.json}, ports")
    for rail in (0, 1):
        sourced = sourced.replace("NAME.json", f"leaf-r{rail}.json", 1)
    put(folder, "fabric.yaml", sourced)
    hosts = Scene().hosts
    hosts["gpu-2"] = Scene().nic("gpu-2", "rail1", trust="pcp").hosts["gpu-2"]
    for name, each in hosts.items():
        put(folder, f"{name}.host.json", each.to_json())


def test_a_fabric_with_recorded_hosts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small(folder)
    found = findings(capsys, "-f", "fabric.yaml", "--host-state", "gpu-1.host.json", "gpu-2.host.json")
    assert [each["where"] for each in found if each["rule"] == "H01"] == [["gpu-2 rail1 (eth1)"]]
    assert not [each for each in found if each["rule"] == "READ"]


def test_a_folder_of_hosts_one_per_line_or_a_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    states = [host(1).to_json(), Scene().nic("gpu-2", "rail1", trust="pcp").hosts["gpu-2"].to_json()]
    (folder / "hosts").mkdir()
    put(folder / "hosts", "lines.json", "\n".join(json.dumps(each) for each in states) + "\n")
    put(folder, "list.json", states)
    for source in ("hosts", "list.json"):
        assert [each["where"] for each in findings(capsys, "--host-state", source) if each["rule"] == "H01"] == [
            ["gpu-2 rail1 (eth1)"]
        ]


def test_a_named_switch_stands_in_for_the_one_in_fabric_yaml(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small(folder)
    new = put(folder, "new.json", UNBOUND)
    found = findings(capsys, "-f", "fabric.yaml", "--switch", f"leaf-r1=sonic:{new}")
    assert [each["where"] for each in found if each["rule"] == "S01"] == [["leaf-r1 PORT_QOS_MAP"]]


HOSTILE = {
    "nested": "[" * 200_000,
    "numbers": json.dumps({**WELL, "WRED_PROFILE": {"ROCE": {"green_min_threshold": "9" * 5000}}}),
    "types": json.dumps({"PORT": [1, 2], "QUEUE": 7, "PORT_QOS_MAP": {"Ethernet0": "x"}, "DSCP_TO_TC_MAP": {"A": [1]}}),
    "nul": "\0" * 10_000,
    "empty": "",
    "binary": "\x80\x81",
    "big number": '{"PORT": {"Ethernet0": {"speed": 1' + "0" * 6000 + "}}}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_switch_costs_findings_of_its_own_and_not_the_run(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    small(folder)
    (folder / "leaf-r1.json").write_text(HOSTILE[name], encoding="latin-1")
    code, out, err = called(capsys, "-f", "fabric.yaml", "--host-state", "gpu-1.host.json", "--json")
    found = json.loads(out)["findings"]
    assert code in (0, 1)
    assert "Traceback" not in err
    assert [each for each in found if each["rule"] == "READ" and each["where"][0].startswith("leaf-r1")]
    assert not [each for each in found if each["where"][0].startswith("leaf-r0")]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_host_costs_one_finding(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (folder / "bad.json").write_text(HOSTILE[name], encoding="latin-1")
    good = put(folder, "good.json", host(1).to_json())
    found = findings(capsys, "--host-state", "bad.json", good)
    assert [(each["rule"], each["severity"]) for each in found] == [("READ", "high")]
    assert found[0]["where"][0].startswith("bad.json")


def _nic(**changes: Any) -> dict[str, Any]:
    state = host(1).to_json()
    for path, value in changes.items():
        part, _, field = path.partition("__")
        if field:
            state["nics"][0][part][field] = value
        else:
            state["nics"][0][part] = value
    return state


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (_nic(ets__prio_tc=[0, 1]), "ets.prio_tc has 2 values, not 8"),
        (_nic(counters__rx_discards=[]), "counters.rx_discards has 0 values, not 8"),
        (_nic(pfc__enabled=[9]), "pfc.enabled has a number that is not 0 to 7"),
        (_nic(buffer__prio_buffer=[0, 0, 0, 77, 0, 0, 0, 0]), "buffer.prio_buffer has a number"),
        (_nic(addresses=["no address"]), "does not appear to be an IPv4 or IPv6"),
        (_nic(mtu="big"), "nics[].mtu"),
    ],
)
def test_a_host_that_cannot_be_one_is_not_judged(
    folder: Path, capsys: pytest.CaptureFixture[str], state: dict[str, Any], why: str
) -> None:
    (found,) = findings(capsys, "--host-state", put(folder, "bad.json", state))
    assert found["rule"] == "READ"
    assert why in found["evidence"]


def test_nothing_to_look_at_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys)
    assert (code, out) == (2, "")
    assert "nothing to look at" in err


@pytest.mark.parametrize(
    "words",
    [
        ("--switch", "sonic:not-there.json"),
        ("--switch", "junos:x"),
        ("--host-state", "not-there.json"),
        ("-f", "no.yaml"),
    ],
)
def test_what_is_not_there_is_bad_input(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code, out, err = called(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("roceway-tune: ")


def test_reports_are_written_beside_what_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = put(folder, "leaf0.json", UNBOUND)
    code, out, _ = called(capsys, "--switch", f"sonic:{name}", "--sarif", "lint.sarif", "--html", "lint.html", "--json")
    assert code == 1
    assert json.loads(out)["findings"]
    assert json.loads((folder / "lint.sarif").read_text())["version"] == "2.1.0"
    assert (folder / "lint.html").read_text().startswith("<!DOCTYPE html>")
    assert not list(folder.glob(".lint*"))  # written under another name first


def test_a_report_that_cannot_be_written_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = put(folder, "leaf0.json", WELL)
    code, _, err = called(capsys, "--switch", f"sonic:{name}", "--html", "/proc/lint.html")
    assert code == 3
    assert "/proc/lint.html" in err


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(TUNE, ["lint", "--help"])
    text = capsys.readouterr().out
    for word in ("--switch sonic:config_db.json", "--host-state", "not evaluated", "--fail-on"):
        assert word in text


def test_two_readings_of_a_host_are_one_host_and_a_rate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = host(1).to_json(), host(1).to_json()
    second["at"] = "2030-06-01T10:00:10+00:00"
    second["nics"][0]["counters"]["rx_pause_us"] = [0, 0, 0, 5_000_000, 0, 0, 0, 0]
    found = findings(capsys, "--host-state", put(folder, "b.json", second), put(folder, "a.json", first))
    assert [each["evidence"] for each in found] == ["priority 3 was paused by the switch 50% of the time"]


def test_nothing_to_look_at_is_an_error_and_not_fine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "-f", put(folder, "fabric.yaml", FABRIC))
    assert (code, out) == (2, "")
    assert "no switch in it has a source; give --switch, --host-state or --live" in err
    (folder / "hosts").mkdir()
    code, out, err = called(capsys, "--host-state", "hosts")
    assert (code, out) == (2, "")
    assert "has no *.json" in err


@pytest.mark.parametrize("option", ["--sarif", "--html"])
def test_where_a_file_cannot_be_written_is_told_before_reading(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    source = "sonic:" + put(folder, "leaf0.json", WELL)
    for path, why in (("nosuch/x", "is in no folder that exists"), (str(folder), "is a folder")):
        code, out, err = called(capsys, "--switch", source, option, path)
        assert (code, out) == (2, "")
        assert f"{option}: {path} {why}" in err


def test_a_folder_of_switches_that_is_not_there_is_one_cause(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small(folder)
    for rail in (0, 1):
        (folder / f"leaf-r{rail}.json").unlink()
    (finding,) = (each for each in findings(capsys, "-f", "fabric.yaml") if each["rule"] == "READ")
    assert finding["evidence"] == "cannot be read: No such file or directory"
    assert finding["where"] == ["leaf-r0 leaf-r0.json", "leaf-r1 leaf-r1.json"]


def test_a_line_is_a_line_for_grep(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = called(capsys, "--switch", "sonic:" + put(folder, "leaf0.json", WELL))
    assert all(line.startswith(("not evaluated", "nothing found")) for line in out.splitlines())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"root:x:0:0:root:/root:/bin/bash", "nor what mlnx_qos, dcb or niccli print"),
        (b'{"node": "\xe9"}', "is not UTF-8 text (byte 10)"),
        (b'{"node": 1' + b"0" * 5000 + b"}", "has a number of more than 4300 digits"),
    ],
)
def test_a_host_s_file_that_is_none_says_why(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes, why: str
) -> None:
    (folder / "host.json").write_bytes(content)
    (finding,) = findings(capsys, "--host-state", "host.json")
    assert (finding["rule"], finding["where"]) == ("READ", ["host.json"])
    assert why in finding["evidence"]


def test_a_page_into_a_pipe_leaves_it_a_pipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(folder, "leaf.json", WELL)
    os.mkfifo("page")
    reader = os.open("page", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
    try:
        called(capsys, "--switch", "sonic:leaf.json", "--html", "page")
        assert Path("page").is_fifo()
        assert os.read(reader, 64).startswith(b"<!")
    finally:
        os.close(reader)


@pytest.mark.parametrize("name", ["", "a b", "../x"])
def test_a_switch_needs_a_name(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(folder, "leaf.json", WELL)
    code, _, err = called(capsys, "--switch", f"{name}=sonic:leaf.json")
    assert code == 2
    assert "is no switch's name" in err
