"""conf/deploy/roceway-agent.yaml as shipped, on a real API server with RBAC: installed, probed, updated, removed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.node import Node, until
from tests.cluster.pods import addresses, attached, gone, pod, running, state
from tests.cluster.test_agent import FABRIC, RAILS, allocatable, has_four
from tests.world import ROOT

MANIFEST = ROOT / "conf/deploy/roceway-agent.yaml"
UNINSTALL = ROOT / "conf/deploy/roceway-uninstall.yaml"
SYSTEM = "roceway-system"
_BOTH = {"subnets": ["10.203.0.0/24", "fd00:203::/48"], "nodeBlock": {"v4": 27, "v6": 64}}


def agent_pod(cluster: Cluster, node: Node) -> Any:
    """The agent's pod on a node that is not ending; None while there is none."""
    found = cluster.get("pods", "-n", SYSTEM, "-l", "app.kubernetes.io/name=roceway-agent") or {"items": []}
    mine = [each for each in found["items"] if each["spec"].get("nodeName") == node.name]
    return next((each for each in mine if "deletionTimestamp" not in each["metadata"]), None)


def restarts(cluster: Cluster, node: Node) -> int:
    found = agent_pod(cluster, node)
    return int(found["status"]["containerStatuses"][0]["restartCount"]) if found else 0


def is_ready(cluster: Cluster, node: Node) -> bool:
    found = agent_pod(cluster, node)
    return bool(found) and all(each["ready"] for each in found["status"].get("containerStatuses", [{"ready": False}]))


def log(cluster: Cluster, node: Node, container: str = "agent") -> str:
    return cluster.kubectl(
        "logs", "-n", SYSTEM, agent_pod(cluster, node)["metadata"]["name"], "-c", container, check=False
    )


def requests(cluster: Cluster, node: Node, verb: str) -> list[dict[str, Any]]:
    """What the agent's log says that it answered."""
    lines = [json.loads(line) for line in log(cluster, node).splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "request" and line["verb"] == verb]


def reasons(cluster: Cluster, name: str) -> set[str]:
    """Reasons of a pod's events."""
    found = cluster.get("events", f"--field-selector=involvedObject.name={name}") or {"items": []}
    return {each["reason"] for each in found["items"]}


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[Node]:
    """The second node; the DaemonSet runs on both, installed by the three commands of its manifest."""
    cluster.tried("create", "namespace", SYSTEM)  # the probe's tests may have made it
    cluster.kubectl("-n", SYSTEM, "create", "configmap", "roceway-fabric", f"--from-file=fabric.yaml={FABRIC}")
    cluster.kubectl("apply", "-f", str(MANIFEST))
    try:
        for each in cluster.nodes:
            until(f"the agent on {each.name} is ready", partial(is_ready, cluster, each), 90)
        yield cluster.nodes[1]
    finally:
        pods = [each["metadata"]["name"] for each in (cluster.get("pods") or {"items": []})["items"]]
        if pods:
            gone(cluster, *pods)
        cluster.kubectl("delete", "--ignore-not-found", "-f", str(MANIFEST))
        cluster.kubectl("delete", "namespace", SYSTEM, "--ignore-not-found")
        for each in cluster.nodes:
            each.roceway("roceway-cni", "uninstall")


def test_every_probe_passes_and_the_kubelet_counts_the_rails(cluster: Cluster, node: Node) -> None:
    for each in cluster.nodes:
        until(f"{each.name} has four rails", partial(has_four, cluster, each), 30)
        (container,) = agent_pod(cluster, each)["status"]["containerStatuses"]
        assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
        assert (each.root / "var/lib/roceway").stat().st_mode & 0o777 == 0o700
    assert "Unhealthy" not in cluster.kubectl("get", "events", "-n", SYSTEM)


def test_the_plugin_it_installed_asks_it_and_pods_get_their_rails(cluster: Cluster, node: Node) -> None:
    cluster.apply(pod("two", node, rails=2), pod("all", node, annotation="all"), pod("plain", node))
    running(cluster, "two", "all", "plain")
    rails = attached(node)["default/two"]
    assert len(rails) == 2
    assert sorted(addresses(cluster, "two")) == ["eth0", *rails]
    assert sorted(addresses(cluster, "all")) == ["eth0", *RAILS]
    assert sorted(addresses(cluster, "plain")) == ["eth0"]
    assert sorted(each["pod"] for each in requests(cluster, node, "ADD")) == ["all", "plain", "two"]
    assert "left to the plugin" not in log(cluster, node)


def test_drift_is_put_back_or_told_as_an_event_with_no_more_rights_than_granted(cluster: Cluster, node: Node) -> None:
    (mine,) = [each for each in state(node)["attachments"] if each["pod"] == "default/two"]
    first, second = sorted(mine["rails"])
    node.run("nsenter", f"--net={mine['netns']}", "ip", "route", "flush", "table", str(1000 + RAILS.index(first)))
    node.run("nsenter", f"--net={mine['netns']}", "ip", "address", "flush", "dev", second)
    until("events tell of both", lambda: {"RailRepaired", "RailDrifted"} <= reasons(cluster, "two"), 30)
    described = cluster.kubectl("describe", "pod", "two")
    assert "RailDrifted" in described
    assert "roceway-agent" in described
    asked = cluster.audit()
    assert {(each["verb"], each["objectRef"]["resource"]) for each in asked} <= {
        ("create", "events"),
        ("patch", "events"),
    }
    assert {each["responseStatus"]["code"] for each in asked} <= {200, 201}
    assert "forbidden" not in log(cluster, node)


def test_a_service_account_may_write_events_and_nothing_else(cluster: Cluster, node: Node) -> None:
    who = f"--as=system:serviceaccount:{SYSTEM}:roceway-agent"
    asked = ("create events", "patch events", "delete events", "get pods", "list secrets", "patch nodes")
    may = [cluster.tried("auth", "can-i", *each.split(), who, "-A").stdout.strip() for each in asked]
    assert may == ["yes", "yes", "no", "no", "no", "no"]


def test_a_rail_with_ipv6_and_an_update_while_pods_run(cluster: Cluster, node: Node) -> None:
    """A new fabric.yaml, rolled out: the plugin's configuration follows, pods keep their rails, IPv6 is the agent's."""
    before = attached(node)
    fabric = yaml.safe_load(Path(FABRIC).read_text())
    fabric["rails"][3] = {"name": "rail3", **_BOTH}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "roceway-fabric", "namespace": SYSTEM}}
    cluster.apply({**document, "data": {"fabric.yaml": yaml.safe_dump(fabric)}})
    old = agent_pod(cluster, node)["metadata"]["name"]
    cluster.kubectl("-n", SYSTEM, "rollout", "restart", "daemonset/roceway-agent")
    cluster.kubectl("-n", SYSTEM, "rollout", "status", "daemonset/roceway-agent", "--timeout=110s")
    assert agent_pod(cluster, node)["metadata"]["name"] != old
    assert attached(node) == before
    cluster.apply(pod("six", node, annotation="rail3"))
    running(cluster, "six")
    told = json.loads(cluster.kubectl("exec", "six", "--", "ip", "-j", "-6", "address", "show", "dev", "rail3"))
    assert [each["local"].startswith("fd00:203:") for each in told[0]["addr_info"] if each["scope"] == "global"] == [
        True
    ]
    assert "left to the plugin" not in log(cluster, node)
    assert "six" in [each["pod"] for each in requests(cluster, node, "ADD")]
    gone(cluster, "six")


def test_namespaces_are_seen_also_after_somebody_mounted_their_folder_anew(cluster: Cluster, node: Node) -> None:
    """`ip netns add` mounts /run/netns over itself once, long after the agent's container has its view of it."""
    node.run("ip", "netns", "add", "somebodys")
    try:
        cluster.apply(pod("late", node, annotation="rail0"))
        running(cluster, "late")
        assert "late" in [each["pod"] for each in requests(cluster, node, "ADD")]
        assert "left to the plugin" not in log(cluster, node)
        gone(cluster, "late")
        assert "default/late" not in attached(node)
    finally:
        node.run("ip", "netns", "delete", "somebodys")


def test_live_pods_are_not_reclaimed_and_an_agent_that_dies_is_started_again(cluster: Cluster, node: Node) -> None:
    before = attached(node)
    assert "default/all" in before
    earlier = restarts(cluster, node)
    node.run("pkill", "-KILL", "-f", "^/opt/roceway/bin/python3 /usr/local/bin/roceway-agent run")
    until("it is started again", lambda: restarts(cluster, node) > earlier, 60)
    until("it is ready", lambda: is_ready(cluster, node), 60)
    time.sleep(35)  # three looks of the reclaimer
    assert attached(node) == before
    assert "reclaimed" not in log(cluster, node)


def test_a_sandbox_that_the_runtime_forgot_is_taken_back_where_hostpid_is_switched_on(
    cluster: Cluster, node: Node
) -> None:
    text = "".join(
        line.replace("#+", "") if "hostPID" in line else line for line in MANIFEST.read_text().splitlines(keepends=True)
    )
    cluster.kubectl("apply", "-f", "-", stdin=text)
    cluster.kubectl("-n", SYSTEM, "rollout", "status", "daemonset/roceway-agent", "--timeout=110s")
    (conflist,) = (node.root / "etc/cni/net.d").glob("*.conflist")
    document = json.loads(conflist.read_text())
    (entry,) = [each for each in document["plugins"] if each["type"] == "roceway-cni"]
    variables = {
        "CNI_COMMAND": "ADD", "CNI_CONTAINERID": "ghost", "CNI_NETNS": "/run/netns/ghost", "CNI_IFNAME": "eth0",
        "CNI_PATH": "/opt/cni/bin", "CNI_ARGS": "K8S_POD_NAMESPACE=default;K8S_POD_NAME=ghost;K8S_POD_UID=1",
    }  # fmt: skip
    conf = {**entry, "cniVersion": document["cniVersion"], "name": document["name"], "attach": "always"}
    node.run("ip", "netns", "add", "ghost")
    try:
        words = ["env", *(f"{name}={value}" for name, value in variables.items()), "/opt/cni/bin/roceway-cni"]
        node.run(*words, stdin=json.dumps(conf))
        before = attached(node)
        assert before["default/ghost"] == RAILS
        until("it is taken back", lambda: "default/ghost" not in attached(node), 240, every=2.0)
        assert attached(node) == {name: rails for name, rails in before.items() if name != "default/ghost"}
        assert "unknown to the runtime" in log(cluster, node)
    finally:
        node.run("ip", "netns", "delete", "ghost", check=False)


def test_it_goes_as_it_came(cluster: Cluster, node: Node) -> None:
    gone(cluster, "two", "all", "plain")
    assert state(node)["attachments"] == state(node)["leases"] == []
    cluster.kubectl("delete", "-f", str(MANIFEST))
    until("no agent is left", lambda: agent_pod(cluster, node) is None, 90)
    until("the kubelet counts no rails", lambda: allocatable(cluster, node) == 0, 60)
    cluster.apply(pod("without", node, annotation="rail0"))
    running(cluster, "without")
    assert attached(node) == {"default/without": ["rail0"]}, "the plugin is still installed and works alone"
    gone(cluster, "without")
    cluster.kubectl("apply", "-f", str(UNINSTALL))
    cluster.kubectl("-n", SYSTEM, "rollout", "status", "daemonset/roceway-uninstall", "--timeout=110s")
    cluster.kubectl("delete", "-f", str(UNINSTALL))
    left = [path.name for folder in ("opt/cni/bin", "etc/cni/net.d") for path in (node.root / folder).iterdir()]
    assert not [name for name in left if "roceway" in name and not name.endswith(".before-roceway")]
    cluster.apply(pod("bare", node))
    running(cluster, "bare")
    gone(cluster, "bare")
