"""Who names a GPU how, and what that is on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cni import gpunames
from cni.poddevices import Given, cdi, from_annotations, gpu_names
from tests.fixtures.machines.archive import unpack

UUID = "GPU-5d3c1f40-9a1e-4c77-8e02-0f3b6a7c0040"
MIG = "MIG-9a1e4c77-5d3c-1f40-8e02-0f3b6a7c0001"


def named(resource: str, *idents: str) -> list[tuple[str, str]]:
    return [(name.kind, name.value) for name in gpu_names([Given("main", resource, idents)])]


@pytest.mark.parametrize(
    ("resource", "ident", "expected"),
    [
        ("nvidia.com/gpu", UUID, ("uuid", UUID)),
        ("nvidia.com/gpu.shared", f"{UUID}::3", ("uuid", UUID)),
        ("nvidia.com/mig-1g.10gb", MIG, ("mig", MIG)),
        ("nvidia.com/mig-1g.10gb", f"{MIG}::0", ("mig", MIG)),
        ("nvidia.com/gpu", f"MIG-{UUID}/3/0", ("uuid", UUID)),
        ("gpu.nvidia.com", "gpu-3", ("minor", "3")),
        ("gpu.nvidia.com", "gpu-12-mig-1g.10gb-19-0", ("minor", "12")),
        ("amd.com/gpu", "0000:C1:00.0", ("pci", "0000:c1:00.0")),
        ("gpu.amd.com", "gpu-2-130", ("card", "2")),
        ("huawei.com/Ascend910", "Ascend910-7", ("ascend", "7")),
        ("huawei.com/Ascend910", "Ascend910-4c-100-3", ("ascend", "3")),
        ("huawei.com/Ascend310P", "Ascend310P-1", ("ascend", "1")),
    ],
)
def test_each_vendor_names_its_gpus_in_its_own_way(resource: str, ident: str, expected: tuple[str, str]) -> None:
    assert named(resource, ident) == [expected]


@pytest.mark.parametrize(
    ("resource", "ident"),
    [
        ("roceway.io/rail", "rail0"),
        ("roceway.io/rail", "rail0@0000:18:00.2"),
        ("nvidia.com/hostdev", "mlx5_0"),
        ("rdma/hca", "7"),
        ("gpu.nvidia.com", "imex-3"),
        ("example.com/fpga", "gpu-3"),
        ("huawei.com/Ascend910", "Ascend"),
        ("nvidia.com/gpu", "GPU-short"),
        ("nvidia.com/gpu", ""),
    ],
)
def test_what_is_no_gpu_is_left_out(resource: str, ident: str) -> None:
    assert named(resource, ident) == []


def test_a_gpu_that_two_containers_share_counts_once() -> None:
    both = [Given("a", "nvidia.com/gpu.shared", (f"{UUID}::0",)), Given("b", "nvidia.com/gpu.shared", (f"{UUID}::1",))]
    assert [name.text for name in gpu_names(both)] == [f"{UUID}::1"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"nvidia.com/gpu={UUID}", ("uuid", UUID)),
        ("nvidia.com/gpu=3", ("index", "nvidia 3")),
        ("nvidia.com/gpu=3:1", ("index", "nvidia 3")),
        ("amd.com/gpu=0", ("index", "amd 0")),
    ],
)
def test_cdi_names_are_read(name: str, expected: tuple[str, str]) -> None:
    assert [(each.kind, each.value) for each in gpu_names([cdi(name)])] == [expected]


@pytest.mark.parametrize(
    ("annotations", "names"),
    [
        ({"roceway.io/gpus": f"0000:1b:00.0, {UUID}"}, ["0000:1b:00.0", UUID]),
        ({"roceway.io/gpus": "Ascend910-3,nvidia.com/gpu=1"}, ["Ascend910-3", "1"]),
        ({"huawei.com/Ascend910": "Ascend910-0,Ascend910-1"}, ["Ascend910-0", "Ascend910-1"]),
        ({"cdi.k8s.io/x": f"nvidia.com/gpu={UUID}"}, [UUID]),
    ],
)
def test_annotations_name_gpus(annotations: dict[str, Any], names: list[str]) -> None:
    found = from_annotations(annotations)
    assert found is not None
    assert [name.text for name in gpu_names(found.devices)] == names
    assert found.source == f"pod annotation {next(iter(annotations))}"


@pytest.mark.parametrize("annotations", [{}, {"a": "b"}, {"roceway.io/gpus": ""}, {"roceway.io/gpus": 7}])
def test_annotations_without_gpus_say_nothing(annotations: dict[str, Any]) -> None:
    assert from_annotations(annotations) is None


def resolved(root: Path | str, resource: str, *idents: str) -> dict[str, str]:
    return gpunames.resolve(gpu_names([Given("", resource, idents)]), str(root))


def test_nvidias_uuids_and_indexes_are_found_on_a_machine(tmp_path: Path) -> None:
    root = unpack("cloud-vm-kvm", tmp_path)
    second = "GPU-5d3c1f41-9a1e-4c77-8e02-0f3b6a7c0041"
    found = resolved(root, "nvidia.com/gpu", UUID, second, "GPU-00000000-0000-0000-0000-000000000000")
    assert found == {UUID: "0000:00:05.0", second: "0000:00:06.0"}
    assert gpunames.resolve(gpu_names([cdi("nvidia.com/gpu=1")]), root) == {"1": "0000:00:06.0"}


def test_nvidias_minor_numbers_need_not_follow_addresses(tmp_path: Path) -> None:
    for address, minor in (("0000:1b:00.0", 1), ("0000:43:00.0", 0)):
        folder = tmp_path / "proc/driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\n")
    assert resolved(tmp_path, "gpu.nvidia.com", "gpu-0", "gpu-1-mig-1g.10gb-19-0", "gpu-7") == {
        "gpu-0": "0000:43:00.0",
        "gpu-1-mig-1g.10gb-19-0": "0000:1b:00.0",
    }


def pci_function(root: Path, address: str, **files: str) -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def test_ascends_numbers_come_from_the_driver_and_not_from_the_order_of_addresses(tmp_path: Path) -> None:
    for number, bus in enumerate(("c1", "81", "41", "01")):  # as an Atlas 800 has them
        pci_function(tmp_path, f"0000:{bus}:00.0", vendor="0x19e5", dev_id=str(number))
    pci_function(tmp_path, "0000:02:00.0", vendor="0x15b3", dev_id="9")
    found = resolved(tmp_path, "huawei.com/Ascend910", "Ascend910-0", "Ascend910-3", "Ascend910-9")
    assert found == {"Ascend910-0": "0000:c1:00.0", "Ascend910-3": "0000:01:00.0"}


def test_ascends_table_of_an_older_driver_is_read(tmp_path: Path) -> None:
    table = "c1:00.0 ---> 0\n81:00.0 ---> 1"
    pci_function(tmp_path, "0000:c1:00.0", vendor="0x19e5", devdrv_sysfs_bdf_to_devid=table)
    assert resolved(tmp_path, "huawei.com/Ascend910", "Ascend910-1") == {"Ascend910-1": "0000:81:00.0"}


def test_amds_cards_are_those_of_its_driver(tmp_path: Path) -> None:
    for number, (address, driver) in enumerate((("0000:03:00.0", "ast"), ("0000:c1:00.0", "amdgpu"))):
        pci_function(tmp_path, address)
        (tmp_path / f"drivers/{driver}").mkdir(parents=True)
        (tmp_path / f"sys/bus/pci/devices/{address}/driver").symlink_to(tmp_path / f"drivers/{driver}")
        card = tmp_path / f"sys/class/drm/card{number}"
        card.mkdir(parents=True)
        (card / "device").symlink_to(tmp_path / f"sys/bus/pci/devices/{address}")
    assert resolved(tmp_path, "gpu.amd.com", "gpu-1-129", "gpu-0-128") == {"gpu-1-129": "0000:c1:00.0"}


def test_a_machine_without_drivers_knows_nothing_but_addresses(tmp_path: Path) -> None:
    assert resolved(tmp_path, "nvidia.com/gpu", UUID) == {}
    assert resolved(tmp_path, "nvidia.com/mig-1g.10gb", MIG) == {}
    assert resolved(tmp_path, "amd.com/gpu", "0000:c1:00.0") == {"0000:c1:00.0": "0000:c1:00.0"}
