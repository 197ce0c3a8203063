"""One PCI function with two ports, as ConnectX-3 has it: two network devices, one RDMA device."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cni import inventory
from host import link, nldev, pci, rdma
from host.netlink import Route
from tests.lab.guest.kit import ROCE, attempt, names, sh, wait_until
from tests.lab.guest.pods import added, call, conf, deleted, exclusive_mode, pod, rdma_devices

CARD = ROCE[0].address
PORTS = ("sim0", "sim0d1")


@pytest.fixture(scope="module", autouse=True)
def two_ports() -> Iterator[None]:
    """The first simulated NIC with a second port on a wire of its own."""
    insmod, module, cards = shlex.split(os.environ["ROCEWAY_LAB_SIMULATION"])
    one = f"{CARD}/{ROCE[0].like}/{ROCE[0].wire}"
    assert one in cards
    attempt("rmmod", "rdma_rxe", "rdma_ucm", "rdma_cm")  # other tests may have loaded them
    for wanted in (cards.replace(one, f"{one}+second"), cards):
        sh("rmmod", "simroce")
        sh(insmod, module, wanted)
        if wanted != cards:
            yield


def whole(*ports: str, **more: Any) -> dict[str, Any]:
    return conf(*({"netdev": port, "mode": "host-device", **more} for port in ports))


def test_doors_and_pairing_read_both_ports() -> None:
    with Route() as connection:
        seen = {each.name: each for each in link.devices(connection) if each.pci == CARD}
    assert set(seen) == set(PORTS)
    assert len({each.permanent_mac for each in seen.values()}) == 2
    assert [Path(f"/sys/class/net/{port}/dev_port").read_text() for port in PORTS] == ["0\n", "1\n"]
    device = rdma.read("simib0")
    assert (device.pci, device.netdevs) == (CARD, PORTS)
    assert [(port.number, port.netdev) for port in device.ports] == [(1, "sim0"), (2, "sim0d1")]
    with nldev.Rdma() as connection:
        (found,) = (each for each in nldev.devices(connection) if each.name == "simib0")
        ports = [(port.number, port.netdev, port.netdev_index) for port in nldev.ports(connection, found)]
    assert ports == [(1, "sim0", seen["sim0"].ifindex), (2, "sim0d1", seen["sim0d1"].ifindex)]
    assert pci.read(CARD).driver == "simroce"
    host = inventory.read()
    assert [(nic.netdev, nic.rdma, nic.reason) for nic in host.nics if nic.pci == CARD] == [
        ("sim0", "simib0", ""),
        ("sim0d1", "simib0", ""),
    ]


def test_shared_mode_a_rail_s_gid_is_looked_for_on_its_own_port() -> None:
    wanted = whole(*PORTS)
    with pod() as space:
        result = added(wanted, space)
        assert rdma.find_gid("simib0", "10.201.0.1", 1) is None
        assert rdma.find_gid("simib0", "10.201.0.1", 2) is not None
        assert call("CHECK", {**wanted, "prevResult": result}, space) == (0, None)
        deleted(wanted, space)
    assert set(PORTS) <= names()


def test_exclusive_mode_the_device_goes_once_with_all_of_its_ports() -> None:
    before = rdma_devices(), names()
    with exclusive_mode():
        wanted = whole(*PORTS, rdmaName="mlx4_rails")
        with pod() as space:
            result = added(wanted, space)
            assert set(rdma_devices(space)) == {"mlx4_rails"}
            assert call("CHECK", {**wanted, "prevResult": result}, space) == (0, None)
            deleted(wanted, space)
            assert (rdma_devices(), names()) == before
        with pod() as space:
            added(wanted, space)
        deleted(wanted)  # the namespace is gone
        wait_until(lambda: (rdma_devices(), names()) == before)


def test_exclusive_mode_one_port_alone_is_refused() -> None:
    with exclusive_mode(), pod() as space:
        code, body = call("ADD", whole("sim0"), space)
        assert code == 7
        assert "RDMA device simib0 is also that of sim0d1 and would go into the pod with it" in body["details"]
