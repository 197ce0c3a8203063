"""STATUS and CHECK: what they pass, what they name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.netns.support import MODES, added, call, deleted, need, rows
from tests.world import Host, Ns, World


@pytest.fixture
def pod(world: World) -> Ns:
    return world.ns("pod")


def test_a_ready_node_is_told_in_silence(host: Host) -> None:
    assert call(host, "STATUS", host.conf()) == (0, None, "")


@pytest.mark.parametrize("state", ["down", "without carrier", "gone"])
def test_one_dead_rail_does_not_make_the_node_unready_and_two_do(world: World, host: Host, state: str) -> None:
    for nic in (0, 1):
        if state == "down":
            host.ns.ip("link", "set", f"nic{nic}", "down")
        elif state == "gone":
            host.ns.ip("link", "del", f"nic{nic}")
        else:
            world.fabric.ip("link", "set", f"h{host.number}r{nic}", "down")
        answer = call(host, "STATUS", host.conf())
        assert answer.error == (50 if nic else 0)
    assert "rail0" in answer.body["details"]
    assert "rail1" in answer.body["details"]


def test_nics_in_the_hands_of_live_pods_are_usable(host: Host, pod: Ns) -> None:
    conf = host.conf(mode="host-device")
    added(host, conf, netns=pod)
    assert call(host, "STATUS", conf).code == 0
    pod.delete()
    assert call(host, "STATUS", conf).error == 50, "veth ends die with their namespace"


def test_a_damaged_database_makes_the_node_unready(host: Host, pod: Ns) -> None:
    added(host, host.conf(), netns=pod)
    (host.state / "state.db").write_bytes(b"\xa5" * 8192)
    answer = call(host, "STATUS", host.conf())
    assert answer.error == 50
    assert "state.db" in answer.body["details"]


def test_status_changes_nothing(host: Host, pod: Ns) -> None:
    added(host, host.conf(), netns=pod)
    before = host.ns.snapshot(), pod.snapshot(), rows(host)
    assert call(host, "STATUS", host.conf()).code == 0
    assert (host.ns.snapshot(), pod.snapshot(), rows(host)) == before


def write(key: str, value: str) -> Callable[[Ns], object]:
    return lambda pod: pod.run("sh", "-c", f"echo {value} > /proc/sys/net/{key}")


def ip(*words: str) -> Callable[[Ns], object]:
    return lambda pod: pod.ip(*words)


DRIFT: dict[str, tuple[Callable[[Ns], object], str]] = {
    "a lost interface": (ip("link", "del", "rail1"), "rail1: the interface is gone"),
    "an interface of another kind": (
        lambda pod: (
            pod.ip("link", "del", "rail1"),
            pod.ip("link", "add", "rail1", "type", "bridge"),
        ),
        "rail1: kind: wanted macvlan, got bridge",
    ),
    "mtu": (ip("link", "set", "rail0", "mtu", "1400"), "rail0: mtu: wanted 9000, got 1400"),
    "mac": (
        ip("link", "set", "rail0", "address", "02:bb:bb:bb:bb:bb"),
        "rail0: mac: wanted 02:00:00:00:aa:00, got 02:bb:bb:bb:bb:bb",
    ),
    "a link that is down": (ip("link", "set", "rail0", "down"), "rail0: link: wanted up, got down"),
    "a lost address": (
        ip("addr", "del", "10.200.0.2/24", "dev", "rail0"),
        "rail0: address: wanted 10.200.0.2/24, got none",
    ),
    "a lost IPv6 address": (
        ip("addr", "del", "fd00:200::1/64", "dev", "rail0"),
        "rail0: address: wanted fd00:200::1/64, got none",
    ),
    "a lost route": (
        ip("route", "del", "default", "table", "1001"),
        "rail1: route: wanted default via 10.201.0.1 dev rail1 table 1001 src 10.201.0.2, got none",
    ),
    "a route with another source": (
        lambda pod: (
            pod.ip("addr", "add", "10.201.0.99/24", "dev", "rail1"),
            pod.ip(*("route", "replace", "10.201.0.0/24", "dev", "rail1", "table", "1001"), *("src", "10.201.0.99")),
        ),
        "wanted 10.201.0.2, got 10.201.0.99",
    ),
    "a lost rule": (
        ip("rule", "del", "from", "10.201.0.2", "lookup", "1001"),
        "rule: wanted from 10.201.0.2/32 lookup 1001 priority 1001, got none",
    ),
    "arp_ignore": (write("ipv4/conf/rail0/arp_ignore", "0"), "rail0: arp_ignore: wanted 1, got 0"),
    "arp_announce": (write("ipv4/conf/rail0/arp_announce", "0"), "rail0: arp_announce: wanted 2, got 0"),
    "rp_filter": (write("ipv4/conf/rail0/rp_filter", "1"), "rail0: rp_filter: wanted 2, got 1"),
    "accept_ra": (write("ipv6/conf/rail0/accept_ra", "1"), "rail0: accept_ra: wanted 0, got 1"),
}


def dual(host: Host) -> dict[str, Any]:
    conf = host.conf()
    for number, rail in enumerate(conf["rails"]):
        rail["mac"] = f"02:00:00:00:aa:0{number}"
        rail["ipam"]["ranges"].append({"subnet": f"fd00:20{number}::/64"})
    return conf


@pytest.mark.parametrize("what", DRIFT)
def test_check_names_each_drift(host: Host, pod: Ns, what: str) -> None:
    change, line = DRIFT[what]
    conf = dual(host)
    conf["prevResult"] = added(host, conf, netns=pod)
    assert call(host, "CHECK", conf, netns=pod) == (0, None, "")
    change(pod)
    answer = call(host, "CHECK", conf, netns=pod)
    assert answer.error == 100
    assert line in answer.body["details"]


@pytest.mark.parametrize("mode", MODES)
def test_check_passes_right_after_add(host: Host, pod: Ns, mode: str) -> None:
    """CRI-O checks at once: a link that is just coming up is no drift."""
    need(mode)
    conf = host.conf(mode=mode)
    for _ in range(5):
        result = added(host, conf, netns=pod)
        assert call(host, "CHECK", {**conf, "prevResult": result}, netns=pod) == (0, None, "")
        deleted(host, conf, netns=pod)


@pytest.mark.parametrize("mode", MODES)
def test_check_names_a_lost_carrier(world: World, host: Host, pod: Ns, mode: str) -> None:
    need(mode)
    conf = host.conf(mode=mode)
    conf["prevResult"] = added(host, conf, netns=pod)
    world.fabric.ip("link", "set", f"h{host.number}r1", "down")
    deadline = time.monotonic() + 5  # the kernel tells a macvlan within a second (linkwatch)
    while (answer := call(host, "CHECK", conf, netns=pod)).code == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert answer.error == 100
    assert answer.body["details"].startswith("rail1: link: wanted carrier")


def test_an_add_without_a_carrier_succeeds(world: World, host: Host, pod: Ns) -> None:
    world.fabric.ip("link", "set", f"h{host.number}r1", "down")
    added(host, host.conf(), netns=pod)


def test_check_of_an_unknown_container(host: Host, pod: Ns) -> None:
    conf = host.conf()
    conf["prevResult"] = added(host, conf, netns=pod)
    assert call(host, "CHECK", conf, "c2", pod).error == 3
    assert call(host, "CHECK", conf, netns=pod, ifname="net1").error == 3
    deleted(host, conf, netns=pod)
    assert call(host, "CHECK", conf, netns=pod).error == 3


def test_check_in_another_namespace_says_so(world: World, host: Host, pod: Ns) -> None:
    conf = host.conf()
    conf["prevResult"] = added(host, conf, netns=pod)
    answer = call(host, "CHECK", conf, netns=world.ns("other"))
    assert answer.error == 100
    assert "another namespace" in answer.body["details"]


def test_check_without_a_previous_result_is_refused(host: Host, pod: Ns) -> None:
    added(host, host.conf(), netns=pod)
    answer = call(host, "CHECK", host.conf(), netns=pod)
    assert answer.error == 7
    assert "prevResult" in answer.body["details"]


def test_check_names_a_rail_that_the_result_lacks(host: Host, pod: Ns) -> None:
    result = added(host, host.conf(), netns=pod)
    result["interfaces"] = result["interfaces"][:1]
    answer = call(host, "CHECK", host.conf(prevResult=result), netns=pod)
    assert answer.error == 100
    assert answer.body["details"] == "rail1: prevResult does not name it"


def test_check_right_after_add_waits_for_a_link_that_is_still_training(world: World, host: Host, pod: Ns) -> None:
    port = f"h{host.number}r1"
    world.fabric.ip("link", "set", port, "down")
    added = host.call("ADD", host.conf(), netns=pod)
    assert added.code == 0
    trained = threading.Timer(0.5, lambda: world.fabric.ip("link", "set", port, "up"))
    trained.start()
    try:
        assert host.call("CHECK", host.conf(prevResult=added.body), netns=pod).code == 0
    finally:
        trained.join()
