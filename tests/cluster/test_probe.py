"""The probe on a real cluster: a group as an Indexed Job with its barrier, and what `act` does to a node."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from nccltest.history import History
from tests.cluster.cluster import Cluster
from tests.cluster.node import Node, until
from tests.cluster.pods import gone, pod, running
from tests.cluster.test_agent import FABRIC, has_four, start_agent
from tests.nccltest.test_act import summary
from tests.world import ROOT

SPACE, SYSTEM = "probe", "roceway-system"
MANIFEST = ROOT / "conf/deploy/roceway-probe.yaml"


@pytest.fixture(scope="module")
def nodes(cluster: Cluster) -> Iterator[list[Node]]:
    """Both nodes with plugin, agent and the probe's image."""
    for node in cluster.nodes:
        node.load(cluster.binaries.images / "roceway-probe.tar")
        node.roceway("roceway-cni", "install", "-f", FABRIC, "--node", node.name)
        start_agent(node)
    for node in cluster.nodes:
        until("four rails are allocatable", partial(has_four, cluster, node), 60)
    try:
        yield cluster.nodes
    finally:
        cluster.kubectl("delete", "namespace", SPACE, "--ignore-not-found")
        for node in cluster.nodes:
            node.kill("agent")
            node.roceway("roceway-cni", "uninstall")


@pytest.fixture(scope="module")
def manifests(cluster: Cluster, nodes: list[Node], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``plan --manifests`` wrote for one round of rails; namespace and priority class are there."""
    folder = tmp_path_factory.mktemp("manifests")
    fabric = yaml.safe_load(Path(FABRIC).read_text())
    fabric["probe"]["kubernetes"] = {"namespace": SPACE, "image": "roceway-probe:0.1.0", "gpu": "roceway.io/rail"}
    (folder / "fabric.yaml").write_text(yaml.safe_dump(fabric))
    words = ["plan", "-f", f"{folder}/fabric.yaml", "--purposes", "rail", "--manifests", f"{folder}/out"]
    nodes[0].roceway("roceway-probe", *words, "--state", f"{folder}/state")
    cluster.kubectl("create", "namespace", SPACE)
    cluster.kubectl("apply", "-f", f"{folder}/out/priority-class.yaml")
    return folder / "out"


def received(node: Node, nic: str) -> int:
    (told,) = json.loads(node.run("ip", "-j", "-s", "link", "show", nic))
    return int(told["stats64"]["rx"]["bytes"])


def job_of(path: Path) -> dict[str, Any]:
    (found,) = [each for each in yaml.safe_load_all(path.read_text()) if each["kind"] == "Job"]
    return dict(found)


def condition(cluster: Cluster, name: str) -> str:
    found = cluster.get("job", name, "-n", SPACE) or {"status": {}}
    ended = [each["type"] for each in found["status"].get("conditions", ()) if each["status"] == "True"]
    return next((each for each in ended if each in ("Complete", "Failed")), "")


def log(cluster: Cluster, job: str, index: int, container: str = "probe") -> str:
    which = f"batch.kubernetes.io/job-name={job},batch.kubernetes.io/job-completion-index={index}"
    return cluster.kubectl("logs", "-n", SPACE, "-l", which, "-c", container, "--tail=-1")


def test_a_groups_job_meets_measures_its_rail_and_its_log_is_parsed(
    cluster: Cluster, nodes: list[Node], manifests: Path, tmp_path: Path
) -> None:
    path = manifests / "round-00-group-0002.yaml"
    name = job_of(path)["metadata"]["name"]
    before = {nic: [received(node, nic) for node in nodes] for nic in ("nic0", "nic1", "nic2", "nic3", "eth0")}
    cluster.kubectl("apply", "-f", str(path))
    until(f"job {name} ends", lambda: condition(cluster, name), 150)
    text = log(cluster, name, 0)
    assert condition(cluster, name) == "Complete", text
    moved = {nic: [received(node, nic) - was for node, was in zip(nodes, before[nic], strict=True)] for nic in before}
    assert min(moved["nic2"]) > 2 << 20, "megabytes over its rail"
    assert all(max(moved[nic]) < 1 << 20 for nic in ("nic0", "nic1", "nic3")), moved
    (tmp_path / "pod0.log").write_text(text)
    (run,) = json.loads(nodes[0].roceway("roceway-probe", "parse", f"{tmp_path}/pod0.log", "--json"))["runs"]
    assert (run["status"], run["collective"], run["ranks"], run["nodes"]) == ("ok", "all_reduce", 2, 2)
    assert [row["size"] for row in run["rows"]] == [256 << 10, 512 << 10, 1 << 20]
    assert all(row["out_of_place"]["wrong"] == 0 and row["out_of_place"]["busbw"] > 0 for row in run["rows"])
    cluster.kubectl("delete", "-f", str(path))


def test_a_pod_whose_peer_never_comes_names_it_and_ends(cluster: Cluster, nodes: list[Node], manifests: Path) -> None:
    documents = list(yaml.safe_load_all((manifests / "round-00-group-0000.yaml").read_text()))
    (job,) = [each for each in documents if each["kind"] == "Job"]
    spec, name = job["spec"]["template"]["spec"], job["metadata"]["name"]
    words = spec["initContainers"][0]["command"]
    words[words.index("--seconds") + 1] = "5"
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0][
        "matchExpressions"
    ][0]["values"] = [nodes[1].name]  # both may go to one node, where there is room for one
    cluster.apply(*documents)
    until("the job has failed", lambda: condition(cluster, name) == "Failed", 90)
    told = [log(cluster, name, index, "barrier") for index in (0, 1)]
    assert any("these pods never came" in text or "did not let pod" in text for text in told), told
    cluster.kubectl("delete", "-n", SPACE, "job", name)


def test_the_cronjobs_manifest_is_taken_as_it_is(cluster: Cluster) -> None:
    cluster.tried("create", "namespace", SYSTEM)
    cluster.kubectl("apply", "-f", str(MANIFEST))
    assert cluster.get("cronjob", "roceway-probe", "-n", SYSTEM)["spec"]["schedule"] == "0 4 * * *"


def account(cluster: Cluster, folder: Path) -> Path:
    """A kubeconfig with a token of the probe's own service account."""
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", "roceway-probe", "-n", SYSTEM, "--duration=10m").strip()
    document["users"] = [{"name": "me", "user": {"token": token}}]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path


def remember(path: Path, *blamed: str) -> None:
    with History.open(path, create=True) as history:
        history.record(secrets.token_hex(8), time.time(), [], (), summary(*blamed, nodes="host[0-1]"))


def marks(cluster: Cluster, node: Node) -> tuple[str, str, bool]:
    """Condition, label, taint."""
    found = cluster.get("node", node.name)
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    taints = [each["key"] for each in found["spec"].get("taints", ())]
    label = found["metadata"]["labels"].get("roceway/degraded", "")
    return conditions.get("RocewayFabricDegraded", ""), label, "roceway/degraded" in taints


def test_a_blame_that_lasts_marks_the_node_and_is_taken_back_with_the_rights_that_the_manifest_grants(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.tried("create", "namespace", SYSTEM)
    cluster.kubectl("apply", "-f", str(MANIFEST))
    node, history = cluster.nodes[1], tmp_path / "history.db"
    words = ["act", "--history", str(history), "--mark=condition,event,label,taint", "--most=2"]
    words.append(f"--kubeconfig={account(cluster, tmp_path)}")

    def act(*blamed: str) -> None:
        remember(history, *blamed)
        cluster.nodes[0].roceway("roceway-probe", *words, check=False)

    act("nic:host1/rail2")
    assert marks(cluster, node) == ("", "", False), "one run is not enough"
    act("nic:host1/rail2")
    assert marks(cluster, node) == ("True", "nic-rail2", True)
    described = cluster.kubectl("describe", "node", node.name)
    assert "FabricDegraded" in described
    assert "RocewayFabricDegraded" in described
    new = pod("newcomer", node)
    del new["spec"]["nodeName"]
    new["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node.name}
    cluster.apply(new)
    until("the scheduler says why", lambda: "taint" in cluster.kubectl("describe", "pod", "newcomer"), 30)
    assert cluster.is_ready(node.name), "pods that run there run on"
    act()
    assert marks(cluster, node) == ("True", "nic-rail2", True), "one good run is not enough"
    act()
    assert marks(cluster, node) == ("False", "", False)
    assert "FabricRecovered" in cluster.kubectl("describe", "node", node.name)
    running(cluster, "newcomer", seconds=60)
    gone(cluster, "newcomer")


def test_acting_asked_for_nothing_that_was_forbidden_and_may_do_nothing_else(cluster: Cluster) -> None:
    name = f"system:serviceaccount:{SYSTEM}:roceway-probe"
    asked = [each for each in cluster.audit() if each["user"]["username"] == name]
    done = {(each["verb"], each["objectRef"]["resource"], each["objectRef"].get("subresource", "")) for each in asked}
    assert done == {
        ("get", "nodes", ""), ("patch", "nodes", ""), ("patch", "nodes", "status"), ("create", "events", ""),
    }  # fmt: skip
    assert {each["responseStatus"]["code"] for each in asked} <= {200, 201}
    words = ("get pods", "list nodes", "delete nodes", "get secrets", "create pods", "create events -n kube-system")
    may = [cluster.tried("auth", "can-i", *each.split(), f"--as={name}").stdout.strip() for each in words]
    assert may == ["no"] * len(words)
