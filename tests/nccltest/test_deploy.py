"""The probe's CronJob: known fields, real options, and no grant that acting does not need."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from nccltest.history import DEFAULT
from nccltest.kube import TAINT, Cluster
from tests.nccltest.apiserver import ApiServer, serving
from tests.nccltest.launch.schema import mistakes
from tests.world import ROOT

MANIFEST = ROOT / "conf/deploy/roceway-probe.yaml"
_VERBS = {"GET": "get", "PATCH": "patch", "POST": "create"}


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    found = list(yaml.safe_load_all(MANIFEST.read_text()))
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


@pytest.fixture(scope="module")
def pod(documents: dict[str, Any]) -> Any:
    return documents["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_the_api_knows_every_field(documents: dict[str, Any]) -> None:
    assert len(documents) == 6
    for kind, document in documents.items():
        model = {"Role": "V1Role", "RoleBinding": "V1RoleBinding"}.get(kind, f"V1{kind}")
        assert list(mistakes(model, document, kind)) == []
    documents["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["strange"] = 1
    assert list(mistakes("V1CronJob", documents["CronJob"], ""))
    del documents["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["strange"]


def test_grants_are_what_acting_asks_for_and_no_more(documents: dict[str, Any], tmp_path: Path) -> None:
    server = ApiServer("n1")
    with serving(server, tmp_path) as kubeconfig:
        cluster = Cluster.connect(kubeconfig)
        cluster.set_condition("n1", True, "Slow", "")
        cluster.set_label("n1", "node")
        cluster.set_taint("n1", True)
        cluster.tell("n1", "Slow", "", warning=True)
    asked = {_grant(request) for request in server.requests}
    granted = {
        ("default" if kind == "Role" else "", resource, verb)
        for kind in ("Role", "ClusterRole")
        for rule in documents[kind]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == asked


def _grant(request: str) -> tuple[str, str, str]:
    """``PATCH /api/v1/nodes/n1/status`` → no namespace, nodes/status, patch."""
    method, path = request.split()
    parts = path.strip("/").split("/")[2:]
    if parts[0] == "namespaces":
        return parts[1], parts[2], _VERBS[method]
    return "", "/".join([parts[0], *parts[2:]]), _VERBS[method]


def test_roles_are_bound_to_the_account_that_the_pod_has(documents: dict[str, Any], pod: Any) -> None:
    account = documents["ServiceAccount"]["metadata"]
    for kind in ("Role", "ClusterRole"):
        binding = documents[f"{kind}Binding"]
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": kind,
            "name": documents[kind]["metadata"]["name"],
        }
        assert binding["metadata"].get("namespace") == documents[kind]["metadata"].get("namespace")
        (subject,) = binding["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    assert pod["serviceAccountName"] == account["name"]
    assert documents["CronJob"]["metadata"]["namespace"] == account["namespace"]


def test_the_token_is_for_the_container_that_acts_alone(pod: Any) -> None:
    assert pod["automountServiceAccountToken"] is False
    having = [
        each["name"]
        for each in (*pod["initContainers"], *pod["containers"])
        if any(mount["name"] == "token" for mount in each["volumeMounts"])
    ]
    assert having == ["act"]


def test_containers_call_the_probe_with_options_that_it_has(pod: Any) -> None:
    steps = [*pod["initContainers"], *pod["containers"]]
    assert [each["name"] for each in steps] == ["run", "judge", "act"]
    for each in steps:
        shell, flag, line, name = each["command"]
        assert (shell, flag, name) == ("sh", "-c", "roceway-probe")
        assert f'roceway-probe {each["name"]} "$@" || test $? -eq 1' in line
        parser = argparse.ArgumentParser()
        parser.description = ""
        importlib.import_module(f"nccltest.commands.{each['name']}").arguments(parser)
        parser.parse_args(each["args"])


def test_history_stays_and_everything_written_has_a_volume(pod: Any) -> None:
    volumes = {each["name"]: each for each in pod["volumes"]}
    for each in (*pod["initContainers"], *pod["containers"]):
        mounts = {mount["mountPath"]: mount["name"] for mount in each["volumeMounts"]}
        assert volumes[mounts[str(DEFAULT.parent)]]["hostPath"]["path"] == str(DEFAULT.parent)
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
        assert set(mounts.values()) <= set(volumes)


def test_a_node_that_was_tainted_can_still_start_it(pod: Any) -> None:
    assert {"key": TAINT, "operator": "Exists"} in pod["tolerations"]
