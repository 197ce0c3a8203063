"""What a rail is in the pod, as pyroute2 and the files of /proc/sys see it: witnesses that share no code with us."""

from __future__ import annotations

from typing import Any

import pytest
from pyroute2 import IPRoute  # type: ignore[import-untyped]

from tests.netns.support import MODES, added, call, deleted, difference, need, rows, within
from tests.world import Host, Ns, World


@pytest.fixture
def pod(world: World) -> Ns:
    return world.ns("pod")


def dual(host: Host) -> dict[str, Any]:
    conf = host.conf()
    for number, rail in enumerate(conf["rails"]):
        rail["ipam"]["ranges"].append({"subnet": f"fd00:20{number}::/64", "gateway": f"fd00:20{number}::1"})
        rail["ipam"]["routes"] = [
            {"dst": f"10.{210 + number}.0.0/16"},
            {"dst": f"fd00:21{number}::/48", "gw": f"FD00:20{number}:0::1"},
        ]
    return conf


class Witness:
    """A pod as pyroute2 reads it."""

    def __init__(self, pod: Ns) -> None:
        with within(pod), IPRoute() as reader:
            self.links = {each.get("ifname"): each for each in reader.get_links()}
            self.names = {each["index"]: name for name, each in self.links.items()}
            self.addresses = list(reader.get_addr())
            self.routes = [*reader.get_routes(family=2), *reader.get_routes(family=10)]
            self.rules = [*reader.get_rules(family=2), *reader.get_rules(family=10)]

    def on(self, rail: str) -> set[tuple[str, int]]:
        """Global addresses."""
        return {
            (each.get("address"), each["prefixlen"])
            for each in self.addresses
            if self.names[each["index"]] == rail and each["scope"] == 0
        }

    def table(self, number: int) -> set[tuple[str, str, str, str]]:
        """(destination, gateway, device, source) of a table's unicast routes."""
        return {
            (
                f"{each.get('dst')}/{each['dst_len']}" if each["dst_len"] else "default",
                each.get("gateway") or "",
                self.names[each.get("oif")],
                each.get("prefsrc") or "",
            )
            for each in self.routes
            if each.get("table") == number and each["type"] == 1 and not str(each.get("dst")).startswith("fe80:")
        }


@pytest.mark.parametrize("mode", MODES)
def test_a_rail_has_its_mtu_addresses_table_and_rule(host: Host, pod: Ns, mode: str) -> None:
    need(mode)
    conf = dual(host)
    for rail in conf["rails"]:
        rail["mode"] = mode
    added(host, conf, netns=pod)
    seen = Witness(pod)
    for number, rail in enumerate(("rail0", "rail1")):
        v4, v6, gw4, gw6 = f"10.20{number}.0.2", f"fd00:20{number}::2", f"10.20{number}.0.1", f"fd00:20{number}::1"
        assert seen.links[rail].get("mtu") == 9000
        assert seen.links[rail]["state"] == "up"
        assert seen.on(rail) == {(v4, 24), (v6, 64)}
        assert seen.table(1000 + number) == {
            (f"10.20{number}.0.0/24", "", rail, v4),
            (f"10.21{number}.0.0/16", gw4, rail, v4),
            ("default", gw4, rail, v4),
            (f"fd00:20{number}::/64", "", rail, v6),
            (f"fd00:21{number}::/48", gw6, rail, v6),
            ("default", gw6, rail, v6),
        }
        rules = {
            (each.get("src"), each["src_len"], each.get("priority"))
            for each in seen.rules
            if each.get("table") == 1000 + number
        }
        assert rules == {(v4, 32, 1000 + number), (v6, 128, 1000 + number)}


def test_main_has_the_rails_subnets_and_the_routes_beyond_and_no_default(host: Host, pod: Ns) -> None:
    added(host, dual(host), netns=pod)
    main = Witness(pod).table(254)
    assert "default" not in {destination for destination, *_ in main}
    assert ("10.211.0.0/16", "10.201.0.1", "rail1", "10.201.0.2") in main
    assert ("fd00:211::/48", "fd00:201::1", "rail1", "fd00:201::2") in main
    assert ("10.200.0.0/24", "", "rail0", "10.200.0.2") in main


@pytest.mark.parametrize("mode", MODES)
def test_a_rail_answers_for_itself_only(host: Host, pod: Ns, mode: str) -> None:
    need(mode)
    added(host, host.conf(mode=mode), netns=pod)
    wanted = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2", "arp_notify": "1"}
    for rail in ("rail0", "rail1"):
        got = {key: pod.run("cat", f"/proc/sys/net/ipv4/conf/{rail}/{key}").strip() for key in wanted}
        assert got == wanted


def test_a_rail_takes_no_addresses_from_routers_and_is_on_even_where_ipv6_is_off(host: Host, pod: Ns) -> None:
    pod.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
    added(host, dual(host), netns=pod)
    for key, value in (("accept_ra", "0"), ("disable_ipv6", "0"), ("ndisc_notify", "1")):
        assert pod.run("cat", f"/proc/sys/net/ipv6/conf/rail0/{key}").strip() == value


def test_an_ipv6_address_is_usable_at_once(host: Host, pod: Ns) -> None:
    added(host, dual(host), netns=pod)
    flags = [each.get("flags") for each in Witness(pod).addresses if each["scope"] == 0 and each["family"] == 10]
    tentative, dad_failed = 0x40, 0x08
    assert flags
    assert all(not flag & (tentative | dad_failed) for flag in flags)


def test_an_ipv6_only_rail(host: Host, pod: Ns) -> None:
    conf = dual(host)
    for rail in conf["rails"]:
        rail["ipam"] = {"ranges": rail["ipam"]["ranges"][1:]}
    before = pod.snapshot()
    result = added(host, conf, netns=pod)
    assert [ip["address"] for ip in result["ips"]] == ["fd00:200::2/64", "fd00:201::2/64"]
    assert Witness(pod).on("rail0") == {("fd00:200::2", 64)}
    assert call(host, "CHECK", {**conf, "prevResult": result}, netns=pod).code == 0
    deleted(host, conf, netns=pod)
    assert difference(before, pod.snapshot()) == ""


@pytest.mark.parametrize(("subnet", "own"), [("10.9.0.4/31", "10.9.0.5/31"), ("fd00:9::4/127", "fd00:9::5/127")])
def test_a_point_to_point_rail(host: Host, pod: Ns, world: World, subnet: str, own: str) -> None:
    conf = host.conf(1)
    gateway = subnet.partition("/")[0]
    conf["rails"][0]["ipam"] = {"ranges": [{"subnet": subnet, "gateway": gateway}]}
    result = added(host, conf, netns=pod)
    assert [(ip["address"], ip["gateway"]) for ip in result["ips"]] == [(own, gateway)]
    assert call(host, "CHECK", {**conf, "prevResult": result}, netns=pod).code == 0
    assert call(host, "ADD", conf, "c2", world.ns("second")).error == 11, "the only other address is the gateway's"


def test_result_ips_none_reports_interfaces_only(host: Host, pod: Ns) -> None:
    conf = host.conf(resultIPs="none", prevResult={"ips": [{"address": "172.30.0.5/24"}]})
    result = added(host, conf, netns=pod)
    assert result["ips"] == [{"address": "172.30.0.5/24"}]
    assert [each["name"] for each in result["interfaces"]] == ["rail0", "rail1"]
    assert Witness(pod).on("rail0") == {("10.200.0.2", 24)}


def test_routing_false_leaves_rules_and_tables_alone(host: Host, pod: Ns) -> None:
    before = pod.ip("rule", "show"), pod.ip("-6", "rule", "show")
    conf = {**dual(host), "routing": False}
    added(host, conf, netns=pod)
    assert (pod.ip("rule", "show"), pod.ip("-6", "rule", "show")) == before
    assert Witness(pod).table(1000) == set()
    assert Witness(pod).on("rail1") == {("10.201.0.2", 24), ("fd00:201::2", 64)}


@pytest.mark.parametrize(
    ("annotation", "rails"),
    [(None, []), ("none", []), ("all", ["rail0", "rail1"]), ("rail1", ["rail1"]), ("rail1, rail0", ["rail0", "rail1"])],
)
def test_with_attach_auto_a_pod_gets_what_it_asks_for(
    host: Host, pod: Ns, annotation: str | None, rails: list[str]
) -> None:
    before = pod.snapshot()
    annotations = {"other.io/key": "x"} | ({"roceway.io/rails": annotation} if annotation else {})
    conf = host.conf(runtimeConfig={"io.kubernetes.cri.pod-annotations": annotations})
    conf["attach"] = "auto"
    result = added(host, conf, netns=pod)
    assert [each["name"] for each in result.get("interfaces", [])] == rails
    if not rails:
        assert pod.snapshot() == before
        assert not host.state.exists()
    if rails == ["rail1"]:
        assert Witness(pod).table(1001), "a rail keeps its table whatever else the pod got"
    assert call(host, "CHECK", {**conf, "prevResult": result}, netns=pod).code == 0
    deleted(host, conf, netns=pod)
    assert pod.snapshot() == before


def test_a_rail_that_does_not_exist_is_told_with_those_that_do(host: Host, pod: Ns) -> None:
    conf = host.conf(runtimeConfig={"io.kubernetes.cri.pod-annotations": {"roceway.io/rails": "rail7"}})
    answer = call(host, "ADD", conf, netns=pod)
    assert answer.error == 7
    assert "rail7" in answer.body["details"]
    assert "rail0, rail1" in answer.body["details"]
    assert rows(host)["attachments"] == []


def test_a_mac_of_the_configuration_is_the_rails(host: Host, pod: Ns) -> None:
    conf = host.conf()
    conf["rails"][0]["mac"] = "02:AA:00:00:00:01"
    assert added(host, conf, netns=pod)["interfaces"][0]["mac"] == "02:aa:00:00:00:01"
    assert Witness(pod).links["rail0"].get("address") == "02:aa:00:00:00:01"


def test_addresses_go_round_before_one_is_used_again(host: Host, pod: Ns) -> None:
    conf = host.conf(1)
    conf["rails"][0]["ipam"] = {"ranges": [{"subnet": "10.9.0.0/29", "gateway": "10.9.0.3"}]}
    handed = []
    for _ in range(7):
        handed += [ip["address"].partition("/")[0] for ip in added(host, conf, netns=pod)["ips"]]
        deleted(host, conf, netns=pod)
    assert handed == [f"10.9.0.{n}" for n in (1, 2, 4, 5, 6, 1, 2)]
