"""What the agent tells of RDMA: a pod's nccl.conf, the node's view into pods, counters, character devices."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cni.agent import railcounters
from cni.agent.nodeview import RailView, look
from cni.agent.railunits import char_devices, units
from cni.lifecycle import open_store
from cni.netconf import parse
from tests.cni.kubelets import write_checkpoint
from tests.cni.ncclreader import read
from tests.lab.guest import pods
from tests.lab.guest.kit import ROCE, netdev, wait_until
from tests.lab.guest.pods import STATE, conf, exclusive_mode, pod, up

ARGS = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ml;K8S_POD_NAME=train-0;K8S_POD_UID=uid-0"
PAIR = (ROCE[0], ROCE[4])
"""Two NICs that are back to back, so that both have a link."""


@pytest.fixture
def exclusive() -> Iterator[None]:
    with exclusive_mode():
        yield


def wanted(folder: Path, mode: str = "host-device") -> dict[str, Any]:
    """Both NICs as rails of a pod that was given them as devices."""
    write_checkpoint(folder / "kubelet", ("uid-0", "main", "roceway.io/rail", ["rail0", "rail1"]))
    return conf(
        *({"pci": seat.address, "mode": mode} for seat in PAIR),
        attach="auto",
        agent=False,
        kubeletDir=str(folder / "kubelet"),
        runDir=str(folder / "pods"),
        nccl={"trafficClass": 106},
    )


def call(verb: str, configuration: dict[str, Any], space: str) -> None:
    code, body = pods.call(verb, configuration, space, arguments=ARGS)
    assert code == 0, body


def seen(configuration: dict[str, Any]) -> tuple[RailView, ...]:
    store = open_store(STATE, create=False)
    assert store is not None
    with store:
        return look(parse(configuration, "1.1.0"), store)


def nccl_conf(folder: Path) -> dict[str, str]:
    lines = (folder / "pods/rail0+rail1/nccl.conf").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_a_pod_finds_its_moved_devices_in_nccl_conf_and_the_agent_finds_them_in_the_pod(
    exclusive: None, tmp_path: Path
) -> None:
    configuration = wanted(tmp_path)
    with pod() as space:
        call("ADD", configuration, space)
        assert nccl_conf(tmp_path) == {
            "NCCL_IB_HCA": "=simib0:1,simib4:1",
            "NCCL_IB_ROCE_VERSION_NUM": "2",
            "NCCL_IB_ADDR_FAMILY": "AF_INET",
            "NCCL_IB_ADDR_RANGE": "10.200.0.0/15",
            "NCCL_IB_TC": "106",
            "NCCL_CROSS_NIC": "0",
            "NCCL_SOCKET_IFNAME": "=eth0",
            "NCCL_TOPO_FILE": "/run/roceway/topo.xml",
        }
        system = read((tmp_path / "pods/rail0+rail1/topo.xml").read_text())
        assert [cpu.attributes["numaid"] for cpu in system.children] == ["0", "1"]
        wait_until(lambda: all(rail.rdma_state == "ACTIVE" for rail in seen(configuration)))
        rails = seen(configuration)
        assert [(rail.inside, rail.netdev, rail.rdma) for rail in rails] == [
            ("c1", "rail0", "simib0"),
            ("c1", "rail1", "simib4"),
        ]
        assert all(unit.healthy for unit in units(rails, {})), units(rails, {})
        counted = railcounters.read(rails)
        assert [each.rail for each in counted] == ["rail0", "rail1"]
        assert all(("rx", 3) in each.pause for each in counted), "PFC frames, counted in the pod's namespace"
        call("DEL", configuration, space)
    assert not (tmp_path / "pods/rail0+rail1").exists()
    assert [rail.inside for rail in seen(configuration)] == ["", ""]


def test_in_shared_mode_a_macvlan_rail_uses_its_nics_device(tmp_path: Path) -> None:
    up(*(netdev(seat.address) for seat in PAIR))
    configuration = wanted(tmp_path, "macvlan")
    with pod() as space:
        call("ADD", configuration, space)
        assert nccl_conf(tmp_path)["NCCL_IB_HCA"] == "=simib0:1,simib4:1"
        rails = seen(configuration)
        assert [rail.inside for rail in rails] == ["", ""], "the NIC stays the host's"
        assert [[holder.pod for holder in rail.holders] for rail in rails] == [["ml/train-0"], ["ml/train-0"]]
        call("DEL", configuration, space)


def test_the_character_devices_of_an_rdma_device_are_the_kernels(tmp_path: Path) -> None:
    paths = char_devices(["simib0"])
    assert [path for path in paths if "uverbs" in path]
    assert all(Path(path).is_char_device() for path in paths), paths
    assert set(char_devices(["simib1"])) & set(paths) <= {"/dev/infiniband/rdma_cm"}


def test_a_link_that_goes_makes_its_rail_unfit(tmp_path: Path) -> None:
    up(*(netdev(seat.address) for seat in PAIR))
    configuration = wanted(tmp_path, "macvlan")
    with pod() as space:
        call("ADD", configuration, space)
        wait_until(lambda: all(rail.rdma_state == "ACTIVE" for rail in seen(configuration)))
        subprocess.run(["ip", "link", "set", netdev(PAIR[1].address), "down"], check=True, timeout=30)
        wait_until(lambda: not units(seen(configuration), {})[1].healthy)
        assert units(seen(configuration), {})[1].why == f"NIC {netdev(PAIR[1].address)} is down"
        up(netdev(PAIR[1].address))
        call("DEL", configuration, space)
