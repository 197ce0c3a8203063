"""roceway-cni on NICs with RDMA devices that the kernel really moves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guest.kit import ROCE, names, namespace, sh, wait_until
from tests.lab.guest.pods import added, call, call_process, conf, deleted, exclusive_mode, pod, rdma_devices, up


@pytest.fixture
def exclusive() -> Iterator[None]:
    with exclusive_mode():
        yield


def whole(number: int, **more: Any) -> dict[str, Any]:
    """Rail of a simulated NIC, by PCI address, the pod's alone."""
    return {"pci": ROCE[number].address, "mode": "host-device", **more}


def test_exclusive_mode_takes_the_rdma_device_along_and_brings_it_back(exclusive: None) -> None:
    wanted = conf(whole(0), whole(1, rdmaName="mlx5_rail1"))
    before = rdma_devices(), names()
    with pod() as space:
        code, result = call_process("ADD", wanted, space)
        assert code == 0, result
        assert [each["pciID"] for each in result["interfaces"]] == [ROCE[0].address, ROCE[1].address]
        assert rdma_devices(space) == {"simib0": "rail0", "mlx5_rail1": "rail1"}
        assert not {"simib0", "simib1"} & set(rdma_devices())
        assert call_process("CHECK", {**wanted, "prevResult": result}, space) == (0, None)
        assert call_process("DEL", wanted, space) == (0, None)
        assert rdma_devices(space) == {}
        assert (rdma_devices(), names()) == before


def test_a_meta_plugin_is_told_the_device(exclusive: None, tmp_path: Path) -> None:
    file = tmp_path / "devinfo" / "pods-c1_net1"
    wanted = conf(whole(0, rdmaName="mlx5_rail0"), runtimeConfig={"CNIDeviceInfoFile": str(file)})
    with pod() as space:
        added(wanted, space)
        assert json.loads(file.read_text()) == {
            "type": "pci",
            "version": "1.1.0",
            "pci": {"pci-address": ROCE[0].address, "rdma-device": "mlx5_rail0"},
        }
        assert file.stat().st_mode & 0o777 == 0o444
        deleted(wanted, space)
    assert not file.exists()


def test_a_meta_plugin_is_told_the_device_of_each_rail(exclusive: None, tmp_path: Path) -> None:
    wanted = conf(whole(0, rdmaName="mlx5_rail0"), whole(1))
    wanted["runtimeConfig"] = {"CNIDeviceInfoFile": str(tmp_path / "devinfo/pods-c1_eth0")}
    with pod() as space:
        added(wanted, space)
        told = {path.name: json.loads(path.read_text())["pci"] for path in (tmp_path / "devinfo").iterdir()}
        assert told == {
            "pods-c1_rail0": {"pci-address": ROCE[0].address, "rdma-device": "mlx5_rail0"},
            "pods-c1_rail1": {"pci-address": ROCE[1].address, "rdma-device": "simib1"},
        }
        deleted(wanted, space)
    assert not list((tmp_path / "devinfo").iterdir())


def test_check_names_an_rdma_device_that_left_and_a_gid_that_went(exclusive: None) -> None:
    wanted = conf(whole(0))
    with pod() as space:
        result = added(wanted, space)
        sh("ip", "netns", "exec", space, "rdma", "dev", "set", "simib0", "name", "stolen")
        code, body = call("CHECK", {**wanted, "prevResult": result}, space)
        assert code == 100
        assert "rail0: RDMA device: wanted simib0, got none" in body["details"]
        assert "RoCE v2 GID: wanted one for 10.200.0.1 on simib0, got none" in body["details"]
        deleted(wanted, space)  # by index, not by name
    assert "simib0" in rdma_devices()


def test_a_pod_that_died_without_del_costs_neither_nic_nor_rdma_device(exclusive: None) -> None:
    wanted = conf(whole(0, rdmaName="mlx5_rail0"))
    with pod() as space:
        added(wanted, space)
    wait_until(lambda: "rail0" in names() and "mlx5_rail0" in rdma_devices())
    deleted(wanted)
    assert rdma_devices()["simib0"] == "sim0"
    assert "rail0" not in names()
    with pod() as space:
        added(wanted, space)
        assert rdma_devices(space) == {"mlx5_rail0": "rail0"}
        deleted(wanted, space)


def test_the_next_add_takes_over_from_a_dead_pod_without_any_del(exclusive: None) -> None:
    wanted = conf(whole(0, rdmaName="mlx5_rail0"))
    with pod() as space:
        added(wanted, space)
        with namespace("next") as other:
            sh("ip", "netns", "del", space)
            wait_until(lambda: "rail0" in names())
            added(wanted, other, "c2")
            assert rdma_devices(other) == {"mlx5_rail0": "rail0"}
            deleted(wanted, other, "c2")
    assert rdma_devices()["simib0"] == "sim0"


def test_shared_mode_moves_no_rdma_device_and_check_proves_the_gid() -> None:
    wanted = conf(whole(0))
    before = rdma_devices()
    with pod() as space:
        result = added(wanted, space)
        assert set(rdma_devices()) == set(before)
        assert call("CHECK", {**wanted, "prevResult": result}, space) == (0, None)
        sh("ip", "-n", space, "addr", "flush", "dev", "rail0", "scope", "global")
        code, body = call("CHECK", {**wanted, "prevResult": result}, space)
        assert code == 100
        assert "RoCE v2 GID: wanted one for 10.200.0.1 on simib0" in body["details"]
        deleted(wanted, space)
    assert "sim0" in names()


def test_a_name_for_the_rdma_device_is_refused_in_shared_mode() -> None:
    with pod() as space:
        code, body = call("ADD", conf(whole(0, rdmaName="mlx5_rail0")), space)
        assert code == 7
        assert "shared by all namespaces" in body["details"]
        assert "sim0" in names()


def test_macvlan_rails_leave_rdma_devices_alone(exclusive: None) -> None:
    up("sim0")
    wanted = conf({"pci": ROCE[0].address, "mode": "macvlan"})
    with pod() as space:
        added(wanted, space)
        assert "simib0" in rdma_devices()
        assert rdma_devices(space) == {}
        deleted(wanted, space)
    sh("ip", "link", "set", "sim0", "down")
