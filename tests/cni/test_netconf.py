"""The plugin's configuration: what it may say, and every mistake found with its place."""

from __future__ import annotations

from typing import Any

import pytest

from cni.errors import Code, as_cni
from cni.vfconf import VfSettings
from tests.cni.netconfs import findings, good, parsed, rail, refusal

RANGES = {"ranges": [{"subnet": "10.200.0.0/24", "gateway": "10.200.0.1"}, {"subnet": "fd00:200::/64"}]}


def test_what_is_left_out_has_a_default() -> None:
    conf = parsed(good())
    assert (conf.attach, conf.table_base, conf.result_ips) == ("auto", 1000, True)
    assert (conf.state_dir, conf.agent) == ("/var/lib/roceway", "/run/roceway/agent.sock")
    first, second = conf.rails
    assert (first.name, first.nic, first.mode, first.mtu, first.mac) == ("rail0", "eth2", "macvlan", None, "")
    assert second.nic == "0000:2a:00.0", "as the kernel writes it"


def test_every_finding_is_told_at_once_with_its_path() -> None:
    raw = good(attach="sometimes", resultIPs="some", stateDir="relative", agent=True, surprise=1, prevResult=[1])
    raw["routing"] = {"tableBase": 254, "extra": 1}
    raw["rails"][0] = {"name": "a-sixteen-bytes-", "netdev": "eth2", "pci": "0000:18:00.0", "mode": "bridge", "x": 1}
    raw["rails"][1] |= {"mtu": 10, "mac": "01:00:00:00:00:01", "ipam": {"ranges": [{"subnet": "10.0.0.1/24"}]}}
    raw["rails"].append(7)
    assert set(findings(raw)) == {
        "attach",
        "resultIPs",
        "stateDir",
        "agent",
        "surprise",
        "prevResult",
        "routing.tableBase",
        "routing.extra",
        "rails[0].x",
        "rails[0].name",
        "rails[0]",
        "rails[0].mode",
        "rails[0].ipam",
        "rails[1].mtu",
        "rails[1].mac",
        "rails[1].ipam.ranges[0].subnet",
        "rails[2]",
    }


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (good(oops=1), "oops"),
        (rail(1, oops=1), "rails[1].oops"),
        (rail(0, ipam={**RANGES, "type": "host-local"}), "rails[0].ipam.type"),
        (rail(0, ipam={"ranges": [{"subnet": "10.0.0.0/24", "oops": 1}]}), "rails[0].ipam.ranges[0].oops"),
        (rail(0, ipam={**RANGES, "routes": [{"dst": "10.9.0.0/16", "via": "x"}]}), "rails[0].ipam.routes[0].via"),
        (good(routing={"tableBase": 7, "oops": 1}), "routing.oops"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_key_that_roceway_does_not_know_is_code_2_unless_something_else_is_wrong(
    raw: dict[str, Any], path: str
) -> None:
    error = refusal(raw)
    assert [finding.path for finding in error.findings] == [path]
    assert as_cni(error).code == Code.UNSUPPORTED_FIELD
    raw["attach"] = "sometimes"
    assert as_cni(refusal(raw)).code == Code.CONFIG


@pytest.mark.parametrize(
    "key",
    ["capabilities", "args", "dns", "ipam", "disableCheck", "disableGC", "cni.dev/valid-attachments", "cni.dev/x"],
)
def test_keys_of_the_specification_and_of_its_users_are_let_through(key: str) -> None:
    parsed(good(**{key: {}}))


@pytest.mark.parametrize("name", ["a" * 16, "é" * 8, "a/b", "a b", "", ".", "r%d", "lo", "all", "à", "\ud800", "a\x00"])
def test_a_rails_name_must_be_one_that_the_kernel_takes_as_it_is(name: str) -> None:
    assert list(findings(rail(name=name))) == ["rails[0].name"]


@pytest.mark.parametrize("value", [None, 5, True, [], {}, 1.5])
@pytest.mark.parametrize("key", ["name", "netdev", "mode", "mac"])
def test_a_value_of_another_type_is_a_finding(key: str, value: object) -> None:
    raw = rail(**{key: value})
    assert all(path.startswith("rails[0]") for path in findings(raw))


def test_settings_of_a_virtual_function_are_read() -> None:
    raw = rail(mode="sriov", vlan=100, vlanQoS=3, trust="on", spoofchk="off", link_state="auto", max_tx_rate=1000)
    parsed_rail = parsed(raw).rails[0]
    assert parsed_rail.vf == VfSettings(100, 3, "", True, False, "auto", None, 1000)
    assert parsed(rail(mode="sriov", nodeGUID="own-mac")).rails[0].vf == VfSettings(guid_of="own-mac")


def test_every_mistake_in_the_settings_of_a_virtual_function_is_told() -> None:
    wrong = {"vlan": 4095, "vlanQoS": True, "vlanProto": "x", "trust": True, "spoofchk": "yes", "link_state": "up"}
    wrong |= {"nodeGUID": "on"}
    told = findings(rail(mode="sriov", **wrong, min_tx_rate=10, max_tx_rate=5))
    assert set(told) >= {f"rails[0].{key}" for key in (*wrong, "min_tx_rate")}


def test_a_pool_is_named_by_its_physical_function_alone() -> None:
    raw = rail(mode="sriov", pf="0000:18:00.0")
    assert "exactly one of netdev, pci (the VF) and pf" in findings(raw)["rails[0]"]
    del raw["rails"][0]["netdev"]
    parsed_rail = parsed(raw).rails[0]
    assert (parsed_rail.nic, parsed_rail.pf) == ("", "0000:18:00.0")


def test_keys_of_a_virtual_function_belong_to_sriov() -> None:
    assert "belongs to mode sriov" in findings(rail(vlan=100))["rails[0].vlan"]


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"netdev": ...}, "rails[0]"),
        ({"pci": "0000:18:00.0"}, "rails[0]"),
        ({"netdev": ..., "pci": "18:00.0"}, "rails[0].pci"),
        ({"netdev": ..., "pci": "0000:18:00.8"}, "rails[0].pci"),
        ({"netdev": ..., "pci": "0000:18:00.0\n"}, "rails[0].pci"),
        ({"netdev": "a/b"}, "rails[0].netdev"),
    ],
)
def test_a_nic_is_named_in_exactly_one_way(keys: dict[str, Any], path: str) -> None:
    assert list(findings(rail(**keys))) == [path]


@pytest.mark.parametrize("mtu", [575, 65536, -1, 0, "9000", 9000.0, True, [9000]])
def test_an_mtu_is_a_number_of_bytes(mtu: object) -> None:
    assert list(findings(rail(mtu=mtu))) == ["rails[0].mtu"]


@pytest.mark.parametrize("mtu", [576, 1500, 9216, 65535, None])
def test_an_mtu_that_is_one(mtu: int | None) -> None:
    assert parsed(rail(mtu=mtu)).rails[0].mtu == mtu


@pytest.mark.parametrize("mac", ["01:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", "02-00-00-00-00-01", "02:00:00:00:00", "x"])
def test_a_mac_is_a_unicast_address(mac: str) -> None:
    assert list(findings(rail(mac=mac))) == ["rails[0].mac"]


def test_an_ipvlan_has_no_mac_of_its_own() -> None:
    raw = rail(mode="ipvlan", mac="02:00:00:00:00:01")
    assert findings(raw) == {"rails[0].mac": "an ipvlan has its NIC's MAC address"}


def test_duplicates_are_named_with_the_first_use() -> None:
    raw = good()
    raw["rails"][1] = {**raw["rails"][0], "ipam": {"ranges": [{"subnet": "10.201.0.0/24"}]}}
    assert findings(raw) == {
        "rails[1].name": "duplicate rail name 'rail0', first at rails[0]",
        "rails[1].netdev": "duplicate NIC 'eth2', first at rails[0]",
    }


@pytest.mark.parametrize(("base", "rails"), [(253, 1), (254, 1), (255, 1), (252, 2), (246, 8)])
def test_tables_of_the_kernel_are_not_ours(base: int, rails: int) -> None:
    assert "253 to 255" in findings(many(rails, base))["routing.tableBase"]


@pytest.mark.parametrize(("base", "rails"), [(252, 1), (256, 1), (1, 2), (245, 8), (2**32 - 3, 2)])
def test_tables_beside_them_are(base: int, rails: int) -> None:
    assert parsed(many(rails, base)).table_base == base


def many(count: int, base: int) -> dict[str, Any]:
    raw = good(routing={"tableBase": base})
    raw["rails"] = [
        {"name": f"rail{n}", "netdev": f"eth{n}", "ipam": {"ranges": [{"subnet": f"10.{n}.0.0/24"}]}}
        for n in range(count)
    ]
    return raw


@pytest.mark.parametrize("base", [0, -1, 2**32, "1000", 1000.5, True, None, [1000]])
def test_a_table_base_is_a_number_of_a_table(base: object) -> None:
    assert list(findings(good(routing={"tableBase": base}))) == ["routing.tableBase"]


def test_routing_may_be_off() -> None:
    assert parsed(good(routing=False)).table_base is None
    assert list(findings(good(routing=True))) == ["routing"]
    assert list(findings(good(routing=None))) == ["routing"]


def test_the_agent_may_be_off() -> None:
    assert parsed(good(agent=False)).agent == ""


@pytest.mark.parametrize("path", ["state", "", 5, None, "/a\x00b", "/\ud800", "/a\nb"])
def test_the_state_folder_is_an_absolute_path(path: object) -> None:
    assert list(findings(good(stateDir=path))) == ["stateDir"]


@pytest.mark.parametrize("rails", [None, [], {}, "rail0", 5])
def test_at_least_one_rail_is_needed(rails: object) -> None:
    assert findings(good(rails=rails)) == {"rails": "at least one rail is needed"}
