"""Rails that follow a pod's GPUs: the plugin as a process, on a machine whose PCI tree it finds under /sys."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cni import rundir
from tests.cni.kubelets import Entry, write_checkpoint
from tests.fixtures.machines.archive import unpack
from tests.netns.agents import program
from tests.netns.support import EMPTY, call, in_child, rows
from tests.world import PLUGIN, Answer, Host, Ns, World

GPUS = ("0000:1b:00.0", "0000:43:00.0")
NICS = ("0000:18:00.0", "0000:40:00.0")
POD = {"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=ml;K8S_POD_NAME=train-0;K8S_POD_UID=uid-0"}


class Node:
    """A host whose veth NICs sit, says its /sys, in an HGX machine; and its kubelet's folder."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.kubelet = folder / "kubelet"
        self.run_dir = folder / "pods"
        self.sys = Path(unpack("hgx-h100", folder / "machine")) / "sys"
        shutil.rmtree(self.sys / "class/infiniband", ignore_errors=True)  # this kernel has no RDMA to ask
        for number, nic in enumerate(NICS):
            place = self.sys / f"class/net/nic{number}"
            place.mkdir(parents=True)
            (place / "device").symlink_to(f"../../../bus/pci/devices/{nic}")

    def conf(self, **extra: Any) -> dict[str, Any]:
        own: dict[str, Any] = {
            "attach": "auto",
            "agent": False,
            "kubeletDir": str(self.kubelet),
            "runDir": str(self.run_dir),
        }
        return self.host.conf(**own | extra)

    def call(
        self, command: str, conf: dict[str, Any], pod: Ns, container: str = "c1", plugin: Sequence[str] = PLUGIN
    ) -> Answer:
        script = 'mount --bind "$1" /sys && shift && exec "$@"'
        program = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(self.sys), *plugin)
        return self.host.call(command, conf, container, pod, env=POD, program=program)

    def given(self, *entries: Entry) -> None:
        write_checkpoint(self.kubelet, *entries)


@pytest.fixture
def node(host: Host, tmp_path: Path) -> Node:
    return Node(host, tmp_path)


@pytest.fixture
def pod(world: World) -> Ns:
    return world.ns("pod")


def gpus(*idents: str) -> Entry:
    return ("uid-0", "main", "amd.com/gpu", idents)


def names(answer: Answer) -> list[str]:
    assert answer.code == 0, answer.body
    return [each["name"] for each in answer.body.get("interfaces", [])]


def test_a_pod_gets_the_rail_of_its_gpu(node: Node, pod: Ns) -> None:
    node.given(gpus(GPUS[1]))
    assert names(node.call("ADD", node.conf(), pod)) == ["rail1"]
    assert [device["ifname"] for device in pod.json("link")] == ["lo", "rail1"]
    assert node.call("DEL", node.conf(), pod).code == 0
    assert rows(node.host) == EMPTY


def test_a_pod_without_gpus_leaves_no_trace_at_all(node: Node, pod: Ns) -> None:
    node.given(("uid-0", "main", "rdma/hca", ["7"]))
    assert names(node.call("ADD", node.conf(), pod)) == []
    assert not node.host.state.exists()


def test_check_asks_nobody_again(node: Node, pod: Ns) -> None:
    node.given(gpus(*GPUS))
    conf = node.conf()
    result = node.call("ADD", conf, pod).body
    shutil.rmtree(node.kubelet)
    assert node.call("CHECK", {**conf, "prevResult": result}, pod) == Answer(0, None, "")
    none = {"cniVersion": "1.1.0", "interfaces": [], "ips": []}
    assert node.call("CHECK", {**conf, "prevResult": none}, pod, "other") == Answer(0, None, "")
    lost = node.call("CHECK", {**conf, "prevResult": result}, pod, "other")
    assert lost.error == 3


def test_a_refused_pod_hears_why_and_changes_nothing(node: Node, pod: Ns) -> None:
    node.given(gpus(GPUS[0], "0000:9d:00.0"))
    answer = node.call("ADD", node.conf(), pod)
    assert answer.error == 7
    assert "GPU 0000:9d:00.0: has no rail on this node" in answer.body["details"]
    assert [device["ifname"] for device in pod.json("link")] == ["lo"]
    assert not node.host.state.exists()


def test_a_warned_pod_starts_and_the_warning_is_kept(node: Node, pod: Ns) -> None:
    node.given(gpus(GPUS[0], "0000:9d:00.0"))
    assert names(node.call("ADD", node.conf(policy={"missing": "warn"}), pod)) == ["rail0"]
    told = details(node)
    assert told["warnings"] == ["GPU 0000:9d:00.0: has no rail on this node"]
    assert told["why"] == "the kubelet's checkpoint: 0000:1b:00.0, 0000:9d:00.0"
    assert (told["rails"][0]["gpu"], told["rails"][0]["distance"]) == (GPUS[0], "PXB")


def details(node: Node) -> Any:
    from tests.netns.support import database

    connection = database(node.host)
    try:
        ((text,),) = connection.execute("SELECT details FROM attachments").fetchall()
        return json.loads(text)
    finally:
        connection.close()


def test_a_kubelet_that_cannot_be_asked_is_try_again_later(node: Node, pod: Ns) -> None:
    answer = node.call("ADD", node.conf(), pod)
    assert answer.error == 11
    assert "ml/train-0" in answer.body["msg"]


def test_the_run_directory_is_full_before_the_answer_and_gone_with_the_pod(node: Node, pod: Ns) -> None:
    node.given(gpus(*GPUS), ("uid-0", "main", "roceway.io/rail", ["rail1", "rail0"]))
    conf = node.conf(nccl={"trafficClass": 106})
    assert names(node.call("ADD", conf, pod)) == ["rail0", "rail1"]
    folder = node.run_dir / "rail0+rail1"
    assert sorted(path.name for path in folder.iterdir()) == [".owner", "nccl.conf", "rails.json", "topo.xml"]
    assert (folder / "nccl.conf").read_text().splitlines()[1:] == [
        "NCCL_CROSS_NIC=0",
        "NCCL_SOCKET_IFNAME==eth0",
        "NCCL_TOPO_FILE=/run/roceway/topo.xml",
    ], "no RDMA devices on this kernel"
    told = json.loads((folder / "rails.json").read_text())
    assert [(rail["name"], rail["pci"], rail["gpu"], rail["addresses"]) for rail in told["rails"]] == [
        ("rail0", "", GPUS[0], ["10.200.0.2/24"]),
        ("rail1", "", GPUS[1], ["10.201.0.2/24"]),
    ]
    assert node.call("DEL", conf, pod).code == 0
    assert not folder.exists()


def test_the_compiled_plugin_brings_along_all_that_this_takes(node: Node, pod: Ns) -> None:
    """Its own part has the modules that were found to be needed: these are imported by pods with devices alone."""
    node.given(gpus(*GPUS), ("uid-0", "main", "roceway.io/rail", ["rail0", "rail1"]))
    conf = node.conf()
    assert names(node.call("ADD", conf, pod, plugin=program("compiled"))) == ["rail0", "rail1"]
    assert details(node)["gpus"] == list(GPUS)
    assert (node.run_dir / "rail0+rail1/topo.xml").exists()
    assert node.call("DEL", conf, pod, plugin=program("compiled")).code == 0
    assert not (node.run_dir / "rail0+rail1").exists()


def test_each_container_of_a_pod_has_its_own_rails_in_its_run_directory(node: Node, pod: Ns) -> None:
    node.given(("uid-0", "a", "roceway.io/rail", ["rail1"]), ("uid-0", "b", "roceway.io/rail", ["rail0"]))
    node.call("ADD", node.conf(), pod)
    told = {
        path.name: [rail["name"] for rail in json.loads((path / "rails.json").read_text())["rails"]]
        for path in node.run_dir.iterdir()
    }
    assert told == {"rail0": ["rail0"], "rail1": ["rail1"]}


def test_a_late_del_leaves_the_next_pods_run_directory_alone(node: Node, pod: Ns, world: World) -> None:
    """The kubelet may give a dead pod's devices away before its sandbox is torn down."""
    node.given(("uid-0", "main", "roceway.io/rail", ["rail0"]))
    conf = node.conf()
    node.call("ADD", conf, pod, "first")
    assert names(node.call("ADD", conf, world.ns("next"), "second")) == ["rail0"]
    assert node.call("DEL", conf, pod, "first").code == 0
    assert "10.200.0.3/24" in (node.run_dir / "rail0/rails.json").read_text()


def test_a_run_directory_that_cannot_be_filled_fails_the_pod_whole(node: Node, pod: Ns) -> None:
    node.given(("uid-0", "main", "roceway.io/rail", ["rail0"]))
    node.run_dir.write_text("a file where the folder should be")
    answer = node.call("ADD", node.conf(), pod)
    assert answer.error == 5
    assert "run directory" in answer.body["msg"]
    assert [device["ifname"] for device in pod.json("link")] == ["lo"]
    assert rows(node.host) == EMPTY


def test_a_plugin_killed_after_it_filled_the_run_directory_leaves_nothing(
    node: Node, pod: Ns, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.given(("uid-0", "main", "roceway.io/rail", ["rail0"]))
    conf = node.conf()

    def killed() -> None:
        filled = rundir.fill

        def fill(*arguments: Any) -> None:
            filled(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr(rundir, "fill", fill)
        call(node.host, "ADD", conf, netns=pod, env=POD)

    assert in_child(killed) == -signal.SIGKILL
    assert (node.run_dir / "rail0/nccl.conf").exists()
    assert node.call("DEL", conf, pod).code == 0
    assert not (node.run_dir / "rail0").exists()
    assert rows(node.host) == EMPTY


def test_a_run_directory_is_readable_whatever_the_umask(node: Node, pod: Ns) -> None:
    """A service manager gives the agent 0077; who trains in the container need not be root."""
    node.given(("uid-0", "main", "roceway.io/rail", ["rail0"]))
    umask = os.umask(0o077)
    try:
        node.call("ADD", node.conf(), pod)
    finally:
        os.umask(umask)
    folder = node.run_dir / "rail0"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o444}
