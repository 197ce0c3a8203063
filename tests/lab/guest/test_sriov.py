"""SR-IOV on the kernel's own igb driver and on the simulation: VFs by PCI address, judged by ``ip`` and sysfs."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guest.kit import (
    IGB,
    PCI,
    ROCE,
    attempt,
    link,
    names,
    namespace,
    netdev,
    node_guid,
    rebind,
    sh,
    virtual_functions,
    wait_for_netdev,
    wait_until,
)

PFS = {"igb": IGB[0].address, "simroce": ROCE[0].address}


@pytest.fixture(params=PFS, scope="module")
def switched_on(request: pytest.FixtureRequest) -> Iterator[str]:
    """A PF's address."""
    sh("modprobe", "igbvf")
    address = PFS[request.param]
    yield address
    (PCI / address / "sriov_numvfs").write_text("0")


@pytest.fixture
def pf(switched_on: str) -> str:
    """A PF's address, with two VFs that have netdevs. Switching takes igb two seconds: tests share them."""
    for address in virtual_functions(switched_on, 2):
        wait_for_netdev(address)
    return switched_on


def vf(pf: str, number: int = 0) -> str:
    return (PCI / pf / f"virtfn{number}").resolve().name


def said(pf: str, number: int = 0) -> dict[str, Any]:
    """What the kernel says of a VF on its PF."""
    found: dict[str, Any] = link(netdev(pf))["vfinfo_list"][number]
    return found


def test_vfs_are_pci_functions_with_netdevs_and_say_whose_they_are(pf: str) -> None:
    for number in range(2):
        assert (PCI / vf(pf, number) / "physfn").resolve().name == pf
        assert (PCI / vf(pf, number) / "numa_node").read_text() == (PCI / pf / "numa_node").read_text()
    assert len(link(netdev(pf))["vfinfo_list"]) == 2


def test_what_the_administrator_sets_is_read_back(pf: str) -> None:
    words = ["ip", "link", "set", netdev(pf), "vf", "0"]
    sh(*words, "mac", "02:aa:00:00:00:07", "vlan", "120", "qos", "3", "spoofchk", "on", "trust", "on")
    seen = said(pf)
    assert seen["mac" if "mac" in seen else "address"] == "02:aa:00:00:00:07"
    assert (seen["vlan_list"][0]["vlan"], seen["vlan_list"][0]["qos"]) == (120, 3)
    assert (seen["spoofchk"], seen["trust"]) == (True, True)
    sh(*words, "spoofchk", "off", "trust", "off", "vlan", "0")
    assert (said(pf)["spoofchk"], said(pf)["trust"]) == (False, False)


def test_a_vf_moves_to_a_namespace_is_renamed_and_comes_back_when_it_dies(pf: str) -> None:
    address = vf(pf)
    name = netdev(address)
    with namespace() as pod:
        sh("ip", "link", "set", name, "netns", pod, "name", "rail0")
        assert "rail0" in names(pod)
        assert name not in names()
    wait_until(lambda: "rail0" in names())
    assert netdev(address) == "rail0"
    sh("ip", "link", "set", "rail0", "name", name)


def test_a_vf_without_its_driver_has_no_netdev_until_bound_again(pf: str) -> None:
    address = vf(pf)
    driver = (PCI / address / "driver").resolve()
    (driver / "unbind").write_text(address)
    assert not (PCI / address / "driver").exists()
    assert not list((PCI / address).glob("net/*"))
    (driver / "bind").write_text(address)
    wait_for_netdev(address)


def test_a_vf_can_vanish_while_a_pod_has_it(pf: str) -> None:
    address = vf(pf)
    with namespace() as pod:
        sh("ip", "link", "set", netdev(address), "netns", pod, "name", "rail0")
        (PCI / pf / "sriov_numvfs").write_text("0")
        assert "rail0" not in names(pod)
        assert not (PCI / address).exists()


def test_too_many_vfs_are_refused(pf: str) -> None:
    (PCI / pf / "sriov_numvfs").write_text("0")
    with pytest.raises(OSError):  # noqa: PT011 - ERANGE or ENOSPC, by driver
        (PCI / pf / "sriov_numvfs").write_text("9")


@contextlib.contextmanager
def simulated(*numbers: int) -> Iterator[list[str]]:
    """The first VF of some simulated cards."""
    pfs = [ROCE[number].address for number in numbers]
    try:
        yield [virtual_functions(address, 1)[0] for address in pfs]
    finally:
        for address in pfs:
            (PCI / address / "sriov_numvfs").write_text("0")


def test_simulated_rates_and_link_state() -> None:
    with simulated(0) as (function,):
        words = ["ip", "link", "set", "sim0", "vf", "0"]
        sh(*words, "min_tx_rate", "1000", "max_tx_rate", "50000")
        assert said(ROCE[0].address)["rate"] == {"max_tx": 50000, "min_tx": 1000}
        assert attempt(*words, "max_tx_rate", "500000").returncode != 0
        sh(*words, "state", "disable")
        sh("ip", "link", "set", netdev(function), "up")
        assert "NO-CARRIER" in link(netdev(function))["flags"]
        sh(*words, "state", "auto")
        wait_until(lambda: "LOWER_UP" in link(netdev(function))["flags"])


def test_a_mac_from_the_administrator_brings_the_node_guid_when_bound_again() -> None:
    with simulated(0) as (function,):
        assert node_guid(function) == "0000:0000:0000:0000"
        sh("ip", "link", "set", "sim0", "vf", "0", "mac", "02:aa:00:00:00:09")
        rebind(function)
        assert link(netdev(function))["address"] == "02:aa:00:00:00:09"
        assert node_guid(function) == "00aa:00ff:fe00:0009"


def test_vfs_of_two_cards_talk_unless_their_vlans_differ() -> None:
    with simulated(0, 4) as (left, right), namespace() as pod:
        ends = (netdev(left), netdev(right))
        sh("ip", "link", "set", ends[1], "netns", pod, "name", "rail0")
        sh("ip", "addr", "add", "10.9.0.1/24", "dev", ends[0])
        sh("ip", "-n", pod, "addr", "add", "10.9.0.2/24", "dev", "rail0")
        sh("ip", "link", "set", ends[0], "up")
        sh("ip", "-n", pod, "link", "set", "rail0", "up")
        wait_until(lambda: reaches("10.9.0.2"))
        sh("ip", "link", "set", "sim0", "vf", "0", "vlan", "7")
        sh("ip", "neigh", "flush", "all")
        assert not reaches("10.9.0.2")
        sh("ip", "link", "set", "sim4", "vf", "0", "vlan", "7")
        wait_until(lambda: reaches("10.9.0.2"))


def reaches(address: str) -> bool:
    """A TCP connection that is refused has reached somebody."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, 9)) == 111


def test_spoofed_frames_are_dropped_where_checked() -> None:
    with simulated(0) as (function,):
        words = ["ip", "link", "set", "sim0", "vf", "0"]
        sh(*words, "mac", "02:aa:00:00:00:0b", "spoofchk", "on")
        rebind(function)
        name = netdev(function)
        sh("ip", "link", "set", name, "up")
        frame = bytes.fromhex("ffffffffffff 02bad0000001 88b5").ljust(60, b"\0")
        dropped = Path(f"/sys/class/net/{name}/statistics/tx_dropped")
        before = int(dropped.read_text())
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind((name, 0))
            raw.send(frame)
        assert int(dropped.read_text()) == before + 1
