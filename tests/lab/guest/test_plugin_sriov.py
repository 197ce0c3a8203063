"""roceway-cni's mode sriov on the kernel's igb and on the simulated RDMA NICs, judged by ``ip``, sysfs and ``rdma``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.guest.kit import (
    IGB,
    PCI,
    ROCE,
    link,
    links,
    names,
    namespace,
    netdev,
    node_guid,
    read_json,
    rebind,
    sh,
    virtual_functions,
    wait_for_netdev,
)
from tests.lab.guest.pods import (
    added,
    call,
    call_process,
    conf,
    deleted,
    exclusive_mode,
    explained,
    pod,
    rdma_devices,
    up,
)

PFS = {"igb": IGB[0].address, "simroce": ROCE[0].address}


@pytest.fixture(params=PFS, scope="module")
def pf(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a PF that is up and has two VFs with netdevs."""
    sh("modprobe", "igbvf")
    address = PFS[request.param]
    up(netdev(address))
    for function in virtual_functions(address, 2):
        wait_for_netdev(function)
    yield address
    sh("ip", "link", "set", netdev(address), "down")
    (PCI / address / "sriov_numvfs").write_text("0")


def functions(pf: str) -> list[str]:
    return [(PCI / pf / f"virtfn{number}").resolve().name for number in range(2)]


def told(pf: str) -> list[dict[str, Any]]:
    """What the PF says of its VFs."""
    said: list[dict[str, Any]] = link(netdev(pf))["vfinfo_list"]
    return said


def test_a_vf_by_address_gets_its_settings_and_gives_them_back(pf: str) -> None:
    wanted = conf(
        {
            "pci": functions(pf)[1],
            "mode": "sriov",
            "mac": "02:aa:00:00:00:21",
            "vlan": 120,
            "vlanQoS": 3,
            "trust": "on",
            "spoofchk": "off",
        }
    )
    before = told(pf), names(), link(netdev(functions(pf)[1]))["address"]
    with pod() as space:
        result = added(wanted, space)
        said = told(pf)[1]
        assert said["mac" if "mac" in said else "address"] == "02:aa:00:00:00:21"
        assert (said["vlan_list"][0]["vlan"], said["vlan_list"][0]["qos"]) == (120, 3)
        assert (said["trust"], said["spoofchk"]) == (True, False)
        assert link("rail0", ns=space)["address"] == "02:aa:00:00:00:21"
        assert result["interfaces"][0]["pciID"] == functions(pf)[1]
        assert told(pf)[0] == before[0][0]
        deleted(wanted, space)
    assert (told(pf), names(), link(netdev(functions(pf)[1]))["address"]) == before


def test_a_pool_gives_each_pod_a_vf_of_its_own_until_none_is_left(pf: str) -> None:
    wanted = conf({"pf": pf, "mode": "sriov"})
    with pod() as one, namespace("two") as two, namespace("three") as three:
        first = added(wanted, one, "c1")["interfaces"][0]["pciID"]
        second = added(wanted, two, "c2")["interfaces"][0]["pciID"]
        assert [first, second] == functions(pf)
        code, body = call("ADD", wanted, three, "c3")
        assert code == 11
        assert "2 of 2 are taken" in body["msg"]
        deleted(wanted, one, "c1")
        assert added(wanted, three, "c3")["interfaces"][0]["pciID"] == first
        deleted(wanted, two, "c2")
        deleted(wanted, three, "c3")


def test_a_vf_of_a_live_pod_is_nobody_elses(pf: str) -> None:
    wanted = conf({"pci": functions(pf)[0], "mode": "sriov"})
    with pod() as one, namespace("two") as two:
        added(wanted, one, "c1")
        assert call("ADD", wanted, two, "c2")[0] == 11
        deleted(wanted, one, "c1")


def test_a_pod_that_died_gives_its_vf_and_settings_back_at_the_next_add(pf: str) -> None:
    wanted = conf({"pci": functions(pf)[0], "mode": "sriov", "vlan": 7})
    before = told(pf)
    with pod() as one:
        added(wanted, one, "c1")
        with namespace("two") as two:
            sh("ip", "netns", "del", one)
            added(wanted, two, "c2")
            deleted(wanted, two, "c2")
    assert told(pf) == before


def test_dead_hardware_is_told_in_sentences_and_changes_nothing(pf: str) -> None:
    wanted = conf({"pci": functions(pf)[0], "mode": "sriov", "vlan": 7})
    before = told(pf)
    with pod() as space:
        sh("ip", "link", "set", netdev(pf), "down")
        code, body = call("ADD", wanted, space)
        sh("ip", "link", "set", netdev(pf), "up")
        assert (code, "is down; bring it up" in body["details"]) == (7, True)
        driver = (PCI / functions(pf)[0] / "driver").resolve()
        (driver / "unbind").write_text(functions(pf)[0])
        code, body = call("ADD", wanted, space)
        (driver / "bind").write_text(functions(pf)[0])
        wait_for_netdev(functions(pf)[0])
        assert (code, "no driver is bound to it" in body["details"]) == (7, True)
        code, body = call("ADD", conf({"pci": "0000:ff:1f.7", "mode": "sriov"}), space)
        assert (code, "is no virtual function on this host" in body["details"]) == (7, True)
        code, body = call("ADD", conf({"pci": pf, "mode": "sriov"}), space)
        assert (code, "is no virtual function" in body["details"]) == (7, True)
    assert [(each["vlan_list"], each["trust"]) for each in told(pf)] == [
        (each["vlan_list"], each["trust"]) for each in before
    ]  # a VF that was bound again has a MAC of its own


def test_a_vf_that_vanished_under_a_pod_does_not_keep_the_pod(pf: str) -> None:
    wanted = conf({"pci": functions(pf)[0], "mode": "sriov"})
    with pod() as space:
        added(wanted, space)
        (PCI / pf / "sriov_numvfs").write_text("0")
        deleted(wanted, space)
    for function in virtual_functions(pf, 2):
        wait_for_netdev(function)


def test_a_setting_that_the_driver_refuses_fails_the_add_and_leaves_nothing(pf: str) -> None:
    wanted = conf({"pci": functions(pf)[0], "mode": "sriov", "vlan": 7, "max_tx_rate": 4_000_000})
    before = told(pf), names()
    with pod() as space:
        code, body = call("ADD", wanted, space)
        assert code == 5
        assert netdev(pf) in body["msg"]
        assert names(space) == {"lo"}
    assert (told(pf), names()) == before


def test_the_rdma_device_of_a_vf_goes_with_it() -> None:
    address = ROCE[1].address
    up(netdev(address))
    (function,) = virtual_functions(address, 1)
    wait_for_netdev(function)
    before = rdma_devices()
    wanted = conf({"pf": address, "mode": "sriov", "rdmaName": "mlx5_rail0"})
    with exclusive_mode(), pod() as space:
        added(wanted, space)
        assert rdma_devices(space) == {"mlx5_rail0": "rail0"}
        deleted(wanted, space)
        assert rdma_devices() == before
    sh("ip", "link", "set", netdev(address), "down")
    (PCI / address / "sriov_numvfs").write_text("0")


MAC, GUID, NO_GUID = "02:aa:00:00:00:41", "00aa:00ff:fe00:0041", "0000:0000:0000:0000"


@pytest.fixture
def mlx5_vf() -> Iterator[str]:
    """A VF without a node GUID, as an mlx5 PF makes them."""
    address = ROCE[0].address
    up(netdev(address))
    (function,) = virtual_functions(address, 1)
    wait_for_netdev(function)
    assert node_guid(function) == NO_GUID
    yield function
    sh("ip", "link", "set", netdev(address), "down")
    (PCI / address / "sriov_numvfs").write_text("0")


def as_it_was(function: str) -> tuple[object, ...]:
    all_links = links()
    own, owner = all_links[netdev(function)], all_links[netdev(ROCE[0].address)]
    return rdma_devices(), set(all_links), owner["vfinfo_list"], own["address"], own["mtu"], node_guid(function)


@pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "shared"])
def test_a_vf_with_a_mac_gets_its_node_guid_and_loses_it_with_the_mac(mlx5_vf: str, exclusive: bool) -> None:
    wanted = conf({"pci": mlx5_vf, "mode": "sriov", "mac": MAC, **({"rdmaName": "mlx5_r0"} if exclusive else {})})
    sh("ip", "link", "set", netdev(mlx5_vf), "mtu", "4000")
    sh("rdma", "dev", "set", "simib0v0", "name", "own_name")
    before = as_it_was(mlx5_vf)
    with exclusive_mode() if exclusive else contextlib.nullcontext(), pod() as space:
        result = added(wanted, space)
        name = "mlx5_r0" if exclusive else "own_name"
        assert guid_of(name, space) == GUID
        assert link("rail0", ns=space)["address"] == MAC
        assert call("CHECK", {**wanted, "prevResult": result}, space) == (0, None)
        deleted(wanted, space)
        assert as_it_was(mlx5_vf) == before


def guid_of(device: str, ns: str) -> str:
    found = read_json("ip", "netns", "exec", ns, "rdma", "-j", "dev", "show", device)
    return str(found[0]["node_guid"])


def test_a_vf_that_has_a_node_guid_keeps_its_driver(mlx5_vf: str) -> None:
    sh("ip", "link", "set", netdev(ROCE[0].address), "vf", "0", "mac", "02:aa:00:00:00:42")
    wanted = conf({"pci": mlx5_vf, "mode": "sriov"})
    with pod() as space:
        added(wanted, space)  # the administrator's own MAC: nothing of it is taken back
        assert guid_of("simib0v0", space) == "00aa:00ff:fe00:0042"
        deleted(wanted, space)
        assert node_guid(mlx5_vf) == "00aa:00ff:fe00:0042"
        index = link(netdev(mlx5_vf))["ifindex"]
        added(wanted, space)
        assert link("rail0", ns=space)["ifindex"] == index
        deleted(wanted, space)


def test_a_vf_without_any_mac_of_its_pf_keeps_its_driver(mlx5_vf: str) -> None:
    index = link(netdev(mlx5_vf))["ifindex"]
    wanted = conf({"pci": mlx5_vf, "mode": "sriov"})
    with pod() as space:
        added(wanted, space)
        assert link("rail0", ns=space)["ifindex"] == index
        (note,) = explained()["notes"]
        assert note.startswith("rail0: RDMA device simib0v0 has no node GUID: rdma_cm fails on it")
        deleted(wanted, space)


def test_a_vf_of_a_pool_gets_a_node_guid_of_its_own_mac_where_asked(mlx5_vf: str) -> None:
    wanted = conf({"pf": ROCE[0].address, "mode": "sriov", "nodeGUID": "own-mac"})
    before = as_it_was(mlx5_vf)
    own = link(netdev(mlx5_vf))["address"]
    with pod() as space:
        result = added(wanted, space)
        assert guid_of("simib0v0", space) not in (NO_GUID, "")
        assert result["interfaces"][0]["mac"] == own
        deleted(wanted, space)
        assert as_it_was(mlx5_vf) == before


def test_check_names_a_node_guid_that_went(mlx5_vf: str) -> None:
    wanted = conf({"pci": mlx5_vf, "mode": "sriov", "mac": MAC})
    with pod() as space:
        result = added(wanted, space)
        sh("ip", "link", "set", netdev(ROCE[0].address), "vf", "0", "mac", "00:00:00:00:00:00")
        rebind(mlx5_vf)
        code, body = call("CHECK", {**wanted, "prevResult": result}, space)
        assert code == 100
        assert "rail0: node GUID: wanted one on simib0v0, got none" in body["details"]
        deleted(wanted, space)


def test_a_driver_that_refuses_fails_the_add_with_a_sentence_and_the_vf_comes_back(mlx5_vf: str) -> None:
    wanted = conf({"pci": mlx5_vf, "mode": "sriov", "mac": MAC})
    before = as_it_was(mlx5_vf)
    override = PCI / mlx5_vf / "driver_override"
    with pod() as space:
        override.write_text("vfio-pci\n")  # the bus matches no other driver any more
        code, body = call("ADD", wanted, space)
        assert code == 5
        assert f"bind driver simroce, PCI function {mlx5_vf}: No such device" in body["msg"]
        assert not (PCI / mlx5_vf / "driver").exists()
        override.write_text("\n")
        deleted(wanted, space)
        assert as_it_was(mlx5_vf) == before


def test_an_add_that_failed_before_the_driver_was_touched_leaves_it_alone(mlx5_vf: str) -> None:
    before = as_it_was(mlx5_vf), link(netdev(mlx5_vf))["ifindex"]
    wanted = conf({"pci": mlx5_vf, "mode": "sriov", "mac": MAC, "max_tx_rate": 4_000_000})
    with pod() as space:
        assert call("ADD", wanted, space)[0] == 5
        assert (as_it_was(mlx5_vf), link(netdev(mlx5_vf))["ifindex"]) == before
        del wanted["rails"][0]["max_tx_rate"]
        shell = ["unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro /sys && exec "$@"', "sh"]
        code, body = call_process("ADD", wanted, space, before=shell)
        assert code == 5
        assert f"unbind driver simroce, PCI function {mlx5_vf}: Read-only file system" in body["msg"]
        deleted(wanted, space)
    assert (as_it_was(mlx5_vf), link(netdev(mlx5_vf))["ifindex"]) == before


def test_a_pod_that_died_gives_a_vf_back_without_its_node_guid(mlx5_vf: str) -> None:
    wanted = conf({"pci": mlx5_vf, "mode": "sriov", "mac": MAC, "rdmaName": "mlx5_r0"})
    before = as_it_was(mlx5_vf)
    with exclusive_mode():
        with pod() as space:
            added(wanted, space)
        deleted(wanted)
        assert as_it_was(mlx5_vf) == before
