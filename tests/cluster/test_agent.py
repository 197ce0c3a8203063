"""The agent as systemd starts it, a real kubelet and containerd: admission to DEL, and everything that dies between."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.node import Node, until
from tests.cluster.pods import addresses, attached, gone, pod, running, state

FABRIC = str(Path(__file__).with_name("fabric.yaml"))
DOORS = ("device plugin", "kubelet")
RAILS = ["rail0", "rail1", "rail2", "rail3"]


def start_agent(node: Node) -> None:
    """And wait until it serves and the kubelet counts its rails."""
    program = str(Path(sys.executable).parent / "roceway-agent")
    node.start("agent", [program, "run", "-f", FABRIC, "--node", node.name])
    until("the agent serves", lambda: status(node).get("ready"), 30)


def status(node: Node) -> dict[str, Any]:
    told = node.roceway("roceway-agent", "status", "--json", check=False)
    return dict(json.loads(told)) if told.strip() else {}


def allocatable(cluster: Cluster, node: Node) -> int:
    return int(cluster.get("node", node.name)["status"]["allocatable"].get("roceway.io/rail", "0"))


def has_four(cluster: Cluster, node: Node) -> bool:
    return allocatable(cluster, node) == 4


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[Node]:
    """The node without the control plane, with plugin and agent; as it was afterwards."""
    node = cluster.nodes[1]
    node.roceway("roceway-cni", "install", "-f", FABRIC, "--node", node.name)
    start_agent(node)
    try:
        yield node
    finally:
        pods = [each["metadata"]["name"] for each in (cluster.get("pods") or {"items": []})["items"]]
        if pods:
            gone(cluster, *pods)
        with contextlib.suppress(KeyError):
            node.kill("agent", signal.SIGTERM)
        node.roceway("roceway-cni", "uninstall")


@pytest.fixture
def agent(node: Node) -> Node:
    """The node, with an agent whatever the test before did to it."""
    if not status(node).get("ready"):
        with contextlib.suppress(KeyError):
            node.kill("agent")
        start_agent(node)
    return node


def test_the_kubelet_counts_the_rails(cluster: Cluster, agent: Node) -> None:
    until("four rails are allocatable", partial(has_four, cluster, agent), 20)
    until("both doors to the kubelet are well", lambda: not any(status(agent)["parts"][name] for name in DOORS), 10)


def test_a_pod_has_exactly_the_rails_that_the_kubelet_gave_it_and_their_run_directory(
    cluster: Cluster, agent: Node
) -> None:
    until("four rails are allocatable", partial(has_four, cluster, agent), 20)
    cluster.apply(pod("two", agent, rails=2), pod("plain", agent))
    running(cluster, "two", "plain")
    (mine,) = [each for each in state(agent)["attachments"] if each["pod"] == "default/two"]
    rails = sorted(mine["rails"])
    assert len(rails) == 2
    assert sorted(addresses(cluster, "two")) == ["eth0", *rails]
    assert sorted(addresses(cluster, "plain")) == ["eth0"]
    environment = cluster.kubectl("exec", "two", "--", "printenv", "ROCEWAY_RAILS", "NCCL_CONF_FILE").split()
    assert environment == [",".join(rails), "/run/roceway/nccl.conf"]
    inside = json.loads(cluster.kubectl("exec", "two", "--", "cat", "/run/roceway/rails.json"))
    assert {each["name"]: each["addresses"][0].split("/")[0] for each in inside["rails"]} == {
        rail: addresses(cluster, "two")[rail] for rail in rails
    }
    explained = json.loads(agent.roceway("roceway-cni", "explain", "--json", mine["container"]))
    assert explained["selected_by"].startswith("the kubelet (PodResources Get): ")
    gone(cluster, "two", "plain")
    assert state(agent)["attachments"] == state(agent)["leases"] == []
    assert os.listdir(agent.root / "run/roceway/pods") == []


def test_a_pod_that_no_rail_is_left_for_waits_and_gets_those_that_come_free(cluster: Cluster, agent: Node) -> None:
    until("four rails are allocatable", partial(has_four, cluster, agent), 20)
    cluster.apply(pod("first", agent, rails=3))
    running(cluster, "first")
    second = pod("second", agent, rails=2)
    del second["spec"]["nodeName"]  # the scheduler's decision
    second["spec"]["nodeSelector"] = {"kubernetes.io/hostname": agent.name}
    cluster.apply(second)
    until(
        "the scheduler says why",
        lambda: "Insufficient roceway.io/rail" in cluster.kubectl("describe", "pod", "second"),
        30,
    )
    gone(cluster, "first")
    running(cluster, "second")
    assert len(attached(agent)["default/second"]) == 2
    gone(cluster, "second")


def test_a_kubelet_that_restarts_finds_the_rails_again_and_pods_keep_theirs(cluster: Cluster, agent: Node) -> None:
    cluster.apply(pod("stays", agent, rails=2))
    running(cluster, "stays")
    before = addresses(cluster, "stays")
    agent.kill("kubelet")
    cluster.start_kubelet(agent)
    until(
        "the plugin registers anew", lambda: agent.log("agent").read_text().count("registered roceway.io/rail") >= 2, 30
    )
    until("four rails are allocatable", lambda: cluster.is_ready(agent.name) and allocatable(cluster, agent) == 4, 30)
    cluster.apply(pod("later", agent, rails=2))
    running(cluster, "later")
    assert addresses(cluster, "stays") == before
    mine = attached(agent)
    assert sorted(mine["default/stays"] + mine["default/later"]) == RAILS
    gone(cluster, "stays", "later")


def test_an_agent_that_is_replaced_knows_the_pods_that_run(cluster: Cluster, agent: Node) -> None:
    cluster.apply(pod("stays", agent, rails=2))
    running(cluster, "stays")
    agent.kill("agent", signal.SIGTERM)
    start_agent(agent)
    until("four rails are allocatable", partial(has_four, cluster, agent), 30)
    table = {each["rail"]: [holder["pod"] for holder in each["pods"]] for each in status(agent)["rails"]}
    assert [rail for rail in RAILS if table[rail] == ["default/stays"]] == attached(agent)["default/stays"]
    gone(cluster, "stays")
    assert attached(agent) == {}


def test_an_agent_that_is_killed_again_and_again_costs_no_pod_its_rails(cluster: Cluster, agent: Node) -> None:
    names = [f"many{number}" for number in range(8)]
    cluster.apply(*(pod(name, agent, annotation="all") for name in names))
    for _ in range(4):
        time.sleep(0.4)
        agent.kill("agent")
        start_agent(agent)
    running(cluster, *names)
    assert attached(agent) == {f"default/{name}": RAILS for name in names}
    held = [addresses(cluster, name)["rail0"] for name in names]
    assert len(set(held)) == len(names)
    gone(cluster, *names)
    assert state(agent) == {"attachments": [], "leases": [], "journal": []}


def test_a_pod_that_ends_while_the_agent_is_dead_leaves_nothing(cluster: Cluster, agent: Node) -> None:
    until("four rails are allocatable", partial(has_four, cluster, agent), 30)
    cluster.apply(pod("ends", agent, rails=2))
    running(cluster, "ends")
    agent.kill("agent")
    gone(cluster, "ends")
    assert state(agent) == {"attachments": [], "leases": [], "journal": []}
    assert os.listdir(agent.root / "run/roceway/pods") == []


def test_after_the_nodes_power_was_cut_pods_have_rails_again(cluster: Cluster, agent: Node) -> None:
    until("four rails are allocatable", partial(has_four, cluster, agent), 30)
    cluster.apply(pod("survivor", agent, rails=2, restartPolicy="Always"))
    running(cluster, "survivor")
    before = state(agent)["attachments"][0]["container"]
    cluster.reboot(agent)
    start_agent(agent)
    until(
        "the pod has a new sandbox",
        lambda: [each["container"] for each in state(agent)["attachments"]] not in ([], [before]),
        90,
    )
    running(cluster, "survivor")
    until("its rails are there", lambda: len(addresses(cluster, "survivor")) == 3, 30)
    assert len(state(agent)["leases"]) == 2
    gone(cluster, "survivor")
    assert state(agent) == {"attachments": [], "leases": [], "journal": []}
