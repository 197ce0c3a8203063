"""A NIC taken whole: moved under its final name, given back as it was, whatever the pod did to it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.netns.faults import refusing
from tests.netns.support import EMPTY, added, call, deleted, difference, rows
from tests.world import Host, Ns, World

ARP = {"arp_ignore": "3", "arp_announce": "1", "rp_filter": "1", "arp_notify": "0"}


@pytest.fixture
def host(world: World) -> Host:
    """A host whose NICs have a history: other names, another MAC and MTU, addresses, settings."""
    made = world.host()
    for number in (0, 1):
        nic = f"nic{number}"
        made.ns.ip("link", "property", "add", "dev", nic, "altname", f"rail{number}", "altname", f"enp{number}s0np0")
        made.ns.ip("link", "set", nic, "address", f"02:00:00:00:00:0{number}", "mtu", "8000")
        made.ns.ip("addr", "add", f"192.0.2.{number + 1}/28", "dev", nic)
        made.ns.ip("addr", "add", f"192.0.2.{number + 33}/28", "dev", nic)
        made.ns.ip("addr", "add", f"2001:db8:{number}::1/64", "dev", nic, "nodad")
        for key, value in ARP.items():
            made.ns.run("sh", "-c", f"echo {value} > /proc/sys/net/ipv4/conf/{nic}/{key}")
    return made


@pytest.fixture
def pod(world: World) -> Ns:
    return world.ns("pod")


def settings(host: Host, nic: str) -> dict[str, str]:
    return {key: host.ns.run("cat", f"/proc/sys/net/ipv4/conf/{nic}/{key}").strip() for key in ARP}


def whole(host: Host, rails: int = 2, **extra: Any) -> dict[str, Any]:
    return host.conf(rails, mode="host-device", **extra)


def link(space: Ns, name: str) -> dict[str, Any]:
    (found,) = [each for each in space.json("link", "show") if each["ifname"] == name]
    return dict(found)


def restored(host: Host, before: str) -> None:
    assert difference(before, host.ns.snapshot()) == ""
    assert settings(host, "nic0") == settings(host, "nic1") == ARP
    assert rows(host) == EMPTY


def test_a_nic_moves_under_its_final_name_and_comes_back_as_it_was(host: Host, pod: Ns) -> None:
    before, pod_before = host.ns.snapshot(), pod.snapshot()
    result = added(host, whole(host), netns=pod)
    assert [(each["name"], each["mac"], each["mtu"]) for each in result["interfaces"]] == [
        ("rail0", "02:00:00:00:00:00", 9000),
        ("rail1", "02:00:00:00:00:01", 9000),
    ]
    assert {each["ifname"] for each in host.ns.json("link", "show")} == {"lo"}
    assert link(pod, "rail0")["altnames"] == ["enp0s0np0"], "an altname equal to the name cannot stay"
    assert "192.0.2" not in pod.snapshot()
    deleted(host, whole(host), netns=pod)
    restored(host, before)
    assert pod.snapshot() == pod_before


def test_a_nic_that_was_down_is_down_again(host: Host, pod: Ns) -> None:
    host.ns.ip("link", "set", "nic0", "down")
    before = host.ns.snapshot()
    added(host, whole(host, 1), netns=pod)
    deleted(host, whole(host, 1), netns=pod)
    assert difference(before, host.ns.snapshot()) == ""
    assert "UP" not in link(host.ns, "nic0")["flags"]


def test_without_an_mtu_of_the_rail_the_nic_keeps_its_own(host: Host, pod: Ns) -> None:
    conf = whole(host, 1)
    del conf["rails"][0]["mtu"]
    assert added(host, conf, netns=pod)["interfaces"][0]["mtu"] == 8000
    deleted(host, conf, netns=pod)


@pytest.mark.parametrize(
    "words",
    [
        ["name", "eth9"],
        ["address", "02:aa:aa:aa:aa:aa"],
        ["mtu", "1400"],
        ["down"],
    ],
    ids=" ".join,
)
def test_what_the_pod_changed_is_changed_back(host: Host, pod: Ns, words: list[str]) -> None:
    before = host.ns.snapshot()
    added(host, whole(host), netns=pod)
    pod.ip("link", "set", "rail0", "down")
    pod.ip("link", "set", "rail0", *words)
    deleted(host, whole(host), netns=pod)
    restored(host, before)


def test_alternative_names_that_the_pod_gave_or_took_are_put_right(host: Host, pod: Ns) -> None:
    before = host.ns.snapshot()
    added(host, whole(host), netns=pod)
    pod.ip("link", "property", "add", "dev", "rail0", "altname", "pods-own")
    pod.ip("link", "property", "del", "dev", "rail1", "altname", "enp1s0np0")
    deleted(host, whole(host), netns=pod)
    restored(host, before)


def test_a_name_that_somebody_took_is_an_error_until_it_is_free_again(host: Host, pod: Ns) -> None:
    before = host.ns.snapshot()
    added(host, whole(host), netns=pod)
    host.ns.ip("link", "add", "nic0", "type", "bridge")
    answer = call(host, "DEL", whole(host), netns=pod)
    assert answer.error == 5
    assert "nic0" in answer.body["msg"]
    assert len(rows(host)["attachments"]) == 1, "the journal must stay"
    assert len(rows(host)["leases"]) == 2, "addresses are released last"
    assert link(host.ns, "nic1")["mtu"] == 8000, "the other NIC comes home all the same"
    host.ns.ip("link", "del", "nic0")
    deleted(host, whole(host), netns=pod)
    restored(host, before)


def test_an_alternative_name_that_somebody_took_is_an_error_until_it_is_free_again(host: Host, pod: Ns) -> None:
    before = host.ns.snapshot()
    added(host, whole(host), netns=pod)
    host.ns.ip("link", "add", "enp0s0np0", "type", "bridge")
    assert call(host, "DEL", whole(host), netns=pod).error == 5
    assert len(rows(host)["attachments"]) == 1
    host.ns.ip("link", "del", "enp0s0np0")
    deleted(host, whole(host), netns=pod)
    restored(host, before)


def test_a_nic_that_the_kernel_returned_under_the_pods_name_is_found_and_put_right(host: Host, pod: Ns) -> None:
    before = host.ns.snapshot()
    added(host, whole(host), netns=pod)
    for number in (0, 1):  # the kernel does this with a physical NIC of a dying namespace
        pod.ip("link", "set", f"rail{number}", "netns", host.ns.name)
    pod.delete()
    deleted(host, whole(host))
    restored(host, before)


def test_a_nic_that_came_back_under_another_name_altogether_is_found_and_put_right(host: Host, pod: Ns) -> None:
    before = host.ns.snapshot()
    added(host, whole(host), netns=pod)
    pod.ip("link", "set", "rail0", "netns", host.ns.name, "name", "dev7")
    pod.ip("link", "set", "rail1", "netns", host.ns.name, "name", "nic0")
    pod.delete()
    deleted(host, whole(host))
    restored(host, before)


def test_nics_that_came_back_under_each_others_names_are_put_right(host: Host, pod: Ns) -> None:
    before = host.ns.snapshot()
    added(host, whole(host), netns=pod)
    for number in (0, 1):  # a pod may name its links as it likes before it dies
        pod.ip("link", "set", f"rail{number}", "down")
        pod.ip("link", "set", f"rail{number}", "name", f"nic{1 - number}")
        pod.ip("link", "set", f"nic{1 - number}", "netns", host.ns.name)
    pod.delete()
    deleted(host, whole(host))
    restored(host, before)


@pytest.mark.parametrize("name", ["nic0", "nic1", "uplink"])
@pytest.mark.parametrize("alive", [True, False], ids=["alive", "gone"])
def test_a_name_of_the_hosts_that_the_pod_gave_its_link_does_not_keep_it(
    host: Host, pod: Ns, name: str, alive: bool
) -> None:
    host.ns.ip("link", "add", "uplink", "type", "bridge")
    before = host.ns.snapshot()
    added(host, whole(host), netns=pod)
    pod.ip("link", "property", "add", "dev", "rail0", "altname", name)
    if not alive:
        for number in (0, 1):
            if number == 0 and name == "uplink":  # the kernel drops such a name when the namespace dies
                pod.ip("link", "property", "del", "dev", "rail0", "altname", name)
            pod.ip("link", "set", f"rail{number}", "netns", host.ns.name)
        pod.delete()
    deleted(host, whole(host), netns=pod if alive else "")
    restored(host, before)


def test_a_nic_with_the_hosts_default_route_is_refused(host: Host, pod: Ns) -> None:
    host.ns.ip("route", "add", "default", "via", "192.0.2.3", "dev", "nic0")
    before = host.ns.snapshot(), pod.snapshot()
    answer = call(host, "ADD", whole(host), netns=pod)
    assert answer.error == 7
    assert "default route" in answer.body["details"]
    assert (host.ns.snapshot(), pod.snapshot()) == before
    assert rows(host) == EMPTY


def test_a_nic_with_one_leg_of_a_multipath_default_route_is_refused(host: Host, pod: Ns) -> None:
    legs = [word for n in (0, 1) for word in ("nexthop", "via", f"192.0.2.{n + 5}", "dev", f"nic{n}", "onlink")]
    host.ns.ip("route", "add", "default", *legs)
    before = host.ns.snapshot(), pod.snapshot()
    answer = call(host, "ADD", whole(host, 1), netns=pod)
    assert answer.error == 7
    assert "default route" in answer.body["details"]
    assert (host.ns.snapshot(), pod.snapshot()) == before


def test_a_nic_that_is_a_port_of_a_bridge_or_bond_is_refused(host: Host, pod: Ns) -> None:
    host.ns.ip("link", "add", "uplink", "type", "bridge")
    host.ns.ip("link", "set", "nic0", "master", "uplink")
    answer = call(host, "ADD", whole(host, 1), netns=pod)
    assert answer.error == 7
    assert "uplink" in answer.body["details"]
    assert "master uplink" in host.ns.ip("link", "show", "nic0")


def test_a_nic_with_another_device_on_top_is_refused(host: Host, pod: Ns) -> None:
    host.ns.ip("link", "add", "storage", "link", "nic0", "type", "macvlan")
    before = host.ns.snapshot()
    answer = call(host, "ADD", whole(host, 1), netns=pod)
    assert answer.error == 7
    assert "storage" in answer.body["details"]
    assert host.ns.snapshot() == before


def test_a_nic_of_a_live_pod_is_not_to_be_had_and_nothing_changes(host: Host, pod: Ns, world: World) -> None:
    added(host, whole(host), netns=pod)
    second = world.ns("second")
    before = host.ns.snapshot(), pod.snapshot(), second.snapshot(), rows(host)
    for mode in ("host-device", "macvlan"):
        answer = call(host, "ADD", host.conf(mode=mode), "c2", second)
        assert answer.error == 11
        assert "c1" in answer.body["msg"]
        assert (host.ns.snapshot(), pod.snapshot(), second.snapshot(), rows(host)) == before


def test_a_nic_that_live_pods_share_cannot_be_taken_whole(host: Host, pod: Ns, world: World) -> None:
    host.ns.ip("link", "set", "nic0", "mtu", "9000")
    added(host, host.conf(1), netns=pod)
    answer = call(host, "ADD", whole(host, 1), "c2", world.ns("second"))
    assert answer.error == 11
    assert "c1" in answer.body["msg"]


def test_a_nic_whose_owners_namespace_is_gone_goes_to_the_next_add(host: Host, pod: Ns, world: World) -> None:
    added(host, whole(host), netns=pod)
    for number in (0, 1):
        pod.ip("link", "set", f"rail{number}", "netns", host.ns.name)
    pod.delete()
    second = world.ns("second")
    result = added(host, whole(host), "c2", second)
    assert [each["mac"] for each in result["interfaces"]] == ["02:00:00:00:00:00", "02:00:00:00:00:01"]
    assert {key[1] for key in rows(host)["attachments"]} == {"c2"}
    assert link(second, "rail0")["altnames"] == ["enp0s0np0"]
    deleted(host, whole(host), "c2", second)
    deleted(host, whole(host))
    assert rows(host) == EMPTY


def test_the_pods_own_interface_is_never_taken_for_the_nic(world: World, pod: Ns) -> None:
    """A NIC and the pod's eth0 may share kind, name and index: here the NIC was never moved."""
    other = world.host()
    index = other.ns.json("link", "show", "nic0")[0]["ifindex"]
    other.ns.ip("link", "set", "nic0", "down")
    other.ns.ip("link", "set", "nic0", "name", "eth0")
    other.ns.ip("link", "set", "eth0", "up")
    pod.ip("link", "add", "eth0", "index", str(index), "type", "veth", "peer", "name", "far")
    before = other.ns.snapshot(), pod.snapshot()
    conf = whole(other, 1)
    conf["rails"][0]["netdev"] = "eth0"
    with refusing(1):
        assert call(other, "ADD", conf, netns=pod).error == 5
    assert (other.ns.snapshot(), pod.snapshot()) == before


def test_a_nic_is_found_by_an_alternative_name(host: Host, pod: Ns) -> None:
    before = host.ns.snapshot()
    conf = whole(host, 1)
    conf["rails"][0]["netdev"] = "enp0s0np0"
    added(host, conf, netns=pod)
    deleted(host, conf, netns=pod)
    restored(host, before)


def test_an_add_of_the_same_container_in_another_namespace_moves_the_nic_there(
    host: Host, pod: Ns, world: World
) -> None:
    before = host.ns.snapshot()
    added(host, whole(host), netns=pod)
    second = world.ns("second")
    added(host, whole(host), netns=second)
    assert link(second, "rail0")["address"] == "02:00:00:00:00:00"
    assert "rail0" not in pod.snapshot()
    deleted(host, whole(host), netns=second)
    restored(host, before)
