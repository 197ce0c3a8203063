"""NCCL's log against the intention: what is as wanted is silent, what is not is named with its place."""

from __future__ import annotations

import pytest

from nccltest.model import Remark
from nccltest.nccllog import Intended, check

RAILS = ("rail0", "rail1")
HCAS = {"rail0": "mlx5_0", "rail1": "mlx5_1"}
WANTED = Intended(RAILS, HCAS, 106)


def log(*lines: str, host: str = "gpu-1", device: int = 0) -> str:
    return "".join(f"{host}:4711:4800 [{device}] NCCL INFO {line}\n" for line in lines)


GOOD = (
    "NCCL_IB_TC set by environment to 106.",
    "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
    "Using network IB",
    "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
    "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
    "Channel 01/0 : 1[1] -> 9[1] [send] via NET/IB/1/GDRDMA/Shared",
)


def rules(text: str, intended: Intended = WANTED) -> set[str]:
    return {remark.rule for remark in check(text, intended)}


def test_as_intended_is_silent() -> None:
    assert check(log(*GOOD), WANTED) == []
    assert check("", WANTED) == []
    assert check("no NCCL here\n" * 3, WANTED) == []


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:", "0: ", "2026-01-01T00:00:00Z "])
def test_prefixes_do_not_hide_it(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in log("Using network Socket").splitlines())
    assert check(text, WANTED) == [
        Remark("socket-fallback", "gpu-1", "NCCL uses sockets, not RDMA: 5 to 12 times slower")
    ]


def test_a_fallback_to_sockets_is_told_only_where_rdma_was_wanted() -> None:
    for line in (
        "Using network Socket",
        "NET/IB : No device found.",
        "Channel 00 : 0[0] -> 1[0] [send] via NET/Socket/0",
    ):
        assert rules(log(line)) == {"socket-fallback"}
        assert rules(log(line), Intended(RAILS, {}, 0)) == set()


def test_a_gpu_on_another_rails_nic_is_named() -> None:
    text = log(*GOOD[:3], "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA")
    assert check(text, WANTED) == [Remark("wrong-hca", "gpu-1 GPU 0", "GPU 0 belongs to rail0 but uses mlx5_1 (rail1)")]


def test_a_nic_that_is_no_rails_is_named() -> None:
    text = log(
        GOOD[0],
        "NET/IB : Using [0]mlx5_9:1/RoCE ; OOB eth0:1<0>",
        "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
    )
    assert rules(text) == {"wrong-hca"}


def test_one_gpu_on_two_rails_crosses_rails() -> None:
    lines = (*GOOD, "Channel 02/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA")
    assert rules(log(*lines)) == {"wrong-hca", "cross-rail"}


def test_without_gpudirect_is_told() -> None:
    assert rules(log(*GOOD[:3], "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0")) == {"no-gdr"}
    text = log(*GOOD, "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 7 > 5)")
    assert check(text, WANTED) == [
        Remark("no-gdr", "gpu-1", "GPUDirect RDMA is disabled for GPU 0 / HCA 1 (distance 7 > 5)")
    ]


def test_the_traffic_class_is_compared_without_ecns_bits() -> None:
    assert rules(log(*GOOD), WANTED._replace(traffic_class=104)) == set()
    assert check(log(*GOOD), WANTED._replace(traffic_class=184)) == [
        Remark("traffic-class", "gpu-1", "NCCL_IB_TC is 106, the lossless class is 184")
    ]
    assert check(log(*GOOD[1:]), WANTED) == [
        Remark("traffic-class", "gpu-1", "NCCL_IB_TC is not set; the lossless class is 106")
    ]


def test_infiniband_and_roce_v1_are_told() -> None:
    assert rules(log(GOOD[0], "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:1<0>", *GOOD[3:5])) == {"not-roce"}
    assert rules(log(*GOOD, "NCCL_IB_GID_INDEX set by environment to 2.")) == {"not-rocev2"}
    assert rules(log(*GOOD, "NCCL_IB_GID_INDEX set by environment to 3.")) == set()


def test_hosts_have_their_own_numbers_of_nics() -> None:
    other = log(
        GOOD[0], "NET/IB : Using [0]mlx5_1:1/RoCE [1]mlx5_0:1/RoCE ; OOB eth0:2<0>",
        "Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/1/GDRDMA", host="gpu-2",
    )  # fmt: skip
    assert check(log(*GOOD) + other, WANTED) == []


def test_remarks_are_told_once_and_are_few() -> None:
    text = log(*GOOD[1:]) * 500
    assert len(check(text, WANTED)) == 1
    many = "".join(log("Using network Socket", host=f"h{number}") for number in range(500))
    assert len(check(many, WANTED)) == 64
