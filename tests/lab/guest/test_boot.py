"""The machine that booted is the one that machine.yaml describes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lab.guest.kit import PCI, SEATS, link


def test_kernel_is_the_lab_s() -> None:
    assert os.environ["ROCEWAY_LAB"] == "1"
    assert (Path("/lab/kernel-version").read_text().strip()) == os.uname().release


@pytest.mark.parametrize(
    "name", ["ib_uverbs", "rdma_rxe", "ipvlan", "dummy", "vrf", "8021q", "sch_netem", "sch_mqprio"]
)
def test_kernel_has(name: str) -> None:
    modules = Path(f"/lib/modules/{os.uname().release}/modules.dep").read_text()
    assert f"/{name}.ko" in modules.replace("-", "_")


def test_every_device_is_where_the_file_says() -> None:
    for seat in SEATS:
        path = (PCI / seat.address).resolve()
        assert path.parts[-4:-2] == (seat.root_port, seat.switch), seat
        assert int((path / "numa_node").read_text()) == seat.numa, seat


def test_drivers_and_vendors() -> None:
    for seat in SEATS:
        ids = tuple((PCI / seat.address / name).read_text().strip() for name in ("vendor", "device"))
        assert ids == (("0x1234", "0x11e8") if seat.kind == "gpu" else ("0x8086", "0x10c9")), seat
        driver = PCI / seat.address / "driver"
        name = driver.resolve().name if driver.exists() else ""
        assert name == {"gpu": "", "igb": "igb", "roce": "simroce"}[seat.kind], seat


def test_simulated_nics_are_numbered_as_in_the_file() -> None:
    for number, seat in enumerate(seat for seat in SEATS if seat.kind == "roce"):
        assert link(f"sim{number}")["parentdev"] == seat.address
        assert (PCI / seat.address / "infiniband" / f"simib{number}").is_dir()


def test_nic_and_gpus_share_a_switch() -> None:
    for switch in {seat.switch for seat in SEATS}:
        kinds = sorted(seat.kind for seat in SEATS if seat.switch == switch)
        assert kinds == ["gpu", "gpu", "igb", "roce", "roce"]


def test_nics_are_pcie_with_a_link_and_vfs() -> None:
    for seat in SEATS:
        if seat.kind != "gpu":
            assert "GT/s" in (PCI / seat.address / "current_link_speed").read_text()
            assert (PCI / seat.address / "current_link_width").read_text().strip() != "0"
            assert int((PCI / seat.address / "sriov_totalvfs").read_text()) >= 7
            assert (PCI / seat.address / "class").read_text().strip() == "0x020000"
