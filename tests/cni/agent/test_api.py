"""The generated messages are those of the .proto files, and these say what the kubelet says on the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from cni.agent.api import deviceplugin_pb2, podresources_pb2
from tests.cni.agent.generate import API, generate
from tests.world import ROOT

GENERATED = sorted(path.name for path in (ROOT / API).glob("*_pb2.py*"))


def test_the_messages_are_what_the_proto_files_generate(tmp_path: Path) -> None:
    assert generate(tmp_path) == 0
    made = {path.name: path.read_text() for path in (tmp_path / API).iterdir()}
    assert sorted(made) == GENERATED
    assert made == {name: (ROOT / API / name).read_text() for name in GENERATED}


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field as protobuf encodes it, by hand: no generated code is its own witness."""
    length = [len(payload)] if len(payload) < 128 else [len(payload) & 0x7F | 0x80, len(payload) >> 7]
    return bytes([number << 3 | 2, *length]) + payload


def test_a_pod_with_gpus_reads_as_the_published_api_writes_it() -> None:
    devices = field(1, b"nvidia.com/gpu") + field(2, b"GPU-1") + field(2, b"GPU-2") + field(3, field(1, b"\x08\x01"))
    claim = field(1, field(1, b"k8s.gpu.nvidia.com/claim=u-gpu-3")) + field(2, b"gpu.nvidia.com")
    claim += field(3, b"node-1") + field(4, b"gpu-3")
    dynamic = field(2, b"claim") + field(3, b"ns") + field(4, claim)
    container = field(1, b"main") + field(2, devices) + field(5, dynamic)
    raw = field(1, field(1, b"pod") + field(2, b"ns") + field(3, container))
    pod = podresources_pb2.GetPodResourcesResponse.FromString(raw).pod_resources
    (one,) = pod.containers
    assert (pod.name, pod.namespace, one.name) == ("pod", "ns", "main")
    assert (one.devices[0].resource_name, list(one.devices[0].device_ids)) == ("nvidia.com/gpu", ["GPU-1", "GPU-2"])
    assert one.devices[0].topology.nodes[0].ID == 1
    (resource,) = one.dynamic_resources[0].claim_resources
    assert (resource.driver_name, resource.pool_name, resource.device_name) == ("gpu.nvidia.com", "node-1", "gpu-3")
    assert resource.cdi_devices[0].name == "k8s.gpu.nvidia.com/claim=u-gpu-3"


def test_a_registration_and_an_allocation_are_written_as_the_published_api_reads_them() -> None:
    options = deviceplugin_pb2.DevicePluginOptions(get_preferred_allocation_available=True)
    register = deviceplugin_pb2.RegisterRequest(
        version="v1beta1", endpoint="r.sock", resource_name="roceway.io/rail", options=options
    )
    assert register.SerializeToString() == (
        field(1, b"v1beta1") + field(2, b"r.sock") + field(3, b"roceway.io/rail") + field(4, b"\x10\x01")
    )
    one = deviceplugin_pb2.ContainerAllocateResponse(
        envs={"A": "B"},
        mounts=[deviceplugin_pb2.Mount(container_path="/c", host_path="/h", read_only=True)],
        devices=[deviceplugin_pb2.DeviceSpec(container_path="/d", host_path="/d", permissions="rwm")],
    )
    assert one.SerializeToString(deterministic=True) == (
        field(1, field(1, b"A") + field(2, b"B"))
        + field(2, field(1, b"/c") + field(2, b"/h") + b"\x18\x01")
        + field(3, field(1, b"/d") + field(2, b"/d") + field(3, b"rwm"))
    )


@pytest.mark.parametrize("name", [name for name in GENERATED if name.endswith(".py")])
def test_generated_files_carry_their_warning(name: str) -> None:
    assert "DO NOT EDIT" in (ROOT / API / name).read_text()
