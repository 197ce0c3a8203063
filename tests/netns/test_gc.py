"""GC frees what the runtime no longer lists, of this network only; a sweep at ADD frees what nobody collects."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from cni import lifecycle
from cni.store import Key, Store
from host.netlink import Route
from tests.netns.support import EMPTY, added, call, collected, deleted, rows, within
from tests.world import Host, World


def names(host: Host) -> set[tuple[str, str]]:
    return {key[:2] for key in rows(host)["attachments"]}


def test_without_a_list_nothing_is_freed(world: World, host: Host) -> None:
    added(host, host.conf(), netns=world.ns("pod"))
    before = rows(host)
    assert call(host, "GC", host.conf()).code == 0
    assert call(host, "GC", {**host.conf(), "cni.dev/valid-attachments": None}).code == 0
    assert rows(host) == before


def test_an_empty_list_frees_all_of_this_network_and_of_no_other(world: World, host: Host) -> None:
    pods = [world.ns(f"pod{number}") for number in range(3)]
    before = [pod.snapshot() for pod in pods]
    others = {**host.conf(), "name": "others"}
    added(host, host.conf(), "c0", pods[0])
    added(host, host.conf(), "c1", pods[1])
    added(host, others, "c2", pods[2])
    assert collected(host, host.conf()).code == 0
    assert names(host) == {("others", "c2")}
    assert [pod.snapshot() for pod in pods[:2]] == before[:2]
    assert "rail0" in pods[2].snapshot()
    assert collected(host, others).code == 0
    assert pods[2].snapshot() == before[2]
    assert rows(host) == EMPTY


def test_what_is_listed_survives_by_container_and_interface(world: World, host: Host) -> None:
    for number in range(3):
        added(host, host.conf(), f"c{number}", world.ns(f"pod{number}"))
    answer = collected(host, host.conf(), ("c0", "eth0"), ("c1", "net1"), ("unknown", "eth0"))
    assert answer.code == 0
    assert names(host) == {("pods", "c0")}


def test_one_failure_does_not_stop_the_rest_and_is_reported(world: World, host: Host) -> None:
    for number in range(2):
        conf = host.conf(mode="host-device")
        conf["rails"] = [conf["rails"][number]]
        added(host, conf, f"c{number}", world.ns(f"pod{number}"))
    host.ns.ip("link", "add", "nic0", "type", "bridge")
    answer = collected(host, host.conf(mode="host-device"))
    assert answer.error == 5
    assert "c0" in answer.body["details"]
    assert "nic0" in answer.body["details"]
    assert names(host) == {("pods", "c0")}
    host.ns.ip("link", "del", "nic0")
    assert collected(host, host.conf(mode="host-device")).code == 0
    assert rows(host) == EMPTY


@pytest.mark.parametrize("listed", [{}, "all", 5, [5], [{"containerID": "c1"}], [{"containerID": 1, "ifname": "eth0"}]])
def test_a_list_that_cannot_be_read_frees_nothing(world: World, host: Host, listed: object) -> None:
    added(host, host.conf(), netns=world.ns("pod"))
    before = rows(host)
    assert call(host, "GC", {**host.conf(), "cni.dev/valid-attachments": listed}).error == 7
    assert rows(host) == before


def test_a_gc_before_any_add_makes_no_state(host: Host) -> None:
    assert collected(host, host.conf()).code == 0
    assert not host.state.exists()


def swept(host: Host, now: float) -> list[str]:
    """Sweep as an ADD would at a given time; the containers that were reclaimed."""
    with within(host.ns):
        store = Store.open(str(host.state))
        assert store is not None
        with store, Route() as connection:
            return [each.key.container_id for each in lifecycle.sweep(store, connection, now=now)]


def test_a_namespace_gone_for_three_looks_is_reclaimed(world: World, host: Host) -> None:
    pod = world.ns("pod")
    added(host, host.conf(), netns=pod)
    start = 4_000_000_000.0
    assert swept(host, start) == []
    pod.delete()
    assert [swept(host, start + 10 * look) for look in (1, 2)] == [[], []]
    assert len(rows(host)["leases"]) == 2
    assert swept(host, start + 30) == ["c1"]
    assert rows(host) == EMPTY


def test_looks_that_follow_too_soon_do_not_count(world: World, host: Host) -> None:
    pod = world.ns("pod")
    added(host, host.conf(), netns=pod)
    pod.delete()
    start = 4_000_000_000.0
    assert [swept(host, start + second) for second in range(10)] == [[]] * 10
    assert len(rows(host)["leases"]) == 2


def test_a_namespace_that_returns_is_kept(world: World, host: Host) -> None:
    pod = world.ns("pod")
    added(host, host.conf(), netns=pod)
    start = 4_000_000_000.0
    with patch.object(lifecycle, "identity", return_value=None):
        assert [swept(host, start + 10 * look) for look in (1, 2)] == [[], []]
    assert swept(host, start + 30) == []
    with patch.object(lifecycle, "identity", return_value=None):
        assert [swept(host, start + 10 * look) for look in (4, 5)] == [[], []]
    assert len(rows(host)["leases"]) == 2


def test_an_add_reclaims_what_nobody_collected(world: World, host: Host) -> None:
    gone = world.ns("gone")
    added(host, host.conf(), "old", gone)
    gone.delete()
    start = 4_000_000_000.0
    for look in (1, 2):
        swept(host, start + 10 * look)
    with patch("cni.lifecycle.time.time", return_value=start + 40):
        added(host, host.conf(), "new", world.ns("new"))
    assert names(host) == {("pods", "new")}


def test_reclaiming_never_touches_an_attachment_that_took_the_place_of_the_dead_one(world: World, host: Host) -> None:
    """Between the look and the lock a DEL may end the dead attachment and an ADD begin another in its row."""
    gone, new = world.ns("gone"), world.ns("new")
    added(host, host.conf(), "old", gone)
    gone.delete()
    start = 4_000_000_000.0
    for look in (1, 2):
        swept(host, start + 10 * look)
    real = lifecycle.lock_names

    def meanwhile(key: Key) -> list[str]:
        if not meanwhile_done:
            meanwhile_done.append(True)
            deleted(host, host.conf(), "old")
            added(host, host.conf(), "new", new)
        return real(key)

    meanwhile_done: list[bool] = []
    with patch.object(lifecycle, "lock_names", meanwhile):
        swept(host, start + 30)
    assert names(host) == {("pods", "new")}
    assert len(rows(host)["leases"]) == 2
