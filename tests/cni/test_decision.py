"""From a pod's devices to its rails, on whole machines; and the policy's word."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as given_
from hypothesis import settings
from hypothesis import strategies as st

from cni.decision import Decision, decide
from cni.netconf import NetConf
from cni.selection import ANNOTATION, CAPABILITY, device_id, parse_device_id
from conf.errors import ConfigError
from host.errors import Busy
from tests.cni.kubelets import claim, write_checkpoint, write_claims
from tests.cni.netconfs import parsed
from tests.fixtures.machines.archive import unpack

ARGS = (("K8S_POD_NAMESPACE", "default"), ("K8S_POD_NAME", "train-0"), ("K8S_POD_UID", "uid-0"))
NICS = ("0000:18:00.0", "0000:40:00.0", "0000:4f:00.0", "0000:5e:00.0")
GPUS = ("0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0")
"""NICs and GPUs of the first socket of the HGX machine, in pairs."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> str:
    return unpack("hgx-h100", tmp_path_factory.mktemp("hgx"))


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    return tmp_path / "kubelet"


def conf(kubelet: Path, annotations: dict[str, str] | None = None, **extra: Any) -> NetConf:
    rails = [
        {"name": f"rail{n}", "pci": nic, "mode": "host-device", "ipam": {"ranges": [{"subnet": f"10.20{n}.0.0/24"}]}}
        for n, nic in enumerate(NICS)
    ]
    raw = {"name": "pods", "type": "roceway-cni", "rails": rails, "agent": False, "kubeletDir": str(kubelet), **extra}
    if annotations:
        raw.setdefault("runtimeConfig", {})[CAPABILITY] = annotations
    return parsed(raw)


def given(kubelet: Path, *idents: str, resource: str = "amd.com/gpu") -> None:
    write_checkpoint(kubelet, ("uid-0", "main", resource, idents))


def rails(decision: Decision) -> list[str]:
    return [rail.name for rail in decision.rails]


def test_a_pod_gets_the_rails_of_its_gpus_and_no_other(machine: str, kubelet: Path) -> None:
    given(kubelet, GPUS[2], GPUS[0])
    decision = decide(conf(kubelet), ARGS, dict, machine)
    assert rails(decision) == ["rail0", "rail2"]
    assert set(decision.gpus) == {GPUS[0], GPUS[2]}
    assert decision.why == f"the kubelet's checkpoint: {GPUS[2]}, {GPUS[0]}"
    assert decision.warnings == ()


def test_a_pod_without_gpus_gets_none_and_nothing_else_is_opened(kubelet: Path) -> None:
    given(kubelet, "7", resource="rdma/hca")

    def never() -> dict[str, str]:
        raise AssertionError("the database is not needed")

    decision = decide(conf(kubelet), ARGS, never, "/nonexistent")
    assert (decision.rails, decision.why) == ((), "attach: auto, no GPU, says the kubelet's checkpoint")


def test_a_claims_gpu_counts(machine: str, kubelet: Path, tmp_path: Path) -> None:
    write_checkpoint(kubelet)
    write_claims(kubelet, [claim("uid-0", "gpu.example.com", GPUS[1])])
    assert rails(decide(conf(kubelet), ARGS, dict, machine)) == ["rail1"]


def test_pairing_does_not_depend_on_which_nics_are_away(machine: str, kubelet: Path) -> None:
    """A NIC named by netdev is in another pod: its place on PCI is known from the attachment that took it."""
    given(kubelet, GPUS[1])
    named = conf(kubelet)
    named = named._replace(rails=(named.rails[0]._replace(nic="eth9"), *named.rails[1:]))
    assert rails(decide(named, ARGS, lambda: {"eth9": NICS[0]}, machine)) == ["rail1"]


def test_rail_devices_go_before_gpus(machine: str, kubelet: Path) -> None:
    write_checkpoint(
        kubelet,
        ("uid-0", "main", "amd.com/gpu", GPUS[:2]),
        ("uid-0", "main", "roceway.io/rail", ["rail1", "rail0"]),
    )
    decision = decide(conf(kubelet), ARGS, dict, machine)
    assert rails(decision) == ["rail0", "rail1"]
    assert dict(decision.containers) == {"main": ("rail1", "rail0")}
    assert decision.why == "the kubelet's checkpoint: rail0, rail1"


def test_a_rail_device_pins_the_virtual_function(machine: str, kubelet: Path) -> None:
    wide = conf(kubelet)
    pool = wide.rails[0]._replace(mode="sriov", nic="", pf=NICS[0])
    wide = wide._replace(rails=(pool, *wide.rails[1:]), policy=wide.policy._replace(missing="ignore"))
    given(kubelet, device_id("rail0", "0000:18:00.2"), resource="roceway.io/rail")
    (rail,) = decide(wide, ARGS, dict, machine).rails
    assert (rail.name, rail.nic, rail.pf, rail.mode) == ("rail0", "0000:18:00.2", "", "sriov")
    assert parse_device_id("rail0@0000:18:00.2") == ("rail0", "0000:18:00.2")
    assert parse_device_id("rail0") == ("rail0", "")


def test_a_rail_device_of_another_network_is_told(machine: str, kubelet: Path) -> None:
    given(kubelet, "rail7", resource="roceway.io/rail")
    with pytest.raises(ConfigError, match="the kubelet gave rail7, this network has rail0, rail1, rail2, rail3"):
        decide(conf(kubelet), ARGS, dict, machine)


def test_annotations_decide_where_the_kubelet_names_no_gpu(machine: str, kubelet: Path) -> None:
    given(kubelet, "7", resource="rdma/hca")
    decision = decide(conf(kubelet, {"roceway.io/gpus": GPUS[3]}), ARGS, dict, machine)
    assert (rails(decision), decision.why) == (["rail3"], f"pod annotation roceway.io/gpus: {GPUS[3]}")


def test_the_kubelets_word_goes_before_annotations(machine: str, kubelet: Path) -> None:
    given(kubelet, GPUS[0])
    assert rails(decide(conf(kubelet, {"roceway.io/gpus": GPUS[3]}), ARGS, dict, machine)) == ["rail0"]


def test_cdi_names_in_the_runtimes_configuration_come_last(machine: str, kubelet: Path) -> None:
    given(kubelet)
    wanted = conf(kubelet, runtimeConfig={"deviceID": ["nvidia.com/gpu=1"]})
    decision = decide(wanted, ARGS, dict, machine)
    assert (rails(decision), decision.why) == (["rail1"], "runtimeConfig.deviceID (CDI): 1")


def test_a_container_that_is_no_pod_gets_what_its_annotation_names(machine: str, kubelet: Path) -> None:
    assert rails(decide(conf(kubelet, {"roceway.io/gpus": GPUS[0]}), (), dict, machine)) == ["rail0"]
    assert rails(decide(conf(kubelet), (), dict, machine)) == []


@settings(deadline=None)
@given_(st.permutations(GPUS), st.integers(0, 4))
def test_pods_with_other_gpus_never_share_a_rail(machine: str, order: list[str], cut: int) -> None:
    """However the node's GPUs are dealt out: each pod gets as many rails as GPUs, and every rail is one pod's."""
    with tempfile.TemporaryDirectory() as folder:
        dealt = []
        for part in (order[:cut], order[cut:]):
            given(Path(folder), *part)
            dealt.append(rails(decide(conf(Path(folder)), ARGS, dict, machine)))
        assert [len(each) for each in dealt] == [cut, len(GPUS) - cut]
        assert sorted(dealt[0] + dealt[1]) == ["rail0", "rail1", "rail2", "rail3"]
        assert dealt[0] == sorted(f"rail{GPUS.index(gpu)}" for gpu in order[:cut])


# nobody can tell


def test_a_kubelet_that_cannot_be_asked_is_try_again_later(kubelet: Path) -> None:
    with pytest.raises(Busy, match="cannot learn which GPUs"):
        decide(conf(kubelet), ARGS, dict)


def test_the_policy_may_start_such_a_pod_without_rails(kubelet: Path) -> None:
    decision = decide(conf(kubelet, policy={"unknown": "ignore"}), ARGS, dict)
    assert decision.rails == ()
    assert "policy.unknown: ignore" in decision.why
    assert "cannot learn which GPUs" in str(decision.warnings[0])


@pytest.mark.parametrize(
    ("value", "expected"), [("none", []), ("rail1", ["rail1"]), ("all", ["rail0", "rail1", "rail2", "rail3"])]
)
def test_an_annotation_is_followed_all_the_same(kubelet: Path, value: str, expected: list[str]) -> None:
    assert rails(decide(conf(kubelet, {ANNOTATION: value}), ARGS, dict)) == expected


def test_under_always_nobody_is_asked(kubelet: Path) -> None:
    assert len(decide(conf(kubelet, attach="always"), ARGS, dict).rails) == 4
    assert rails(decide(conf(kubelet, {ANNOTATION: "rail2"}, attach="always"), ARGS, dict)) == ["rail2"]


def test_a_nic_that_a_meta_plugin_chose_is_a_request(kubelet: Path) -> None:
    one = conf(kubelet)._replace(runtime_config={"deviceID": NICS[0]})
    decision = decide(one._replace(rails=one.rails[:1]), ARGS, dict)
    assert (rails(decision), decision.why) == (["rail0"], f"runtimeConfig.deviceID: {NICS[0]}")


# policy


def test_a_gpu_without_a_rail_refuses_the_pod(machine: str, kubelet: Path) -> None:
    given(kubelet, GPUS[0], "0000:9d:00.0")
    with pytest.raises(ConfigError) as caught:
        decide(conf(kubelet), ARGS, dict, machine)
    assert str(caught.value.findings[0]) == "GPU 0000:9d:00.0: has no rail on this node"


def test_or_warns(machine: str, kubelet: Path) -> None:
    given(kubelet, GPUS[0], "0000:9d:00.0")
    decision = decide(conf(kubelet, policy={"missing": "warn"}), ARGS, dict, machine)
    assert rails(decision) == ["rail0"]
    assert [str(each) for each in decision.warnings] == ["GPU 0000:9d:00.0: has no rail on this node"]


def test_a_gpu_that_no_driver_knows_is_told_as_such(machine: str, kubelet: Path) -> None:
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    given(kubelet, uuid, resource="nvidia.com/gpu")
    with pytest.raises(ConfigError, match=f"{uuid}: no driver on this machine knows"):
        decide(conf(kubelet), ARGS, dict, machine)


def test_mismatched_rail_devices_are_judged(machine: str, kubelet: Path) -> None:
    write_checkpoint(
        kubelet, ("uid-0", "main", "amd.com/gpu", GPUS[:1]), ("uid-0", "main", "roceway.io/rail", ["rail3"])
    )
    with pytest.raises(ConfigError, match="its rail rail0 is not one of the pod's"):
        decide(conf(kubelet), ARGS, dict, machine)
    mild = decide(conf(kubelet, policy={"missing": "warn", "foreign": "warn"}), ARGS, dict, machine)
    assert rails(mild) == ["rail3"]
    assert [str(each) for each in mild.warnings] == [
        "GPU 0000:1b:00.0: its rail rail0 is not one of the pod's",
        "rail rail3: belongs to GPU 0000:61:00.0, which the pod does not have",
    ]


def test_an_annotation_that_leaves_a_gpus_rail_out_is_judged_too(machine: str, kubelet: Path) -> None:
    given(kubelet, GPUS[0])
    with pytest.raises(ConfigError, match="its rail rail0 is not one"):
        decide(conf(kubelet, {ANNOTATION: "rail1"}), ARGS, dict, machine)


def test_far_nics_are_judged(machine: str, kubelet: Path) -> None:
    given(kubelet, GPUS[0])
    with pytest.raises(ConfigError, match=r"PXB from GPU 0000:1b:00\.0; the policy allows PIX"):
        decide(conf(kubelet, policy={"far": "refuse", "farthest": "PIX"}), ARGS, dict, machine)
