"""The units and the DaemonSet: valid, ordered before whoever starts pods, and of the options that the tuner has."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient

from tests.world import ROOT

DEPLOY = ROOT / "conf/deploy"
UNITS = sorted(DEPLOY.glob("roceway-tune*.service"))
MANIFEST = DEPLOY / "roceway-tune.yaml"


def options(words: list[str]) -> argparse.Namespace:
    """The command's own parser takes the words."""
    command, *rest = words
    parser = argparse.ArgumentParser()
    importlib.import_module(f"tuner.commands.{command}").arguments(parser)
    return parser.parse_args(rest)


@pytest.fixture(scope="module")
def manifest() -> Any:
    (document,) = yaml.safe_load_all(MANIFEST.read_text())
    return document


def test_there_are_two_units() -> None:
    assert [unit.stem for unit in UNITS] == ["roceway-tune-watch", "roceway-tune"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_calls_the_tuner_with_options_that_it_has(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *words = shlex.split(line)
    assert program == "/opt/roceway/bin/roceway-tune"
    assert options(words).fabric == Path("/etc/roceway/fabric.yaml")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path) -> None:
    for each in UNITS:
        text = each.read_text().replace("/opt/roceway/bin/roceway-tune", "/bin/true")
        (tmp_path / each.name).write_text(text)
    words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / unit.name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert complaints == []


def test_nics_are_tuned_before_anything_can_start_a_pod() -> None:
    text = (DEPLOY / "roceway-tune.service").read_text()
    (line,) = re.findall(r"^Before=(.*)$", text, re.MULTILINE)
    assert {"kubelet.service", "containerd.service", "crio.service", "roceway-agent.service"} <= set(line.split())


def test_the_api_knows_every_field(manifest: Any) -> None:
    client: Any = ApiClient()
    known = client.sanitize_for_serialization(
        client.deserialize(json.dumps(manifest), "V1DaemonSet", "application/json")
    )
    assert known == manifest


def test_the_daemonset_applies_and_then_watches(manifest: Any) -> None:
    pod = manifest["spec"]["template"]["spec"]
    (init,), (container,) = pod["initContainers"], pod["containers"]
    assert options(["apply", *init["args"]]).wait == 60
    assert options([container["command"][1], *container["args"]]).enforce
    for each in (init, container):
        assert not each["securityContext"]["privileged"]
        assert each["securityContext"]["capabilities"]["drop"] == ["ALL"]
        mounted = {mount["name"] for mount in each["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
