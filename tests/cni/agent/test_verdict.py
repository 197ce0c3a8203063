"""The tuner's verdict on NICs, and what becomes of it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from cni.agent.nodeview import RailView, problem
from cni.agent.railunits import char_devices, offers, rdma_of, units
from cni.agent.verdict import FILE, verdicts


def rail(**fields: Any) -> RailView:
    plain = RailView(
        name="rail0",
        mode="macvlan",
        nic="eth2",
        pci="0000:18:00.0",
        netdev="eth2",
        inside="",
        up=True,
        carrier=True,
        speed=400000,
        mtu=9000,
        rdma="mlx5_0",
        port=1,
        rdma_state="ACTIVE",
        holders=(),
        gpu="0000:1b:00.0",
        distance="PXB",
        numa_node=1,
    )
    return plain._replace(**fields)


def write(folder: Path, document: object) -> None:
    (folder / FILE).write_text(json.dumps(document))


def test_a_nic_with_findings_is_unfit_and_one_without_is_not(tmp_path: Path) -> None:
    nics = [
        {"pci": "0000:18:00.0", "netdev": "eth2", "findings": ["pfc: wanted 3, got none"]},
        {"pci": "0000:2a:00.0", "netdev": "eth3", "findings": []},
    ]
    write(tmp_path, {"version": 1, "nics": nics})
    why = "roceway-tune verify: pfc: wanted 3, got none"
    assert verdicts(str(tmp_path)) == {"0000:18:00.0": why, "eth2": why}
    (unit,) = units([rail()], verdicts(str(tmp_path)))
    assert (unit.healthy, unit.why) == (False, why)


def test_many_findings_are_cut_short(tmp_path: Path) -> None:
    write(tmp_path, {"version": 1, "nics": [{"netdev": "eth2", "findings": [f"f{n}" for n in range(9)]}]})
    assert verdicts(str(tmp_path))["eth2"] == "roceway-tune verify: f0; f1; f2; and 6 more"


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"version": 2, "nics": [{"netdev": "eth2", "findings": ["x"]}]}, {"version": 1, "nics": [7]}, "x"],
)
def test_a_file_of_another_shape_says_nothing(tmp_path: Path, document: object) -> None:
    write(tmp_path, document)
    assert verdicts(str(tmp_path)) == {}


def test_no_file_and_one_from_before_the_boot_say_nothing(tmp_path: Path) -> None:
    assert verdicts(str(tmp_path)) == {}
    write(tmp_path, {"version": 1, "nics": [{"netdev": "eth2", "findings": ["x"]}]})
    assert verdicts(str(tmp_path))
    long_ago = time.time() - 10 * 365 * 86400
    os.utime(tmp_path / FILE, (long_ago, long_ago))
    assert verdicts(str(tmp_path)) == {}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"netdev": ""}, "NIC eth2 does not exist"),
        ({"up": False, "carrier": False}, "NIC eth2 is down"),
        ({"carrier": False}, "NIC eth2 is without carrier"),
        ({"rdma_state": "DOWN"}, "RDMA device mlx5_0, port 1, is DOWN"),
        ({"rdma": "", "rdma_state": ""}, "NIC eth2 has no RDMA device, others of this node have"),
        ({"mode": "host-device", "up": False, "carrier": False}, ""),
        ({"mode": "host-device", "up": False, "carrier": False, "inside": "c1"}, "NIC eth2 is down"),
        ({"mode": "sriov", "vfs": ("0000:18:00.2",), "up": False, "carrier": False}, "NIC eth2 is down"),
    ],
)
def test_what_makes_a_rail_unfit(fields: dict[str, Any], why: str) -> None:
    assert problem(rail(**fields), fabric_has_rdma=True) == why


def test_a_node_without_rdma_lacks_none() -> None:
    assert problem(rail(rdma="", rdma_state=""), fabric_has_rdma=False) == ""


def test_a_pool_offers_each_of_its_functions() -> None:
    pool = rail(mode="sriov", nic="0000:18:00.0", vfs=("0000:18:00.2", "0000:18:00.3"))
    idents = ["rail0@0000:18:00.2", "rail0@0000:18:00.3"]
    assert [unit.ident for unit in units([pool], {})] == idents
    assert all(len(ident) <= 63 for ident in idents)
    assert {
        ident: (offer.rail, offer.gpu, offer.numa_node) for ident, offer in offers([pool]).items()
    } == dict.fromkeys(idents, ("rail0", "0000:1b:00.0", 1))


def test_a_functions_rdma_device_and_its_character_devices(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices/0000:18:00.2/infiniband/mlx5_7").mkdir(parents=True)
    for name, device in (("uverbs7", "mlx5_7"), ("uverbs0", "mlx5_0")):
        folder = tmp_path / "sys/class/infiniband_verbs" / name
        folder.mkdir(parents=True)
        (folder / "ibdev").write_text(f"{device}\n")
    assert rdma_of("rail0@0000:18:00.2", [rail()], str(tmp_path)) == "mlx5_7"
    assert rdma_of("rail0", [rail()], str(tmp_path)) == "mlx5_0"
    assert char_devices(["mlx5_7"], str(tmp_path)) == ["/dev/infiniband/uverbs7"], "no rdma_cm on this machine"
    assert char_devices([""], str(tmp_path)) == []
