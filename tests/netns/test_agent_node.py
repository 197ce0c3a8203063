"""The whole agent beside a kubelet on real sockets: a pod asks for rails, is admitted, attached, and ends."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cni.agent.parts import OFF
from tests.cni.agent.kubelet import Kubelet, wait_for
from tests.netns.agents import Agent
from tests.netns.support import EMPTY, database, rows
from tests.world import ROOT, Answer, Host, Ns, World

POD = ("ml", "train-0")
ENV = {"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=ml;K8S_POD_NAME=train-0;K8S_POD_UID=uid-0"}


class Node:
    """A host with a kubelet, an installed configuration and an agent."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.folder = Path(tempfile.mkdtemp(prefix="rw-"))
        self.kubelet = Kubelet(self.folder / "k")
        self.agent = Agent(host, self.folder / "agent.sock")
        self.conf = host.conf(
            attach="auto", kubeletDir=str(self.kubelet.folder), runDir=str(self.folder / "pods"), agent=""
        ) | {"agent": str(self.agent.socket)}
        entry = {key: value for key, value in self.conf.items() if key not in ("name", "cniVersion")}
        document = {"cniVersion": "1.1.0", "name": "pods", "plugins": [{"type": "bridge"}, entry]}
        (self.folder / "net.d").mkdir()
        (self.folder / "net.d/10-pods.conflist").write_text(json.dumps(document))

    def start(self) -> None:
        self.kubelet.start()
        self.agent.start("--conf-dir", str(self.folder / "net.d"), "--metrics", "127.0.0.1:0")

    def close(self) -> None:
        if self.agent.pid:
            self.agent.stop()
        self.kubelet.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, command: str, pod: Ns, conf: dict[str, Any] | None = None) -> Answer:
        return self.host.call(command, conf or self.conf, "c1", pod, env=ENV)

    def why(self) -> str:
        connection = database(self.host)
        try:
            ((text,),) = connection.execute("SELECT details FROM attachments").fetchall()
            return str(json.loads(text)["why"])
        finally:
            connection.close()


@pytest.fixture
def node(host: Host) -> Iterator[Node]:
    made = Node(host)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def pod(world: World) -> Ns:
    return world.ns("pod")


def names(answer: Answer) -> list[str]:
    assert answer.code == 0, answer.body
    return [each["name"] for each in answer.body.get("interfaces", [])]


def well(told: dict[str, Any]) -> bool:
    """No part has a problem; there is nobody to tell events to."""
    parts = dict(told["parts"])
    return str(parts.pop("events", "")).startswith(OFF) and set(parts.values()) == {""}


def test_a_pod_that_asks_for_one_rail_gets_that_rail(node: Node, pod: Ns) -> None:
    assert node.kubelet.plugin().healthy == {"rail0", "rail1"}
    handed = node.kubelet.admit(*POD, "main", 1)
    (rail,) = handed.envs["ROCEWAY_RAILS"].split(",")
    assert names(node.call("ADD", pod)) == [rail]
    assert node.why() == f"the kubelet (PodResources Get): {rail}"
    folder = Path(handed.mounts[0].host_path)
    assert "NCCL_CROSS_NIC=0" in (folder / "nccl.conf").read_text()
    assert [each["name"] for each in json.loads((folder / "rails.json").read_text())["rails"]] == [rail]
    assert node.call("DEL", pod).code == 0
    assert not folder.exists()
    assert rows(node.host) == EMPTY
    wait_for(lambda: (told := node.agent.status()) and well(told))


def test_a_pod_that_asks_for_none_gets_none_and_leaves_no_row(node: Node, pod: Ns) -> None:
    node.kubelet.give("ml", "train-0", "main", "rdma/hca", "7")
    assert names(node.call("ADD", pod)) == []
    assert rows(node.host) == EMPTY


def test_without_the_agent_the_plugin_learns_the_same_from_the_checkpoint(node: Node, pod: Ns) -> None:
    handed = node.kubelet.admit(*POD, "main", 1)
    node.kubelet.checkpoint({POD: "uid-0"})
    node.agent.stop()
    assert names(node.call("ADD", pod)) == [handed.envs["ROCEWAY_RAILS"]]
    assert node.why() == f"the kubelet's checkpoint: {handed.envs['ROCEWAY_RAILS']}"
    assert node.call("DEL", pod).code == 0


def test_a_restart_of_both_leaves_the_pod_attached_and_the_resource_offered(node: Node, pod: Ns) -> None:
    node.kubelet.admit(*POD, "main", 1)
    result = node.call("ADD", pod).body
    node.agent.stop()
    node.kubelet.restart()
    node.agent.start("--conf-dir", str(node.folder / "net.d"), "--metrics", "127.0.0.1:0")
    assert node.kubelet.plugin().healthy == {"rail0", "rail1"}
    assert node.call("CHECK", pod, {**node.conf, "prevResult": result}) == Answer(0, None, "")
    assert node.call("DEL", pod).code == 0


def test_a_lost_rule_comes_back_and_is_said_in_the_log(node: Node, pod: Ns) -> None:
    node.kubelet.admit(*POD, "main", 2)
    node.call("ADD", pod)
    before = pod.snapshot()
    wait_for(lambda: node.agent.status())
    pod.ip("rule", "del", "from", "10.200.0.2")
    wait_for(lambda: pod.snapshot() == before, 20)
    lines = [json.loads(line) for line in node.agent.log.read_text().splitlines()]
    (line,) = [line for line in lines if line["event"] == "put back"]
    assert (line["pod"], line["level"]) == ("train-0", "warning")
    assert line["repaired"] == ["rule 1000 from 10.200.0.2/32 lookup 1000"]


# roceway-agent status


def status(node: Node, *more: str) -> tuple[int, str, str]:
    words = [sys.executable, "-m", "cni.agent", "status", "--socket", str(node.agent.socket)]
    words += ["--conf-dir", str(node.folder / "net.d"), "--state-dir", str(node.host.state), *more]
    done = subprocess.run(
        ["nsenter", f"--net={node.host.ns.path}", "--", *words], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


def table(text: str) -> list[list[str]]:
    """The rows of the table of rails."""
    lines = text[text.index("GPU ") :].splitlines()
    return [line.split() for line in lines[1:] if line.startswith("-")]


def test_status_shows_the_node_as_a_table(node: Node, pod: Ns) -> None:
    node.kubelet.plugin()
    node.kubelet.admit(*POD, "main", 1)
    node.call("ADD", pod)
    wait_for(lambda: status(node)[0] == 0, 20)
    assert table(status(node)[1]) == [
        ["-", "-", "rail0", "nic0", "up", "-", "ml/train-0", "ok", "-"],
        ["-", "-", "rail1", "nic1", "up", "-", "-", "ok", "-"],
    ]


def test_status_takes_the_configuration_from_where_the_agent_has_it(node: Node) -> None:
    """In the DaemonSet's container that is below /host."""
    words = [sys.executable, "-m", "cni.agent", "status", "--socket", str(node.agent.socket), "--json"]
    done = subprocess.run(
        ["nsenter", f"--net={node.host.ns.path}", "--", *words], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert [rail["rail"] for rail in json.loads(done.stdout)["rails"]] == ["rail0", "rail1"], done.stderr


def test_status_finds_a_drifted_rail_and_says_so_by_its_exit_code(node: Node, pod: Ns) -> None:
    node.kubelet.plugin()
    node.kubelet.admit(*POD, "main", 2)
    node.call("ADD", pod)
    pod.ip("addr", "del", "10.200.0.2/24", "dev", "rail0")
    code, text, _ = status(node)
    assert code == 1
    assert "c1: rail0: address: wanted 10.200.0.2/24, got none" in text


def test_status_as_json_has_every_rail_with_everything_that_is_known(node: Node, pod: Ns) -> None:
    node.kubelet.plugin()
    node.kubelet.admit(*POD, "main", 2)
    node.call("ADD", pod)
    told = json.loads(status(node, "--json")[1])
    first, _ = told["rails"]
    assert (first["rail"], first["netdev"], first["carrier"], first["mtu"]) == ("rail0", "nic0", True, 9000)
    assert first["pods"] == [{"container": "c1", "pod": "ml/train-0"}]
    assert (first["problem"], first["differences"]) == ("", [])
    assert told["ready"] is True


def test_the_table_is_there_when_the_agent_is_not(node: Node, pod: Ns) -> None:
    node.kubelet.plugin()
    node.kubelet.admit(*POD, "main", 2)
    node.call("ADD", pod)
    node.agent.stop()
    node.host.ns.ip("link", "set", "nic1", "down")
    code, text, error = status(node)
    assert code == 3
    assert "does not answer" in error
    assert [row[2] for row in table(text)] == ["rail0", "rail1"]
    assert "NIC nic1 is down" in text
