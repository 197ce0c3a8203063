"""What is rendered is what fabric.yaml calls for: read back, linted, compared, and held as text."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.switch.fabrics import PORTS, fabric
from tests.world import ROOT
from tuner.__main__ import TUNE
from tuner.cli import run
from tuner.lint.run import lint
from tuner.lint.world import Given
from tuner.switch.compare import compare
from tuner.switch.intended import intended
from tuner.switch.model import Platform
from tuner.switch.read import read
from tuner.switch.render import as_switch, render

GOLDEN = ROOT / "tests/golden/switch"
CLASSES: dict[str, dict[str, Any]] = {
    "default": {},
    "other-numbers": {"lossless": {"priority": 4, "dscp": 34, "bandwidth": "60%"}, "cnp": {"priority": 7, "dscp": 56}},
    "cnp-weighted": {"cnp": {"scheduling": "ets"}},
    "sonic-default": {"profile": "sonic-default"},
    "ecn-only": {"profile": "ecn-only"},
    "ecn-off": {"profile": "ecn-off"},
    "all-of-the-link": {"lossless": {"bandwidth": "100%"}},
}
platforms = pytest.mark.parametrize("platform", PORTS)
classes = pytest.mark.parametrize("qos", CLASSES.values(), ids=CLASSES)


@platforms
@classes
def test_read_back_it_is_the_intent(platform: Platform, qos: dict[str, Any]) -> None:
    wanted = intended(fabric(platform, qos=qos), "leaf0")
    switch = as_switch(wanted)
    assert [finding for finding in switch.findings if finding.kind != "ignored"] == []
    assert [*switch.ports] == [port.name for port in wanted.ports]
    for port in switch.ports.values():
        assert port.pfc == frozenset(wanted.lossless)
        assert port.trust is not None
        assert "dscp" in port.trust
        assert port.mtu == (9214 if platform == "eos" else 9216)
        queues = {dscp: port.queue_of(port.tc_of(dscp) or 0) for dscp in range(64)}
        cnp, roce = queues.pop(wanted.qos.cnp.dscp), queues.pop(wanted.qos.lossless.dscp)
        also = {queues.pop(each.dscp) for each in wanted.qos.also}
        assert len({cnp, roce, *also, *queues.values()}) == 3 + len(also)  # each class has a queue of its own
        for number in (roce, *also):
            queue = port.queue(number if number is not None else -1)
            assert queue is not None
            assert queue.ecn is not None
            ecn = wanted.qos.ecn
            expected = (True, ecn.kmin, ecn.kmax) if ecn.enabled else (False, None, None)
            found = (queue.ecn.enabled, queue.ecn.kmin, queue.ecn.kmax)
            assert found == expected or not (ecn.enabled or queue.ecn.enabled)
        first = port.queue(cnp if cnp is not None else -1)
        assert first is not None
        assert first.scheduler is not None
        assert (first.scheduler.kind == "strict") == (wanted.qos.cnp.scheduling == "strict")
        assert (port.watchdog is not None and port.watchdog.enabled) == bool(wanted.lossless)


@platforms
@classes
def test_linting_it_finds_nothing(platform: Platform, qos: dict[str, Any]) -> None:
    given = fabric(platform, qos=qos)
    leaf, spine = (as_switch(intended(given, name)) for name in ("leaf0", "spine0"))
    report = lint(Given(given, None, (), (leaf, spine)), date(2026, 11, 20))
    assert [(each.rule, each.evidence) for each in report.findings] == []


def test_linting_a_spectrum_finds_nothing() -> None:
    given = fabric("sonic", asic="spectrum-4")
    leaf, spine = (as_switch(intended(given, name)) for name in ("leaf0", "spine0"))
    assert not lint(Given(given, None, (), (leaf, spine)), date(2026, 11, 20)).findings
    assert all((port.groups or {})[3].automatic for port in leaf.ports.values())
    assert {port.cable for port in leaf.ports.values()} == {3.0, 30.0}


@platforms
def test_a_mistake_in_it_is_found(platform: Platform) -> None:
    """So that "finds nothing" is not "looks at nothing"."""
    given = fabric(platform)
    leaf = as_switch(intended(given, "leaf0"))
    ports = {name: replace(port, pfc=frozenset()) for name, port in leaf.ports.items()}
    report = lint(Given(given, None, (), (replace(leaf, ports=ports),)), date(2026, 11, 20))
    assert {"L01", "L02"} <= {each.rule for each in report.findings}


@platforms
def test_the_text_is_the_golden_one(platform: Platform) -> None:
    """After a wanted change: ROCEWAY_GOLDEN=write, then read the difference."""
    text = render(intended(fabric(platform, asic="spectrum-4" if platform == "sonic" else None), "leaf0"))
    path = GOLDEN / f"{platform}.txt"
    if os.environ.get("ROCEWAY_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


@platforms
def test_nothing_differs_from_itself(platform: Platform) -> None:
    wanted = intended(fabric(platform), "leaf0")
    assert compare(as_switch(wanted), wanted, as_switch(wanted)) == ()


def test_a_difference_is_told_once_with_its_ports() -> None:
    wanted = intended(fabric("sonic"), "leaf0")
    tables = json.loads(render(wanted))
    tables["DSCP_TO_TC_MAP"]["ROCE"]["26"] = "0"
    tables["PORT_QOS_MAP"]["Ethernet32"]["pfc_enable"] = "3,4"
    del tables["PORT"]["Ethernet0"]["mtu"]
    saved = read("sonic", "leaf0", {"f": json.dumps(tables).encode()})
    found = {each.setting: each for each in compare(saved, wanted, as_switch(wanted))}
    assert {*found} == {"DSCP 26", "PFC", "MTU"}
    assert (found["DSCP 26"].saved, found["DSCP 26"].wanted) == (
        "class 0, queue 0, lossy",
        "class 3, queue 3, lossless",
    )
    assert len(found["DSCP 26"].ports) == 5
    assert (found["PFC"].ports, found["PFC"].saved, found["PFC"].wanted) == (("Ethernet32",), "3,4", "3")
    assert found["PFC"].place == "PORT_QOS_MAP|Ethernet32.pfc_enable"
    assert (found["MTU"].saved, found["MTU"].ports) == ("unknown", ("Ethernet0",))


def test_other_names_for_the_same_are_no_difference() -> None:
    wanted = intended(fabric("sonic"), "leaf0")
    text = render(wanted).replace("ROCE", "AZURE_LOSSLESS")
    saved = read("sonic", "leaf0", {"f": text.encode()})
    assert compare(saved, wanted, as_switch(wanted)) == ()


def test_a_port_that_is_missing_and_a_code_point_that_strays_into_the_lossless_class() -> None:
    wanted = intended(fabric("sonic"), "leaf0")
    tables = json.loads(render(wanted))
    tables["DSCP_TO_TC_MAP"]["ROCE"]["3"] = "3"
    text = json.dumps(tables).replace("Ethernet12", "Ethernet99")
    found = {
        each.setting: each for each in compare(read("sonic", "leaf0", {"f": text.encode()}), wanted, as_switch(wanted))
    }
    assert found["port"].ports == ("Ethernet12",)
    assert found["DSCP 3"].saved == "class 3, queue 3, lossless"


# --- commands ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    given = fabric("sonic")
    text = given.model_dump_json(exclude_none=True, exclude_defaults=True)
    document = json.loads(text)
    document["switches"][0]["source"] = {"file": "leaf0.json"}
    (tmp_path / "fabric.yaml").write_text(json.dumps(document))
    (tmp_path / "leaf0.json").write_text(render(intended(given, "leaf0")))
    return tmp_path


def test_render_prints_the_configuration_and_tells_how_to_apply_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(TUNE, ["render", "-f", str(folder / "fabric.yaml"), "--switch", "leaf0"]) == 0
    out, err = capsys.readouterr()
    assert out == (folder / "leaf0.json").read_text()
    assert "config load FILE" in err


def test_render_knows_the_switches_that_there_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(TUNE, ["render", "-f", str(folder / "fabric.yaml"), "--switch", "leaf1"]) == 2
    assert "there is no switch leaf1; did you mean leaf0?" in capsys.readouterr().err


def test_diff_by_the_source_of_fabric_yaml_relative_to_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diff", "-f", str(folder / "fabric.yaml"), "--switch", "leaf0"]
    assert run(TUNE, words) == 0
    assert "5 ports are what fabric.yaml calls for" in capsys.readouterr().out
    text = (folder / "leaf0.json").read_text()
    (folder / "leaf0.json").write_text(text.replace('"pfc_enable": "3"', '"pfc_enable": ""'))
    assert run(TUNE, words) == 1
    out = capsys.readouterr().out
    assert "PFC" in out
    assert "Ethernet0 … Ethernet32 (5)" in " ".join(out.split())
    assert run(TUNE, [*words, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {"PFC"} <= {each["setting"] for each in told["differences"]}


def test_diff_without_a_source_or_with_a_broken_one_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diff", "-f", str(folder / "fabric.yaml"), "--switch"]
    assert run(TUNE, [*words, "spine0"]) == 2
    assert "has no source; give --saved FILE" in capsys.readouterr().err
    (folder / "leaf0.json").write_text("{")
    assert run(TUNE, [*words, "leaf0"]) == 2
    assert "is not JSON" in capsys.readouterr().err
    assert run(TUNE, [*words, "leaf0", "--saved", str(folder / "nothing")]) == 2
    assert "ENOENT" in capsys.readouterr().err
