"""Device-info files: one rail, several rails, rails that have no device of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cni import deviceinfo
from cni.steps import AwaitGid, CreateLink, HostNic, HostRdma, MoveLink, MoveRdma, SetVf, Step
from host.errors import HostError

NIC = HostNic(3, "eth2", "", "0000:18:00.0", "04:00:00:00:00:07", "02:00:00:00:00:07", 9000, True, (), (), ())
VF = NIC._replace(pci="0000:2a:00.1")
STEPS: tuple[Step, ...] = (
    SetVf("rail1", "0000:2a:00.1", "0000:2a:00.0", 0, (), (), ""),
    MoveLink("rail0", NIC),
    MoveLink("rail1", VF),
    CreateLink("rail2", "macvlan", "eth4", 5, 9000, "", 7),
    MoveRdma("rail0", HostRdma(4, "mlx5_0", "", NIC.pci), "mlx5_r0"),
    AwaitGid("rail1", "mlx5_9", "10.201.0.2", False),
)


@pytest.mark.parametrize(
    ("path", "rails", "files"),
    [
        ("/d/cni/pods-c1_net1", ["rail0"], {"rail0": "/d/cni/pods-c1_net1"}),
        ("/d/cni/pods-c1_net1", ["rail0", "r1"], {"rail0": "/d/cni/pods-c1_rail0", "r1": "/d/cni/pods-c1_r1"}),
        ("/d/cni/own-name", ["rail0", "r1"], {"rail0": "/d/cni/own-name_rail0", "r1": "/d/cni/own-name_r1"}),
        (None, ["rail0"], {}),
        ("relative", ["rail0"], {}),
        (7, ["rail0"], {}),
        ("/d/cni/pods-c1_net1", [], {}),
    ],
)
def test_each_rail_has_a_file_beside_that_of_the_interface(path: object, rails: list[str], files: object) -> None:
    assert deviceinfo.files(path, "net1", rails) == files


def test_each_file_names_the_device_of_its_rail(tmp_path: Path) -> None:
    paths = deviceinfo.files(f"{tmp_path}/cni/pods-c1_net1", "net1", ["rail0", "rail1", "rail2"])
    deviceinfo.write(paths, STEPS)
    told = {path.name: json.loads(path.read_text()) for path in (tmp_path / "cni").iterdir()}
    assert told == {
        "pods-c1_rail0": {
            "type": "pci",
            "version": "1.1.0",
            "pci": {"pci-address": "0000:18:00.0", "rdma-device": "mlx5_r0"},
        },
        "pods-c1_rail1": {
            "type": "pci",
            "version": "1.1.0",
            "pci": {"pci-address": "0000:2a:00.1", "rdma-device": "mlx5_9", "pf-pci-address": "0000:2a:00.0"},
        },
    }
    assert (tmp_path / "cni/pods-c1_rail0").stat().st_mode & 0o777 == 0o444
    deviceinfo.remove(list(paths.values()))
    assert list((tmp_path / "cni").iterdir()) == []


@pytest.mark.parametrize("paths", [None, 7, {}, [None, 7], "", ["/nowhere/at/all"]])
def test_removing_what_is_no_file_is_no_error(paths: object) -> None:
    deviceinfo.remove(paths)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cni").write_text("")
    with pytest.raises(HostError, match=f"write {tmp_path}/cni/x: "):
        deviceinfo.write({"rail0": f"{tmp_path}/cni/x"}, STEPS)
