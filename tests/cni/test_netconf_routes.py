"""Routes beyond a rail's subnets, what a previous result may look like, and what a meta-plugin chose."""

from __future__ import annotations

from typing import Any

import pytest

from cni.netconf import parse
from conf.errors import ConfigError
from tests.cni.netconfs import findings, good, parsed, rail

RANGES = [
    {"subnet": "10.200.0.0/24", "gateway": "10.200.0.1", "exclude": ["10.200.0.9"]},
    {"subnet": "fd00:200::/64", "exclude": ["fd00:200::1"]},
]


def with_routes(*routes: object) -> dict[str, Any]:
    return rail(ipam={"ranges": RANGES, "routes": list(routes)})


@pytest.mark.parametrize(
    ("route", "wanted"),
    [
        ({"dst": "10.208.0.0/16", "gw": "10.200.0.9"}, ("10.208.0.0/16", "10.200.0.9")),
        ({"dst": "10.208.0.0/16"}, ("10.208.0.0/16", "10.200.0.1")),
        ({"dst": "10.208.0.1"}, ("10.208.0.1/32", "10.200.0.1")),
        ({"dst": "FD00:208:0::/48", "gw": "FD00:200:0::1"}, ("fd00:208::/48", "fd00:200::1")),
        ({"dst": "fd00:208::/48", "gw": "fe80::1"}, ("fd00:208::/48", "fe80::1")),
    ],
)
def test_a_route_is_written_as_the_kernel_writes_it(route: dict[str, str], wanted: tuple[str, str]) -> None:
    assert parsed(with_routes(route)).rails[0].routes == (wanted,)


@pytest.mark.parametrize(
    "route",
    [
        {"dst": "10.208.0.1/16"},
        {"dst": "fd00:208::/48"},  # the range has no gateway of this family
        {"dst": "10.208.0.0/16", "gw": "fd00::1"},
        {"dst": "10.208.0.0/16", "gw": "x"},
        {"dst": "10.208.0.0/16", "gw": "10.201.0.1"},  # in no subnet of the rail
        {"dst": "10.208.0.0/16", "gw": "10.200.0.8"},  # some pod gets this address
        {"dst": "fd00:208::/48", "gw": "fd00:200::2"},
        {"dst": "0.0.0.0/0"},
        {"dst": "::/0", "gw": "fd00:200::1"},
        {"dst": "default"},
        {"dst": 5},
        {"dst": "10.208.0.0/16", "gw": 5},
        {"dst": None},
        {"gw": "10.200.0.1"},
        {},
        5,
        None,
        [],
    ],
)
def test_a_route_that_cannot_be(route: object) -> None:
    (path,) = findings(with_routes(route))
    assert path.startswith("rails[0].ipam.routes[0]")


def test_ranges_that_are_wrong_are_told_without_an_echo_from_the_routes() -> None:
    raw = rail(ipam={"ranges": [{"subnet": "10.200.0.1/24"}], "routes": [{"dst": "10.208.0.0/16"}]})
    assert list(findings(raw)) == ["rails[0].ipam.ranges[0].subnet"]


@pytest.mark.parametrize(
    "raw",
    [
        rail(ipam={"ranges": [{"subnet": "fe80::%eth0/64"}]}),
        rail(ipam={"ranges": [{"subnet": "fd00::/64", "gateway": "fd00::1%eth0"}]}),
        rail(ipam={"ranges": [{"subnet": "fd00::/64", "rangeStart": "fd00::1%eth0"}]}),
        with_routes({"dst": "fd00:208::%eth0/48", "gw": "fd00:200::1"}),
        with_routes({"dst": "fd00:208::/48", "gw": "fe80::1%eth0"}),
    ],
)
def test_an_address_with_a_zone_is_a_finding(raw: dict[str, Any]) -> None:
    """The kernel takes an interface's index, never a zone in the text."""
    (path,) = findings(raw)
    assert path.startswith("rails[0].ipam.r")


@pytest.mark.parametrize(
    "previous",
    [
        {"interfaces": 5},
        {"interfaces": [5]},
        {"interfaces": {"a": 1}},
        {"ips": "x"},
        {"ips": 5},
        {"ips": [None]},
        [],
        "x",
        5,
    ],
)
def test_a_previous_result_of_another_shape_is_a_finding(previous: object) -> None:
    assert list(findings(good(prevResult=previous))) == ["prevResult"]


@pytest.mark.parametrize("previous", [None, {}, {"interfaces": None}, {"ips": [], "interfaces": [{}], "x": 1}])
def test_a_previous_result_that_is_one(previous: object) -> None:
    parsed(good(prevResult=previous))


@pytest.mark.parametrize("runtime", [5, "x", [1], True])
def test_a_runtime_configuration_is_an_object(runtime: object) -> None:
    assert list(findings(good(runtimeConfig=runtime))) == ["runtimeConfig"]


def single(**extra: Any) -> dict[str, Any]:
    raw = good(**extra)
    del raw["rails"][1]
    return raw


def test_a_meta_plugins_device_and_mac_go_before_the_configurations() -> None:
    raw = single(deviceID="0000:AA:00.1", runtimeConfig={"mac": "02:AA:00:00:00:09"})
    only = parsed(raw).rails[0]
    assert (only.nic, only.mac) == ("0000:aa:00.1", "02:aa:00:00:00:09")


@pytest.mark.parametrize(
    ("extra", "path"),
    [
        ({"deviceID": "eth5"}, "deviceID"),
        ({"deviceID": 5}, "deviceID"),
        ({"pciBusID": [1]}, "deviceID"),
        ({"deviceID": ["nvidia.com/gpu=0", "eth5"]}, "deviceID"),
        ({"runtimeConfig": {"deviceID": {"a": 1}}}, "deviceID"),
        ({"runtimeConfig": {"mac": "01:00:00:00:00:00"}}, "runtimeConfig.mac"),
        ({"runtimeConfig": {"mac": 5}}, "runtimeConfig.mac"),
    ],
)
def test_a_choice_of_a_meta_plugin_that_cannot_be_read(extra: dict[str, Any], path: str) -> None:
    assert list(findings(single(**extra))) == [path]


def test_one_device_for_several_rails_is_a_guess_and_refused() -> None:
    assert list(findings(good(deviceID="0000:aa:00.1"))) == ["deviceID"]


def test_two_rails_may_share_a_subnet_without_sharing_addresses_or_gateways() -> None:
    raw = good()
    raw["rails"][0]["ipam"] = {"ranges": [{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.99", "gateway": "10.0.0.200"}]}
    raw["rails"][1]["ipam"] = {"ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.100"}]}
    assert list(findings(raw)) == ["rails[1].ipam.ranges[0]"]
    raw["rails"][1]["ipam"]["ranges"][0]["exclude"] = ["10.0.0.200"]
    parsed(raw)


def test_two_rails_cannot_route_one_destination() -> None:
    rails = [
        {
            "name": f"rail{i}",
            "netdev": f"nic{i}",
            "ipam": {
                "ranges": [{"subnet": f"10.{i}.0.0/24", "gateway": f"10.{i}.0.1"}],
                "routes": [{"dst": "10.99.0.0/16"}],
            },
        }
        for i in range(2)
    ]
    with pytest.raises(ConfigError) as caught:
        parse({"cniVersion": "1.1.0", "name": "pods", "rails": rails}, "1.1.0")
    assert [finding.path for finding in caught.value.findings] == ["rails[1].ipam.routes[0].dst"]
