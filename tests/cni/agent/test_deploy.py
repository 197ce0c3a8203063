"""The unit file and the DaemonSet: valid, consistent, and of the options that the agent has."""

from __future__ import annotations

import argparse
import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient

from cni.agent import server
from cni.agent.commands import run as run_command
from cni.agent.nodeoptions import ACCOUNT
from cni.agent.resident import DRAIN
from cni.cli import _parser
from tests.world import ROOT

UNIT = ROOT / "conf" / "deploy" / "roceway-agent.service"
MANIFEST = ROOT / "conf" / "deploy" / "roceway-agent.yaml"


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """Everything of the manifest by its kind."""
    found = list(yaml.safe_load_all(MANIFEST.read_text()))
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


@pytest.fixture(scope="module")
def manifest(documents: dict[str, Any]) -> Any:
    """The DaemonSet."""
    return documents["DaemonSet"]


@pytest.fixture(scope="module")
def pod(manifest: Any) -> Any:
    """Its pods."""
    return manifest["spec"]["template"]["spec"]


def agent_options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    run_command.arguments(parser)
    return parser.parse_args(words)


def test_the_api_knows_every_field(documents: dict[str, Any]) -> None:
    """The client's models drop what they do not know: what comes back must be what went in."""
    client: Any = ApiClient()
    for kind, document in documents.items():
        known = client.sanitize_for_serialization(
            client.deserialize(json.dumps(document), f"V1{kind}", "application/json")
        )
        assert known == document


def test_of_the_api_the_agent_may_only_write_events(documents: dict[str, Any], pod: Any) -> None:
    assert set(documents) == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"}
    (rule,) = documents["ClusterRole"]["rules"]
    assert rule == {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}
    binding, account = documents["ClusterRoleBinding"], documents["ServiceAccount"]
    assert binding["roleRef"]["name"] == documents["ClusterRole"]["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert documents["DaemonSet"]["metadata"]["namespace"] == account["metadata"]["namespace"]
    for verb in rule["verbs"]:
        assert re.search(rf"- {verb}  # ", MANIFEST.read_text())


def test_the_agent_has_the_options_that_it_is_given(pod: Any) -> None:
    (container,) = pod["containers"]
    options = agent_options(container["args"])
    assert (options.socket, options.state_dir) == (run_command.DEFAULT_SOCKET, "/var/lib/roceway")
    (init,) = pod["initContainers"]
    assert _parser().parse_args([*init["command"][1:], *init["args"]]).method == "merge"


def test_every_capability_has_its_why(pod: Any) -> None:
    lines = MANIFEST.read_text().splitlines()
    (container,) = pod["containers"]
    for name in container["securityContext"]["capabilities"]["add"]:
        (line,) = [line for line in lines if re.match(rf"\s+- {name}\b", line)]
        assert "  # " in line
    unit = UNIT.read_text()
    for name in _unit()["Service"]["CapabilityBoundingSet"].split():
        assert f"# {name.removeprefix('CAP_')}: " in unit


def test_nothing_is_privileged_and_only_the_agent_has_a_token(pod: Any) -> None:
    for container in (*pod["initContainers"], *pod["containers"]):
        context = container["securityContext"]
        assert not context.get("privileged")
        assert context["readOnlyRootFilesystem"]
        assert context["capabilities"]["drop"] == ["ALL"]
        assert "memory" in container["resources"]["limits"]
    assert pod["automountServiceAccountToken"] is False
    mounted = [
        (container["name"], mount["mountPath"])
        for container in (*pod["initContainers"], *pod["containers"])
        for mount in container["volumeMounts"]
        if mount["name"] == "account"
    ]
    assert mounted == [("agent", ACCOUNT)]
    (volume,) = [volume for volume in pod["volumes"] if "projected" in volume]
    assert volume["projected"]["defaultMode"] == 0o400
    paths = [volume["projected"]["sources"][0]["serviceAccountToken"]["path"]]
    paths += [item["path"] for item in volume["projected"]["sources"][1]["configMap"]["items"]]
    assert paths == ["token", "ca.crt"]
    assert pod["hostNetwork"]
    assert "hostPID" not in pod


def test_mounts_and_volumes_fit(pod: Any) -> None:
    volumes = {volume["name"] for volume in pod["volumes"]}
    used = {
        mount["name"]
        for container in (*pod["initContainers"], *pod["containers"])
        for mount in container["volumeMounts"]
    }
    assert used == volumes
    (agent,) = pod["containers"]
    places = {mount["mountPath"]: mount for mount in agent["volumeMounts"]}
    options = agent_options(agent["args"])
    for needed in (str(Path(options.socket).parent), options.state_dir, options.conf_dir, "/run/netns"):
        assert needed in places
    assert places["/run/netns"]["mountPropagation"] == "HostToContainer"
    for path, mount in places.items():  # a path means the same to plugin and agent only if it is the same
        (volume,) = [volume for volume in pod["volumes"] if volume["name"] == mount["name"]]
        host = volume.get("hostPath", {}).get("path", path)
        assert host == path or path == f"/host{host}" or "hostPath" not in volume


def test_the_way_back_takes_what_the_way_there_put(pod: Any) -> None:
    (document,) = yaml.safe_load_all((MANIFEST.parent / "roceway-uninstall.yaml").read_text())
    client: Any = ApiClient()
    known = client.sanitize_for_serialization(
        client.deserialize(json.dumps(document), "V1DaemonSet", "application/json")
    )
    assert known == document
    (there,), (back,) = pod["initContainers"], document["spec"]["template"]["spec"]["initContainers"]
    assert back["image"] == there["image"]
    asked = _parser().parse_args([*back["command"][1:], *back["args"]])
    put = _parser().parse_args([*there["command"][1:], *there["args"]])
    assert (asked.bin_dir, asked.conf_dir) == (put.bin_dir, put.conf_dir)
    assert document["spec"]["template"]["spec"]["tolerations"] == pod["tolerations"], "every node that has it"


def test_the_lines_that_may_be_switched_on_are_yaml_in_their_places() -> None:
    text = MANIFEST.read_text()
    switched = next(each for each in yaml.safe_load_all(text.replace("#+", "")) if each["kind"] == "DaemonSet")
    client: Any = ApiClient()
    known = client.sanitize_for_serialization(
        client.deserialize(json.dumps(switched), "V1DaemonSet", "application/json")
    )
    assert known == switched
    pod = switched["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (pod["hostPID"], pod["runtimeClassName"]) == (True, "nvidia")
    assert "SYS_PTRACE" in container["securityContext"]["capabilities"]["add"]
    assert {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"} in container["env"]


def test_the_probes_ask_the_agent_itself(pod: Any) -> None:
    (agent,) = pod["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert agent[probe]["exec"]["command"] == ["roceway-agent", "status", "--ready"]


def _unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # as its documentation says
    parser.read_string(UNIT.read_text())
    return parser


def test_the_unit_starts_the_agent_with_options_that_it_has() -> None:
    words = _unit()["Service"]["ExecStart"].split()
    assert words[0].endswith("/roceway-agent")
    assert words[1] == "run"
    assert agent_options(words[2:]).socket == run_command.DEFAULT_SOCKET


def test_both_give_requests_in_flight_the_time_to_end(pod: Any) -> None:
    service = _unit()["Service"]
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > DRAIN + 10
    assert pod["terminationGracePeriodSeconds"] > DRAIN + 10
    assert int(service["WatchdogSec"]) < server.WORK_WAIT + 10


def test_the_unit_gives_the_agent_no_mounts_of_its_own() -> None:
    """It would not see the namespaces that a runtime mounts later, or not write below /proc/sys."""
    own = {"PrivateTmp", "ProtectSystem", "ProtectHome", "PrivateDevices", "ProtectKernelTunables", "PrivateMounts"}
    own |= {"ReadOnlyPaths", "InaccessiblePaths", "BindPaths", "RootDirectory", "ProtectProc", "ProtectControlGroups"}
    assert not own & set(_unit()["Service"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_finds_nothing_wrong_but_that_it_is_not_installed() -> None:
    done = subprocess.run(["systemd-analyze", "verify", str(UNIT)], capture_output=True, text=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if "is not executable" not in line and UNIT.name in line]
    assert lines == []
