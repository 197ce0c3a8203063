"""What cannot be: a code that says who must act, a sentence that says what, and nothing changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.netns.support import added, call, deleted, rows
from tests.world import Answer, Host, Ns, World


@pytest.fixture
def pod(world: World) -> Ns:
    return world.ns("pod")


@contextmanager
def unchanged(host: Host, *pods: Ns) -> Iterator[None]:
    """Host, pods and state are the same after the block."""
    before = host.ns.snapshot(), [pod.snapshot() for pod in pods], rows(host)
    yield
    assert (host.ns.snapshot(), [pod.snapshot() for pod in pods], rows(host)) == before


def changed(conf: dict[str, Any], rail: int = 0, **keys: Any) -> dict[str, Any]:
    conf["rails"][rail] |= keys
    return conf


def bad_inputs(host: Host) -> dict[str, tuple[dict[str, Any], int, str]]:
    """Name: configuration, code, and what the answer must name."""
    small = {"ranges": [{"subnet": "10.9.0.0/30", "gateway": "10.9.0.1", "exclude": ["10.9.0.2"]}]}
    return {
        "unknown key": (host.conf(mtuu=9000), 2, "mtuu"),
        "unknown key of a rail": (changed(host.conf(), 1, vf=3), 2, "rails[1].vf"),
        "duplicate rail name": (changed(host.conf(), 1, name="rail0"), 7, "duplicate rail name"),
        "duplicate NIC": (changed(host.conf(), 1, netdev="nic0"), 7, "duplicate NIC"),
        "one NIC by two names": (changed(host.conf(), 1, netdev="alias0"), 7, "already used by rail rail0"),
        "long interface name": (changed(host.conf(), 0, name="a-sixteen-bytes-"), 7, "15 bytes"),
        "missing NIC": (changed(host.conf(), 1, netdev="nope0"), 7, "NIC nope0 does not exist"),
        "missing PCI address": (
            {**host.conf(1), "rails": [{**host.conf(1)["rails"][0], "netdev": None, "pci": "0000:ff:1f.7"}]},
            7,
            "0000:ff:1f.7",
        ),
        "subnet too small": (changed(host.conf(), 0, ipam=small), 7, "too small"),
        "MTU above the NIC's": (changed(host.conf(), 0, mtu=9001), 7, "9001"),
        "a name that the pod has": (changed(host.conf(), 0, name="lo"), 7, "lo"),
        "no rails": (host.conf(0), 7, "at least one rail"),
        "relative state folder": ({**host.conf(), "stateDir": "state"}, 7, "stateDir"),
        "mode of a later release": (changed(host.conf(), 0, mode="sriov"), 7, "sriov"),
    }


def said(answer: Answer) -> str:
    return f"{answer.body['msg']} {answer.body.get('details', '')}"


def test_bad_input_is_refused_by_name_and_changes_nothing(host: Host, pod: Ns) -> None:
    host.ns.ip("link", "property", "add", "dev", "nic0", "altname", "alias0")
    for name, (conf, code, words) in bad_inputs(host).items():
        with unchanged(host, pod):
            answer = call(host, "ADD", conf, netns=pod)
            assert answer.error == code, f"{name}: {answer.body}"
            assert words in said(answer), f"{name}: {answer.body}"


def test_every_mistake_is_told_at_once(host: Host, pod: Ns) -> None:
    conf = changed(changed(host.conf(), 0, netdev="nope0"), 1, mtu=9001)
    host.ns.ip("link", "set", "nic1", "down")
    answer = call(host, "ADD", conf, netns=pod)
    assert answer.error == 7
    for words in ("NIC nope0 does not exist", "it has: nic0, nic1", "NIC nic1 is down", "MTU 9001"):
        assert words in said(answer)


def test_a_rail_over_the_pods_primary_network_is_refused(host: Host, pod: Ns) -> None:
    conf = host.conf(prevResult={"ips": [{"address": "10.201.0.77/16"}]})
    with unchanged(host, pod):
        answer = call(host, "ADD", conf, netns=pod)
    assert answer.error == 7
    assert "rail rail1" in said(answer)


def test_an_interface_of_the_pod_with_a_rails_name_is_refused(host: Host, pod: Ns) -> None:
    pod.ip("link", "add", "rail1", "type", "bridge")
    with unchanged(host, pod):
        answer = call(host, "ADD", host.conf(), netns=pod)
    assert answer.error == 7
    assert "rail rail1: the pod already has an interface of this name" in said(answer)


def test_a_full_pool_is_named_and_is_worth_another_try(world: World, host: Host, pod: Ns) -> None:
    conf = host.conf()
    conf["rails"][1]["ipam"] = {"ranges": [{"subnet": "10.9.0.0/30"}]}
    for number in range(2):
        added(host, conf, f"c{number}", world.ns(f"pod{number}"))
    with unchanged(host, pod):
        answer = call(host, "ADD", conf, "c9", pod)
    assert answer.error == 11
    assert "rail rail1: no free IPv4 address: all 2 of 10.9.0.0/30 are leased" in said(answer)
    deleted(host, conf, "c0")
    added(host, conf, "c9", pod)


def test_a_damaged_database_is_refused_with_advice_and_is_not_replaced(host: Host, pod: Ns) -> None:
    added(host, host.conf(), netns=pod)
    deleted(host, host.conf(), netns=pod)
    file = host.state / "state.db"
    rubbish = b"\xa5" * 8192
    file.write_bytes(rubbish)
    before = host.ns.snapshot(), pod.snapshot()
    answer = call(host, "ADD", host.conf(), netns=pod)
    assert answer.error == 5
    assert "state.db" in said(answer)
    assert "drain the node's pods" in said(answer)
    assert (host.ns.snapshot(), pod.snapshot()) == before
    assert file.read_bytes() == rubbish


def test_a_state_folder_that_cannot_be_made_is_refused(host: Host, pod: Ns) -> None:
    host.state.write_text("a file is in the way")
    answer = call(host, "ADD", host.conf(), netns=pod)
    assert answer.error == 5
    assert str(host.state) in said(answer)
    host.state.unlink()


def test_the_plugins_own_namespace_is_refused_unless_it_is_meant(host: Host) -> None:
    with unchanged(host):
        answer = call(host, "ADD", host.conf(), netns=host.ns)
        assert answer.error == 8
        assert "CNI_NETNS_OVERRIDE" in said(answer)
        env = {"CNI_NETNS_OVERRIDE": "true"}
        result = added(host, host.conf(), netns=host.ns, env=env)
        assert "rail0" in host.ns.snapshot()
        assert call(host, "CHECK", host.conf(prevResult=result), netns=host.ns, env=env).code == 0
        deleted(host, host.conf(), netns=host.ns, env=env)


@pytest.mark.parametrize("what", ["missing", "regular file", "folder", "fifo", "another kind of namespace"])
def test_a_cni_netns_that_is_no_network_namespace_is_refused(host: Host, world: World, what: str) -> None:
    path = world.folder / "netns"
    if what == "regular file":
        path.write_text("")
    elif what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    netns = "/proc/self/ns/uts" if what.startswith("another") else str(path)
    with unchanged(host):
        # As a process with a limit: opening a FIFO can wait for ever.
        answer = host.call("ADD", host.conf(), netns=netns)
        assert answer.error == 8
        assert netns in said(answer)
        assert host.call("DEL", host.conf(), netns=netns).code == 0


def test_a_second_network_that_wants_the_same_routing_table_is_refused(host: Host, pod: Ns) -> None:
    """Else its default route would silently take the place of the first one's."""
    added(host, host.conf(1), netns=pod)
    second = changed({**host.conf(), "name": "others"}, 0, name="other0", netdev="nic1")
    second["rails"] = second["rails"][:1]
    second["rails"][0]["ipam"] = host.conf()["rails"][1]["ipam"]
    with unchanged(host, pod):
        assert call(host, "ADD", second, netns=pod).error == 5
    second["routing"] = {"tableBase": 2000}
    added(host, second, netns=pod)


def test_a_route_that_the_pod_already_has_is_not_taken_over(host: Host, pod: Ns) -> None:
    pod.ip("link", "add", "eth0", "type", "veth", "peer", "name", "far")
    for name in ("eth0", "far"):
        pod.ip("link", "set", name, "up")
    pod.ip("addr", "add", "172.30.0.2/24", "dev", "eth0")
    pod.ip("route", "add", "10.96.0.0/12", "via", "172.30.0.1", "dev", "eth0")
    conf = host.conf()
    conf["rails"][0]["ipam"]["routes"] = [{"dst": "10.96.0.0/12"}]
    with unchanged(host, pod):
        assert call(host, "ADD", conf, netns=pod).error in (5, 7)
