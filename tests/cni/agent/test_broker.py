"""What a pod was given, asked of a kubelet over gRPC and handed on as a line of JSON."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cni.agent.api import podresources_pb2 as pr
from cni.agent.broker import Broker
from cni.agent.podresources import PodResources
from cni.kubelet import BROKER, ask
from cni.poddevices import Given, gpu_names
from host.errors import HostError
from tests.cni.agent.kubelet import Kubelet, running
from tests.cni.kubelets import write_checkpoint

POD = ("ml", "train-0", "uid-0")
GPUS = Given("main", "nvidia.com/gpu", ("GPU-1", "GPU-2"))


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    with Kubelet(tmp_path / "kubelet") as made:
        made.give("ml", "train-0", "main", "nvidia.com/gpu", "GPU-1", "GPU-2")
        made.give("ml", "other", "main", "nvidia.com/gpu", "GPU-3")
        yield made


@pytest.fixture
def client(kubelet: Kubelet) -> Iterator[PodResources]:
    made = PodResources(str(kubelet.folder))
    yield made
    made.close()


def test_get_tells_one_pods_devices(client: PodResources, kubelet: Kubelet) -> None:
    found = client.pod("ml", "train-0")
    assert (found.devices, found.source) == ((GPUS,), "the kubelet (PodResources Get)")
    assert kubelet.calls == ["Get"]


@pytest.mark.parametrize("get", ["off", "missing"])
def test_where_get_is_off_the_list_tells(tmp_path: Path, get: str) -> None:
    with Kubelet(tmp_path, get=get) as kubelet:
        kubelet.give("ml", "train-0", "main", "nvidia.com/gpu", "GPU-1", "GPU-2")
        client = PodResources(str(tmp_path))
        found = client.pod("ml", "train-0")
        client.close()
    assert (found.devices, found.source) == ((GPUS,), "the kubelet (PodResources List)")


def test_a_pod_without_devices_is_known_to_have_none(client: PodResources, kubelet: Kubelet) -> None:
    kubelet.pods["ml", "plain"] = {"main": []}
    assert client.pod("ml", "plain").devices == ()


def test_an_unknown_pod_is_an_error_and_not_a_pod_without_gpus(client: PodResources) -> None:
    with pytest.raises(HostError, match="lists no pod ml/ghost"):
        client.pod("ml", "ghost")


def test_claims_are_told_by_driver_and_before_131_by_cdi_name(client: PodResources, kubelet: Kubelet) -> None:
    new = pr.ClaimResource(driver_name="gpu.nvidia.com", pool_name="n", device_name="gpu-3")
    old = pr.ClaimResource(cdi_devices=[pr.CDIDevice(name="nvidia.com/gpu=1")])
    kubelet.pods["ml", "dra"] = {"main": []}
    kubelet.claims["ml", "dra"] = [pr.DynamicResource(claim_name="c", claim_resources=[new, old])]
    devices = client.pod("ml", "dra").devices
    assert devices == (Given("main", "gpu.nvidia.com", ("gpu-3",)), Given("main", "cdi nvidia.com/gpu", ("1",)))
    assert [(name.kind, name.value) for name in gpu_names(devices)] == [("minor", "3"), ("index", "nvidia 1")]


def test_a_restarted_kubelet_is_found_at_the_next_call(client: PodResources, kubelet: Kubelet) -> None:
    for _ in range(3):
        assert client.pod("ml", "train-0").devices == (GPUS,)
        kubelet.restart()
        assert client.pod("ml", "train-0").devices == (GPUS,)


def test_a_kubelet_that_is_away_is_an_error_within_seconds(client: PodResources, kubelet: Kubelet) -> None:
    kubelet.stop()
    with pytest.raises(HostError, match=r"pod-resources/kubelet\.sock.*UNAVAILABLE"):
        client.pod("ml", "train-0")


@pytest.fixture
def broker(kubelet: Kubelet, tmp_path: Path) -> Iterator[Broker]:
    with running(Broker(str(tmp_path / BROKER), str(kubelet.folder))) as part:
        yield part


def test_the_plugin_asks_without_grpc(broker: Broker, kubelet: Kubelet, tmp_path: Path) -> None:
    found = ask(POD, str(tmp_path / "agent.sock"), "/nonexistent")
    assert (found.devices, found.source) == ((GPUS,), "the kubelet (PodResources Get)")
    assert broker.problem() == ""


def test_its_socket_is_of_its_owner_alone(broker: Broker, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / BROKER).stat().st_mode) == 0o600


def test_a_kubelet_that_is_away_leaves_it_to_the_checkpoint_and_is_told(
    broker: Broker, kubelet: Kubelet, tmp_path: Path
) -> None:
    write_checkpoint(kubelet.folder, ("uid-0", "main", "nvidia.com/gpu", ["GPU-1"]))
    kubelet.stop()
    found = ask(POD, str(tmp_path / "agent.sock"), str(kubelet.folder))
    assert found.source == "the kubelet's checkpoint"
    assert "UNAVAILABLE" in broker.problem()
    kubelet.start()
    assert ask(POD, str(tmp_path / "agent.sock"), "/nonexistent").devices == (GPUS,)
    assert broker.problem() == ""


def test_many_pods_at_once_each_get_their_own(broker: Broker, kubelet: Kubelet, tmp_path: Path) -> None:
    for number in range(32):
        kubelet.give("ml", f"pod-{number}", "main", "nvidia.com/gpu", f"GPU-{number}")
    found: dict[int, tuple[str, ...]] = {}

    def one(number: int) -> None:
        told = ask(("ml", f"pod-{number}", "u"), str(tmp_path / "agent.sock"), "/nonexistent")
        found[number] = told.devices[0].ids

    threads = [threading.Thread(target=one, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == {number: (f"GPU-{number}",) for number in range(32)}


def test_a_burst_beyond_the_kubelets_limit_is_answered_by_the_kubelet_all_the_same(
    broker: Broker, kubelet: Kubelet, tmp_path: Path
) -> None:
    """32 pods start at once; the kubelet lets 10 calls through and 100 a second after that."""
    kubelet.burst = 10
    sources: list[str] = []

    def one() -> None:
        sources.append(ask(POD, str(tmp_path / "agent.sock"), "/nonexistent").source)

    threads = [threading.Thread(target=one) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sources == ["the kubelet (PodResources Get)"] * 32
    assert len(kubelet.calls) > 32, "some were rejected first"


def test_a_restart_amid_many_questions_loses_none(broker: Broker, kubelet: Kubelet, tmp_path: Path) -> None:
    """One thread makes the connection anew while others are in the middle of a call on the old one."""
    write_checkpoint(kubelet.folder, ("uid-0", "main", "nvidia.com/gpu", ["GPU-1", "GPU-2"]))
    found: list[tuple[Given, ...]] = []
    stop = threading.Event()

    def many() -> None:
        while not stop.is_set():
            found.append(ask(POD, str(tmp_path / "agent.sock"), str(kubelet.folder)).devices)

    threads = [threading.Thread(target=many) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        kubelet.restart()
    stop.set()
    for thread in threads:
        thread.join(20)
    assert set(found) == {(GPUS,)}
    assert ask(POD, str(tmp_path / "agent.sock"), "/nonexistent").devices == (GPUS,)


def raw(path: Path, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while more := connection.recv(65536):
            answer += more
        return answer


def test_a_question_without_end_is_cut_off(broker: Broker, tmp_path: Path) -> None:
    with suppress(ConnectionError):  # cut off in the middle, or told
        assert b"makes no sense" in raw(tmp_path / BROKER, b"x" * 100_000 + b"\n")
    assert ask(POD, str(tmp_path / "agent.sock"), "/nonexistent").devices == (GPUS,)


@pytest.mark.parametrize("line", [b"\n", b"x\n", b"[]\n", b'{"namespace": "ml"}\n', b""])
def test_hostile_questions_get_an_error_and_harm_nobody(broker: Broker, tmp_path: Path, line: bytes) -> None:
    assert b"makes no sense" in raw(tmp_path / BROKER, line)
    assert ask(POD, str(tmp_path / "agent.sock"), "/nonexistent").devices == (GPUS,)


def test_a_client_that_says_nothing_holds_up_nobody(broker: Broker, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(tmp_path / BROKER))
        assert ask(POD, str(tmp_path / "agent.sock"), "/nonexistent").devices == (GPUS,)


def test_a_second_agent_takes_over_the_socket(broker: Broker, kubelet: Kubelet, tmp_path: Path) -> None:
    """An upgrade in place: the new one is there before the old one has gone."""
    with running(Broker(str(tmp_path / BROKER), str(kubelet.folder))):
        broker.stop()
        assert ask(POD, str(tmp_path / "agent.sock"), "/nonexistent").devices == (GPUS,)
