"""nccl.conf and rails.json: what a job in the pod finds."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni.ncclconf import PodRail, address_range, nccl_conf, rails_document
from cni.podconf import Nccl


def rail(number: int, **fields: object) -> PodRail:
    plain = PodRail(
        name=f"rail{number}",
        pci=f"0000:{0x18 + number:02x}:00.0",
        rdma=f"mlx5_{number}",
        port=1,
        addresses=(f"10.{200 + number}.0.2/16",),
        subnets=(f"10.{200 + number}.0.0/16",),
        mtu=9000,
        gpu=f"0000:{0x1B + number:02x}:00.0",
        distance="PXB",
    )
    return plain._replace(**fields)  # type: ignore[arg-type]


def settings(rails: list[PodRail], nccl: Nccl = Nccl(106)) -> dict[str, str]:  # noqa: B008
    """As NCCL reads it: a line to the first ``=`` is the name, the rest the value; # begins a comment."""
    lines = nccl_conf(rails, nccl, "/run/roceway/topo.xml").splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_eight_rails() -> None:
    assert settings([rail(number) for number in range(8)]) == {
        "NCCL_IB_HCA": "=" + ",".join(f"mlx5_{number}:1" for number in range(8)),
        "NCCL_IB_ROCE_VERSION_NUM": "2",
        "NCCL_IB_ADDR_FAMILY": "AF_INET",
        "NCCL_IB_ADDR_RANGE": "10.200.0.0/13",
        "NCCL_IB_TC": "106",
        "NCCL_CROSS_NIC": "0",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_TOPO_FILE": "/run/roceway/topo.xml",
    }


def test_a_gid_index_is_never_written() -> None:
    assert "GID_INDEX" not in nccl_conf([rail(0)], Nccl(106), "/t")


def test_devices_stand_in_the_order_of_rails_whatever_they_are_called() -> None:
    odd = [rail(0, rdma="mlx5_10"), rail(1, rdma="mlx5_1", port=2), rail(2, rdma="bnxt_re0")]
    assert settings(odd)["NCCL_IB_HCA"] == "=mlx5_10:1,mlx5_1:2,bnxt_re0:1"


def test_without_rdma_devices_nothing_is_said_of_them() -> None:
    assert set(settings([rail(0, rdma="")])) == {"NCCL_CROSS_NIC", "NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE"}


def test_ipv6_rails_and_mixed_ones() -> None:
    six = [rail(n, addresses=(f"fd00:20{n}::2/64",), subnets=(f"fd00:20{n}::/64",)) for n in range(2)]
    assert settings(six)["NCCL_IB_ADDR_FAMILY"] == "AF_INET6"
    assert settings(six)["NCCL_IB_ADDR_RANGE"] == "fd00:200::/31"
    both = [rail(n, subnets=(f"fd00:20{n}::/64", f"10.20{n}.0.0/16")) for n in range(2)]
    assert settings(both)["NCCL_IB_ADDR_FAMILY"] == "AF_INET"
    assert "NCCL_IB_ADDR_FAMILY" not in settings([rail(0), six[1]]), "no family is on all rails"


def test_a_range_of_everything_is_left_out() -> None:
    far = [rail(0, subnets=("10.0.0.0/8",)), rail(1, subnets=("192.168.0.0/16",))]
    assert "NCCL_IB_ADDR_RANGE" not in settings(far)
    assert settings(far)["NCCL_IB_ADDR_FAMILY"] == "AF_INET"


@pytest.mark.parametrize(("given_", "written"), [("eth0", "=eth0"), ("^lo,docker", "^lo,docker"), ("=net1", "=net1")])
def test_the_socket_interface_is_exact_unless_told_otherwise(given_: str, written: str) -> None:
    assert settings([rail(0)], Nccl(None, 1, given_))["NCCL_SOCKET_IFNAME"] == written


def test_what_the_fabric_file_leaves_open_is_left_open() -> None:
    assert "NCCL_IB_TC" not in settings([rail(0)], Nccl(None))


networks = st.lists(
    st.builds(
        lambda address, length: str(ipaddress.ip_network((address >> (32 - length) << (32 - length), length))),
        st.integers(0, 2**32 - 1),
        st.integers(1, 32),
    ),
    min_size=1,
    max_size=8,
)


@given(networks)
def test_the_range_holds_every_subnet_and_no_smaller_one_does(subnets: list[str]) -> None:
    parsed = [ipaddress.IPv4Network(each) for each in subnets]
    covering = ipaddress.IPv4Network(address_range(subnets) or "0.0.0.0/0")
    assert all(each.subnet_of(covering) for each in parsed)
    if covering.prefixlen < 32:
        assert not any(all(each.subnet_of(half) for each in parsed) for half in covering.subnets())


def test_rails_json_has_the_same_for_other_programs() -> None:
    assert rails_document([rail(0), rail(1, rdma="", gpu="", distance="")], ["0000:1b:00.0"]) == {
        "version": 1,
        "gpus": ["0000:1b:00.0"],
        "rails": [
            {
                "name": "rail0",
                "interface": "rail0",
                "pci": "0000:18:00.0",
                "rdma": "mlx5_0",
                "port": 1,
                "addresses": ["10.200.0.2/16"],
                "mtu": 9000,
                "gpu": "0000:1b:00.0",
                "distance": "PXB",
            },
            {
                "name": "rail1",
                "interface": "rail1",
                "pci": "0000:19:00.0",
                "rdma": "",
                "port": 0,
                "addresses": ["10.201.0.2/16"],
                "mtu": 9000,
                "gpu": "",
                "distance": "",
            },
        ],
    }
