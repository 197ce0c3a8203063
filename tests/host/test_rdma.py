"""RDMA devices of whole machines from sysfs, GID look-up, counters; a pod's own sysfs on the real kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host import netns, rdma
from host.errors import HostError
from tests.fixtures.machines.archive import unpack
from tests.world import World


@pytest.fixture(scope="module")
def hgx(tmp_path_factory: pytest.TempPathFactory) -> str:
    return unpack("hgx-h100", tmp_path_factory.mktemp("hgx")) + "/sys"


def test_a_device_with_its_port(hgx: str) -> None:
    device = rdma.read("mlx5_0", sysfs=hgx)
    assert device == rdma.Device(
        name="mlx5_0",
        node_guid=device.node_guid,
        firmware="28.39.1002",
        node_type="CA",
        pci="0000:18:00.0",
        netdevs=("enp24s0np0",),
        ports=(rdma.Port(1, "ACTIVE", "LinkUp", "Ethernet", 400.0, 0, None, "enp24s0np0"),),
    )
    assert device.node_guid.startswith("a088:c203:")


def test_all_devices_with_their_pci_function(hgx: str) -> None:
    assert {device.name: device.pci for device in rdma.devices(sysfs=hgx)} == {
        "mlx5_0": "0000:18:00.0",
        "mlx5_1": "0000:29:00.0",
        "mlx5_2": "0000:29:00.1",
        "mlx5_3": "0000:40:00.0",
        "mlx5_4": "0000:4f:00.0",
        "mlx5_5": "0000:5e:00.0",
        "mlx5_6": "0000:9a:00.0",
        "mlx5_7": "0000:aa:00.0",
        "mlx5_8": "0000:aa:00.1",
        "mlx5_9": "0000:c0:00.0",
        "mlx5_10": "0000:ce:00.0",
        "mlx5_11": "0000:dc:00.0",
        "mlx5_12": "0000:18:00.1",
    }


def test_gid_table_has_types_and_netdevs_and_skips_empty_entries(hgx: str) -> None:
    table = rdma.gids("mlx5_0", sysfs=hgx)
    assert [(each.slot, each.type, each.netdev) for each in table] == [
        (0, "IB/RoCE v1", "enp24s0np0"),
        (1, "RoCE v2", "enp24s0np0"),
        (2, "IB/RoCE v1", "enp24s0np0"),
        (3, "RoCE v2", "enp24s0np0"),
    ]
    assert table[3].address == "10.200.0.1"
    assert table[0].address.startswith("fe80::")


def test_find_gid(hgx: str) -> None:
    found = rdma.find_gid("mlx5_0", "10.200.0.1", sysfs=hgx)
    assert found is not None
    assert found.slot == 3
    first = rdma.find_gid("mlx5_0", "10.200.0.1", type="IB/RoCE v1", sysfs=hgx)
    assert first is not None
    assert first.slot == 2
    assert rdma.find_gid("mlx5_0", "10.200.0.9", sysfs=hgx) is None
    assert rdma.find_gid("mlx5_0", "10.200.0.1", netdev="rail0", sysfs=hgx) is None


def test_find_gid_wants_an_address(hgx: str) -> None:
    with pytest.raises(ValueError, match="no IP address"):
        rdma.find_gid("mlx5_0", "rail0", sysfs=hgx)


def test_counters(hgx: str) -> None:
    assert rdma.counters("mlx5_0", sysfs=hgx)["port_xmit_data"] == 91827364550
    assert "VL15_dropped" not in rdma.counters("mlx5_0", sysfs=hgx)
    assert rdma.hw_counters("mlx5_0", sysfs=hgx)["np_cnp_sent"] == 20134
    assert "lifespan" not in rdma.hw_counters("mlx5_0", sysfs=hgx)
    assert rdma.hw_counters("mlx5_3", sysfs=hgx) == {}


def test_one_device_with_two_ports(tmp_path: Path) -> None:
    sysfs = unpack("dual-port", tmp_path) + "/sys"
    device = rdma.read("mlx4_0", sysfs=sysfs)
    assert device.netdevs == ("enp65s0", "enp65s0d1")
    assert [(port.number, port.netdev) for port in device.ports] == [(1, "enp65s0"), (2, "enp65s0d1")]


def test_infiniband_has_a_lid_and_no_netdev_in_its_gid_table(tmp_path: Path) -> None:
    sysfs = unpack("infiniband-beside-roce", tmp_path) + "/sys"
    (port,) = rdma.read("mlx5_0", sysfs=sysfs).ports
    assert (port.link_layer, port.netdev) == ("InfiniBand", "")
    assert port.lid > 0


def test_a_machine_without_rdma_has_none(tmp_path: Path) -> None:
    assert rdma.devices(sysfs=str(tmp_path)) == ()


def test_a_software_device_is_on_no_pci_function(tmp_path: Path) -> None:
    folder = tmp_path / "class/infiniband/rxe0"
    (folder / "ports/1").mkdir(parents=True)
    (folder / "parent").write_text("eth0\n")
    (folder / "ports/1/active_mtu").write_text("1024\n")
    device = rdma.read("rxe0", sysfs=str(tmp_path))
    assert (device.pci, device.netdevs, device.ports[0].active_mtu) == ("", ("eth0",), 1024)


def test_devices_of_a_pci_function_are_those_that_its_driver_made(tmp_path: Path) -> None:
    for name in ("mlx5_4", "rxe0"):
        (tmp_path / "class/infiniband" / name).mkdir(parents=True)
        (tmp_path / "bus/pci/devices/0000:18:00.1/infiniband" / name).mkdir(parents=True)
    (tmp_path / "class/infiniband/rxe0/parent").write_text("rail0\n")
    (tmp_path / "class/infiniband/mlx5_4/node_guid").write_text("02aa:00ff:fe00:0001\n")
    assert rdma.beside("0000:18:00.1", sysfs=str(tmp_path)) == ("mlx5_4",)
    assert rdma.beside("0000:18:00.2", sysfs=str(tmp_path)) == ()
    assert rdma.node_guid("mlx5_4", sysfs=str(tmp_path)) == "02aa:00ff:fe00:0001"
    assert rdma.node_guid("mlx5_5", sysfs=str(tmp_path)) == ""


@pytest.mark.parametrize("name", ["mlx5_99", "", "../net"])
def test_no_such_device(hgx: str, name: str) -> None:
    with pytest.raises(HostError, match="RDMA device"):
        rdma.read(name, sysfs=hgx)


def test_no_such_port(hgx: str) -> None:
    with pytest.raises(HostError, match="GID table of mlx5_0 port 9"):
        rdma.gids("mlx5_0", 9, sysfs=hgx)


@pytest.mark.parametrize(
    ("gid", "address"),
    [
        ("0000:0000:0000:0000:0000:ffff:0ac8:0002", "10.200.0.2"),
        ("fd00:0200:0000:0000:0000:0000:0000:0002", "fd00:200::2"),
        ("0000", ""),
        ("garbage", ""),
    ],
)
def test_parse_gid(gid: str, address: str) -> None:
    assert rdma.parse_gid(gid) == address


@pytest.mark.parametrize(
    ("netdev", "roce"), [(9000, 4096), (4192, 4096), (4191, 2048), (1500, 1024), (352, 256), (351, 0), (0, 0)]
)
def test_mtu_for(netdev: int, roce: int) -> None:
    assert rdma.mtu_for(netdev) == roce


@given(st.text(max_size=40))
def test_texts_of_any_kind_parse(text: str) -> None:
    assert isinstance(rdma.parse_state(text), str)
    assert rdma.parse_rate(text) >= 0
    assert isinstance(rdma.parse_gid(text), str)


@given(st.binary(max_size=40))
def test_files_of_any_kind_parse(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    sysfs = tmp_path_factory.mktemp("any")
    port = sysfs / "class/infiniband/x/ports/1"
    (port / "gids").mkdir(parents=True)
    (port / "hw_counters").mkdir()
    for name in ("state", "rate", "lid", "active_mtu", "gids/0", "hw_counters/a"):
        (port / name).write_bytes(data)
    rdma.read("x", sysfs=str(sysfs))
    rdma.gids("x", sysfs=str(sysfs))
    rdma.hw_counters("x", sysfs=str(sysfs))


@pytest.mark.netns
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces")
def test_a_pods_sysfs_shows_the_pods_devices() -> None:
    with World(rails=1) as world:
        pod = netns.Netns.open(world.ns("pod").path)
        try:
            with rdma.sysfs_of(pod) as sysfs:
                assert os.listdir(f"{sysfs}/class/net") == ["lo"]
                assert rdma.devices(sysfs=sysfs) in ((), rdma.devices())  # exclusive mode, shared mode
                with pytest.raises(OSError, match="Read-only"), open(f"{sysfs}/class/net/lo/mtu", "w") as file:
                    file.write("1500")
            assert not os.path.exists(sysfs)
        finally:
            pod.close()
