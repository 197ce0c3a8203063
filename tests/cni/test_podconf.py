"""What the netconf says of policy and NCCL."""

from __future__ import annotations

from typing import Any

import pytest

from cni.podconf import DISTANCES, Nccl, Policy
from cni.topology import Distance
from tests.cni.netconfs import findings, good, parsed


def test_distances_are_those_of_the_topology() -> None:
    assert tuple(kind.name for kind in Distance) == DISTANCES
    assert [int(kind) for kind in Distance] == list(range(1, len(DISTANCES) + 1))
    assert Policy().farthest == Distance.NODE


def test_what_is_left_out_has_a_default() -> None:
    conf = parsed(good())
    assert conf.policy == Policy("refuse", "warn", "warn", Distance.NODE, "refuse")
    assert conf.nccl == Nccl(None, 0, "eth0")
    assert (conf.run_dir, conf.kubelet_dir) == ("/run/roceway/pods", "/var/lib/kubelet")


def test_what_is_given_is_taken() -> None:
    conf = parsed(
        good(
            policy={"missing": "warn", "foreign": "refuse", "far": "ignore", "farthest": "PXB", "unknown": "ignore"},
            nccl={"trafficClass": 106, "crossNic": 2, "socketInterface": "net0"},
            runDir="/run/x",
            kubeletDir="/var/lib/k0s/kubelet",
        )
    )
    assert conf.policy == Policy("warn", "refuse", "ignore", Distance.PXB, "ignore")
    assert conf.nccl == Nccl(106, 2, "net0")
    assert (conf.run_dir, conf.kubelet_dir) == ("/run/x", "/var/lib/k0s/kubelet")


@pytest.mark.parametrize(
    ("extra", "path"),
    [
        ({"policy": []}, "policy"),
        ({"policy": {"missing": "no"}}, "policy.missing"),
        ({"policy": {"far": None}}, "policy.far"),
        ({"policy": {"farthest": "pix"}}, "policy.farthest"),
        ({"policy": {"unknown": "warn"}}, "policy.unknown"),
        ({"policy": {"surprise": 1}}, "policy.surprise"),
        ({"nccl": 7}, "nccl"),
        ({"nccl": {"trafficClass": 256}}, "nccl.trafficClass"),
        ({"nccl": {"trafficClass": True}}, "nccl.trafficClass"),
        ({"nccl": {"crossNic": -1}}, "nccl.crossNic"),
        ({"nccl": {"socketInterface": "a\nNCCL_DEBUG=INFO"}}, "nccl.socketInterface"),
        ({"nccl": {"surprise": 1}}, "nccl.surprise"),
        ({"runDir": "relative"}, "runDir"),
        ({"kubeletDir": False}, "kubeletDir"),
    ],
)
def test_each_mistake_is_told_with_its_place(extra: dict[str, Any], path: str) -> None:
    assert set(findings(good(**extra))) == {path}


def test_all_mistakes_are_told_at_once() -> None:
    wrong = findings(good(policy={"missing": 1, "far": 2}, nccl={"crossNic": 9, "trafficClass": "x"}))
    assert set(wrong) == {"policy.missing", "policy.far", "nccl.crossNic", "nccl.trafficClass"}
