"""``roceway-tune lldp`` on capture files: who is at the other end, and is it whom fabric.yaml says?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from tests.conf.documents import document
from tests.tuner.test_wire import SWITCH
from tuner.__main__ import TUNE
from tuner.cli import run
from tuner.lldp import Lldp
from tuner.wire import make_lldp


def capture(folder: Path, *frames: Lldp) -> str:
    path = folder / "frames.pcap"
    wrpcap(str(path), [Ether(make_lldp(frame)) for frame in frames])
    return str(path)


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    (tmp_path / "fabric.yaml").write_text(json.dumps(document()))
    return str(tmp_path / "fabric.yaml")


def test_who_is_there_and_what_dcbx_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(TUNE, ["lldp", "--capture", capture(tmp_path, SWITCH, SWITCH)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "leaf-r0 Ethernet0 (rail0)",
        "  PFC: priorities 3 (at most 8); willing",
        "  ETS: class 0 (priorities 0,1,2,4,5,7) 50% ets; class 3 (priorities 3) 50% ets;"
        " class 6 (priorities 6) strict",
        "  ETS recommended: class 0 (priorities 0) 10% ets; class 1 (priorities 1) vendor;"
        " class 2 (priorities 2) strict;"
        " class 3 (priorities 3) 90% ets; class 4 (priorities 4) strict; class 5 (priorities 5) strict; class 6"
        " (priorities 6) strict; class 7 (priorities 7) cbs",
        "  application: UDP 4791 has priority 3",
        "  application: DSCP 26 has priority 3",
        "  application: DSCP 48 has priority 6",
    ]


def test_the_cabling_of_fabric_yaml(tmp_path: Path, fabric: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lldp", "-f", fabric, "--node", "h0", "--rail", "rail0", "--capture"]
    assert run(TUNE, [*words, capture(tmp_path, replace(SWITCH, system="leaf0"))]) == 0
    assert run(TUNE, [*words, capture(tmp_path, replace(SWITCH, system="leaf0", port="Ethernet16"))]) == 1
    assert "fabric.yaml has this cable at leaf0 Ethernet0 (L11)" in capsys.readouterr().out


def test_json_is_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(TUNE, ["lldp", "--json", "--capture", capture(tmp_path, SWITCH)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["heard"][0]["dcbx"], told["heard"][0]["pfc"]["enabled"], told["as_cabled"]) == ("ieee", [3], None)


def test_silence_cee_and_missing_options(tmp_path: Path, fabric: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(TUNE, ["lldp", "--capture", capture(tmp_path, Lldp("switch", "1", 120, cee=True))]) == 0
    assert "CEE" in capsys.readouterr().out
    wrpcap(str(tmp_path / "empty.pcap"), [Ether(b"\0" * 60)])
    assert run(TUNE, ["lldp", "--capture", str(tmp_path / "empty.pcap")]) == 1
    assert "no LLDP frame was heard" in capsys.readouterr().out
    assert run(TUNE, ["lldp"]) == 2
    assert run(TUNE, ["lldp", "--rail", "rail0", "--capture", "x"]) == 2
    assert run(TUNE, ["lldp", "-f", fabric, "--node", "h0", "--rail", "rail9", "--capture", "x"]) in (2, 3)
