"""The device plugin before a kubelet on real sockets, through restarts at bad moments."""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import grpc
import pytest

from cni.agent.deviceplugin import DevicePlugin, Node
from cni.agent.nodeview import RailView
from cni.agent.podresources import PodResources
from cni.agent.railunits import Unit
from cni.poddevices import RAIL
from tests.cni.agent.kubelet import Kubelet, running, wait_for

GPUS = [f"0000:{n:02x}:00.0" for n in range(4)]


def rail(number: int) -> RailView:
    return RailView(
        name=f"rail{number}",
        mode="host-device",
        nic=f"0000:1{number}:00.0",
        pci=f"0000:1{number}:00.0",
        netdev=f"eth{number}",
        inside="",
        up=True,
        carrier=True,
        speed=400000,
        mtu=9000,
        rdma=f"mlx5_{number}",
        port=1,
        rdma_state="ACTIVE",
        holders=(),
        gpu=GPUS[number],
        distance="PIX",
        numa_node=number // 2,
    )


class Rig:
    """A node of four rails, a kubelet and the plugin between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubelet = Kubelet(folder / "kubelet")
        self.rails = [rail(number) for number in range(4)]
        self.sick: set[str] = set()
        self.client = PodResources(str(folder / "kubelet"))
        self._devices()
        self.plugin = self.agent()

    def agent(self) -> DevicePlugin:
        node = Node(
            view=lambda: self.rails,
            units=self.units,
            waiting=self.waiting,
            taken=lambda: frozenset(),
            run_dir=lambda: str(self.folder / "pods"),
            root=str(self.folder / "root"),
        )
        return DevicePlugin(str(self.folder / "kubelet"), node, every=0.02)

    def units(self) -> list[Unit]:
        return [
            Unit(each.name, each.name not in self.sick, "sick" if each.name in self.sick else "", each.numa_node)
            for each in self.rails
        ]

    def waiting(self) -> dict[str, Collection[str]]:
        found: dict[str, Collection[str]] = {}
        for pod in self.client.list():
            containers = {each.container for each in pod.devices}
            for container in containers:
                own = [each for each in pod.devices if each.container == container]
                gpus = [ident for each in own if each.resource == "amd.com/gpu" for ident in each.ids]
                if gpus and not any(each.resource == RAIL for each in own):
                    found[f"{pod.namespace}/{pod.name}/{container}"] = gpus
        return found

    def _devices(self) -> None:
        for number in range(4):
            for kind, name in (("infiniband_verbs", f"uverbs{number}"), ("infiniband_mad", f"umad{number}")):
                folder = self.folder / "root/sys/class" / kind / name
                folder.mkdir(parents=True)
                (folder / "ibdev").write_text(f"mlx5_{number}\n")
        (self.folder / "root/sys/class/misc/rdma_cm").mkdir(parents=True)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose sockets' paths stay below the kernel's 108 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="rw-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def rig(short: Path) -> Iterator[Rig]:
    made = Rig(short)
    with made.kubelet, running(made.plugin):
        yield made
    made.client.close()


def test_it_registers_one_device_per_rail_with_its_numa_node(rig: Rig) -> None:
    plugin = rig.kubelet.plugin()
    assert (plugin.request.resource_name, plugin.request.version) == ("roceway.io/rail", "v1beta1")
    assert plugin.request.options.get_preferred_allocation_available
    assert not plugin.request.options.pre_start_required
    assert {ident: device.topology.nodes[0].ID for ident, device in plugin.devices.items()} == {
        "rail0": 0,
        "rail1": 0,
        "rail2": 1,
        "rail3": 1,
    }
    assert plugin.healthy == set(plugin.devices)
    wait_for(lambda: rig.plugin.problem() == "")


def test_a_rail_that_falls_sick_and_recovers_is_told_at_once(rig: Rig) -> None:
    plugin = rig.kubelet.plugin()
    rig.sick.add("rail2")
    rig.plugin.changed()
    wait_for(lambda: plugin.healthy == {"rail0", "rail1", "rail3"})
    rig.sick.clear()
    rig.plugin.changed()
    wait_for(lambda: len(plugin.healthy) == 4)


def test_what_did_not_change_is_not_told_again(rig: Rig) -> None:
    plugin = rig.kubelet.plugin()
    for _ in range(5):
        rig.plugin.changed()
        time.sleep(0.02)
    assert plugin.updates == 1


def test_a_container_is_handed_its_own_devices_its_run_directory_and_its_environment(rig: Rig) -> None:
    answer = rig.kubelet.allocate("rail3", "rail1")
    assert [(device.host_path, device.container_path, device.permissions) for device in answer.devices] == [
        (path, path, "rwm")
        for path in (
            "/dev/infiniband/uverbs1",
            "/dev/infiniband/uverbs3",
            "/dev/infiniband/umad1",
            "/dev/infiniband/umad3",
            "/dev/infiniband/rdma_cm",
        )
    ]
    (mount,) = answer.mounts
    assert (mount.container_path, mount.read_only) == ("/run/roceway", True)
    assert mount.host_path == str(rig.folder / "pods/rail1+rail3")
    assert os.path.isdir(mount.host_path)
    assert dict(answer.envs) == {"NCCL_CONF_FILE": "/run/roceway/nccl.conf", "ROCEWAY_RAILS": "rail1,rail3"}


def test_a_rail_without_rdma_has_no_character_device(rig: Rig) -> None:
    rig.rails[0] = rig.rails[0]._replace(rdma="")
    assert list(rig.kubelet.allocate("rail0").devices) == []


def test_a_device_that_is_not_here_is_refused(rig: Rig) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        rig.kubelet.allocate("rail0", "rail9")
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "rail9" in (caught.value.details() or "")


def test_a_run_directory_that_cannot_be_made_does_not_fail_the_pod_for_good(rig: Rig) -> None:
    (rig.folder / "pods").write_text("a file in the way")
    assert rig.kubelet.allocate("rail0").mounts[0].host_path.endswith("pods/rail0")


# preference


def test_the_rails_of_the_gpus_that_the_container_has_are_preferred(rig: Rig) -> None:
    rig.kubelet.give("ml", "train", "main", "amd.com/gpu", GPUS[3], GPUS[1])
    assert rig.kubelet.prefer(2, ["rail0", "rail1", "rail2", "rail3"]) == ["rail1", "rail3"]


def test_pods_that_have_gpus_for_long_and_asked_for_no_rails_do_not_count(rig: Rig) -> None:
    rig.kubelet.give("ml", "old", "main", "amd.com/gpu", GPUS[0])
    rig.plugin.settle()
    rig.plugin.settle()
    rig.kubelet.give("ml", "new", "main", "amd.com/gpu", GPUS[2])
    assert rig.kubelet.prefer(1, ["rail0", "rail1", "rail2", "rail3"]) == ["rail2"]


def test_an_admission_as_the_kubelet_does_it(rig: Rig) -> None:
    rig.kubelet.give("ml", "train", "main", "amd.com/gpu", GPUS[2])
    answer = rig.kubelet.admit("ml", "train", "main", 1)
    assert answer.envs["ROCEWAY_RAILS"] == "rail2"
    rig.kubelet.give("ml", "next", "main", "amd.com/gpu", GPUS[0], GPUS[3])
    assert rig.kubelet.admit("ml", "next", "main", 2).envs["ROCEWAY_RAILS"] == "rail0,rail3"


def test_a_preference_is_given_even_when_nobody_can_tell(rig: Rig) -> None:
    def broken() -> dict[str, Collection[str]]:
        raise RuntimeError("the kubelet is away")

    rig.waiting = broken  # type: ignore[method-assign]
    assert rig.kubelet.prefer(2, ["rail3", "rail1", "rail0"], ["rail3"]) == ["rail3", "rail0"]
    rig.rails.clear()
    assert rig.kubelet.prefer(2, ["rail3", "rail1", "rail0"], ["rail3"]) == ["rail3", "rail0"]


# restarts


def test_every_restart_of_the_kubelet_is_survived(rig: Rig) -> None:
    for number in range(5):
        first = rig.kubelet.plugin()
        rig.kubelet.restart(away=0.05 * number)
        assert rig.kubelet.plugin() is not first
        assert rig.kubelet.plugin().healthy == {"rail0", "rail1", "rail2", "rail3"}
        assert rig.kubelet.allocate("rail0").envs["ROCEWAY_RAILS"] == "rail0"
    wait_for(lambda: rig.plugin.problem() == "")


def test_a_kubelet_that_comes_later_is_waited_for(short: Path) -> None:
    rig = Rig(short)
    with running(rig.plugin):
        wait_for(lambda: "no kubelet at" in rig.plugin.problem())
        with rig.kubelet:
            assert len(rig.kubelet.plugin().devices) == 4
    rig.client.close()


def test_a_registration_that_is_refused_is_tried_again(short: Path) -> None:
    rig = Rig(short)
    rig.kubelet.refuse = 2
    with rig.kubelet, running(rig.plugin):
        wait_for(lambda: "did not take the registration: not now" in rig.plugin.problem())
        assert len(rig.kubelet.plugin().devices) == 4
    assert rig.kubelet.calls.count("Register roceway.io/rail") == 3
    rig.client.close()


def test_a_socket_that_somebody_removed_is_noticed(rig: Rig) -> None:
    first = rig.kubelet.plugin()
    (rig.kubelet.plugins_folder / first.request.endpoint).unlink()
    wait_for(lambda: rig.kubelet.plugins[-1] is not first and rig.kubelet.plugins[-1].updates)
    assert rig.kubelet.allocate("rail0").mounts


def test_a_kubelet_that_dies_between_wiping_the_folder_and_listening(rig: Rig) -> None:
    """The plugin sees its socket go and no kubelet at all, then a kubelet that never heard of it."""
    rig.kubelet.plugin()
    rig.kubelet.stop()
    for path in rig.kubelet.plugins_folder.iterdir():
        path.unlink()
    wait_for(lambda: rig.plugin.problem() != "")
    assert not [path for path in rig.kubelet.plugins_folder.iterdir() if path.name.startswith("kubelet")]
    rig.kubelet.start()
    assert len(rig.kubelet.plugin().devices) == 4


def test_a_socket_file_without_a_kubelet_behind_it_is_tried_again_until_there_is_one(short: Path) -> None:
    """What a kubelet that was killed leaves."""
    rig = Rig(short)
    rig.kubelet.plugins_folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(rig.kubelet.plugins_folder / "kubelet.sock"))
    with running(rig.plugin):
        wait_for(lambda: "did not take the registration" in rig.plugin.problem())
        with rig.kubelet:
            assert len(rig.kubelet.plugin().devices) == 4
    rig.client.close()


def test_restarts_at_any_moment_end_with_one_registration_that_works(rig: Rig) -> None:
    chance = random.Random(7)
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            rig.sick ^= {"rail1"}
            rig.plugin.changed()
            time.sleep(0.003)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(15):
            time.sleep(chance.random() * 0.12)
            rig.kubelet.restart(away=chance.choice((0.0, 0.0, 0.03)))
    finally:
        stop.set()
        thread.join(5)
    rig.sick = {"rail1"}
    rig.plugin.changed()
    wait_for(lambda: rig.kubelet.plugin().healthy == {"rail0", "rail2", "rail3"})
    assert rig.kubelet.allocate("rail0").envs["ROCEWAY_RAILS"] == "rail0"
    ours = [path.name for path in rig.kubelet.plugins_folder.iterdir() if path.name.startswith("roceway-rail-")]
    assert ours == [rig.kubelet.plugin().request.endpoint], "nothing of earlier lives is left"


def test_an_agent_that_restarts_registers_anew_and_takes_its_remains_away(rig: Rig) -> None:
    first = rig.kubelet.plugin()
    left = rig.kubelet.plugins_folder / "roceway-rail-1-0.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    rig.plugin.stop()
    assert first.ended.wait(5), "the kubelet sees the resource go"
    with running(rig.agent()):
        wait_for(lambda: rig.kubelet.plugins[-1] is not first and rig.kubelet.plugins[-1].updates)
        wait_for(lambda: not left.exists())


def test_a_kubelet_that_hangs_in_podresources_delays_a_preference_by_seconds_at_most(rig: Rig) -> None:
    release = threading.Event()
    rig.kubelet.plugin()

    def hang(request: object, context: object) -> object:
        release.wait(20)
        raise RuntimeError

    rig.kubelet._list = hang  # type: ignore[method-assign, assignment]
    began = time.monotonic()
    rig.kubelet.restart()
    try:
        assert rig.kubelet.prefer(1, ["rail2", "rail3"]) == ["rail2"]
        assert time.monotonic() - began < 8
    finally:
        release.set()
