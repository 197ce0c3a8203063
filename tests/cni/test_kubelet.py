"""What the kubelet gave a pod: through the agent's socket, else from its checkpoints."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cni import kubelet
from cni.poddevices import Given, PodDevices
from host.errors import Busy, HostError
from tests.cni.kubelets import claim, write_checkpoint, write_claims

POD = ("default", "train-0", "uid-0")
GPUS = ("uid-0", "main", "nvidia.com/gpu", ["GPU-1", "GPU-2"])


@pytest.mark.parametrize("numa", [True, False])
def test_the_checkpoint_tells_a_pods_devices_and_nobody_elses(tmp_path: Path, numa: bool) -> None:
    others = ("uid-9", "main", "nvidia.com/gpu", ["GPU-9"])
    rails = ("uid-0", "main", "roceway.io/rail", ["rail0"])
    found = kubelet.checkpoint(POD, str(write_checkpoint(tmp_path, GPUS, others, rails, numa=numa)))
    assert found.devices == (
        Given("main", "nvidia.com/gpu", ("GPU-1", "GPU-2")),
        Given("main", "roceway.io/rail", ("rail0",)),
    )
    assert found.rails == {"main": ("rail0",)}


@pytest.mark.parametrize("key", ["ClaimInfoStateList", "Entries"])
def test_claims_of_dynamic_resources_are_devices_too(tmp_path: Path, key: str) -> None:
    write_checkpoint(tmp_path)
    write_claims(tmp_path, [claim("uid-9", "gpu.nvidia.com", "gpu-9"), claim("uid-0", "gpu.nvidia.com", "gpu-3")], key)
    assert kubelet.checkpoint(POD, str(tmp_path)).devices == (Given("", "gpu.nvidia.com", ("gpu-3",)),)


def test_a_kubelet_that_never_had_a_plugin_gave_nothing(tmp_path: Path) -> None:
    (tmp_path / "device-plugins").mkdir()
    assert kubelet.checkpoint(POD, str(tmp_path)).devices == ()


def test_no_kubelet_is_an_error_and_not_an_empty_answer(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="device-plugins"):
        kubelet.checkpoint(POD, str(tmp_path))


def test_a_pod_without_uid_is_not_guessed(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, GPUS)
    with pytest.raises(ValueError, match="K8S_POD_UID"):
        kubelet.checkpoint(("default", "train-0", ""), str(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"Data": "{"}',
        '{"Data": {"PodDeviceEntries": {}}}',
        '{"Data": {"PodDeviceEntries": [7]}}',
        '{"Data": {"PodDeviceEntries": [{"PodUID": "uid-0", "DeviceIDs": {"x": []}}]}}',
    ],
)
def test_a_checkpoint_of_another_shape_is_an_error(tmp_path: Path, text: str) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "device-plugins/kubelet_internal_checkpoint").write_text(text)
    with pytest.raises(ValueError, match=r"checkpoint|invalid literal"):
        kubelet.checkpoint(POD, str(tmp_path))


@contextmanager
def agent(folder: Path, answer: bytes) -> Iterator[list[bytes]]:
    """Something that listens where the agent would and answers every question alike; the questions."""
    questions: list[bytes] = []
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / kubelet.BROKER))
    server.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                questions.append(connection.recv(65536))
                connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield questions
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


def test_the_agent_is_asked_first(tmp_path: Path) -> None:
    told = PodDevices((Given("main", "nvidia.com/gpu", ("GPU-7",)),), "the kubelet (PodResources Get)")
    write_checkpoint(tmp_path, GPUS)
    with agent(tmp_path, json.dumps(kubelet.dump(told)).encode() + b"\n") as questions:
        assert kubelet.ask(POD, str(tmp_path / "agent.sock"), str(tmp_path)) == told
    assert [json.loads(question) for question in questions] == [
        {"namespace": "default", "name": "train-0", "uid": "uid-0"}
    ]


@pytest.mark.parametrize("answer", [b"", b"x\n", b"[]\n", b"{}\n", b'{"error": "the kubelet is away"}\n', b'{"devices'])
def test_an_agent_that_cannot_tell_leaves_it_to_the_checkpoint(tmp_path: Path, answer: bytes) -> None:
    write_checkpoint(tmp_path, GPUS)
    with agent(tmp_path, answer):
        found = kubelet.ask(POD, str(tmp_path / "agent.sock"), str(tmp_path))
    assert found.source == "the kubelet's checkpoint"
    assert found.devices[0].ids == ("GPU-1", "GPU-2")


def test_nobody_who_can_tell_is_try_again_later_with_every_reason(tmp_path: Path) -> None:
    with pytest.raises(Busy) as caught:
        kubelet.ask(POD, str(tmp_path / "agent.sock"), str(tmp_path / "nowhere"))
    text = str(caught.value)
    assert "pod default/train-0" in text
    assert "agent: [Errno 2]" in text
    assert "nowhere/device-plugins" in text
    assert "roceway.io/rails: none" in text


def test_a_container_that_is_no_pod_has_no_kubelet() -> None:
    assert kubelet.pod_of([("IgnoreUnknown", "1")]) is None
    args = [("K8S_POD_NAMESPACE", "default"), ("K8S_POD_NAME", "train-0"), ("K8S_POD_UID", "uid-0")]
    assert kubelet.pod_of(args) == POD
    assert kubelet.pod_of(args[:2]) == ("default", "train-0", "")
