"""Many calls at once: no address twice, no row lost, nobody waits for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain

import pytest

from tests.netns.support import EMPTY, added, call, deleted, difference, rows
from tests.world import Answer, Host, World

MANY = 32


def at_once(calls: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """All as processes of their own, started together."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(timeout=120) for future in [pool.submit(each) for each in calls]]


def test_many_adds_and_many_dels_on_one_pool(world: World, host: Host) -> None:
    pods = [world.ns(f"pod{number}") for number in range(MANY)]
    before = host.ns.snapshot(), [pod.snapshot() for pod in pods]
    conf = host.conf()
    for rail in conf["rails"]:
        del rail["ipam"]["ranges"][0]["rangeEnd"]
    answers = at_once([partial(host.call, "ADD", conf, f"c{n}", pod) for n, pod in enumerate(pods)])
    assert Counter(answer.code for answer in answers) == {0: MANY}, [each for each in answers if each.code]
    handed = Counter(chain.from_iterable((ip["address"] for ip in answer.body["ips"]) for answer in answers))
    assert len(handed) == 2 * MANY
    assert set(handed.values()) == {1}
    assert {prefix for _, prefix in rows(host)["leases"]} == set(handed)
    for number, pod in enumerate(pods):
        assert call(host, "CHECK", {**conf, "prevResult": answers[number].body}, f"c{number}", pod).code == 0
    answers = at_once([partial(host.call, "DEL", conf, f"c{n}", pod) for n, pod in enumerate(pods)])
    assert answers == [Answer(0, None, "")] * MANY
    assert (host.ns.snapshot(), [pod.snapshot() for pod in pods]) == before
    assert rows(host) == EMPTY


@pytest.mark.parametrize("mode", ["macvlan", "host-device"])
def test_add_and_del_of_one_container_at_once_end_in_one_of_the_two_states(world: World, host: Host, mode: str) -> None:
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    conf = host.conf(mode=mode)
    for _ in range(4):
        answers = at_once([partial(host.call, verb, conf, "c1", pod) for verb in ("ADD", "DEL", "ADD", "DEL")])
        assert [answer.code for answer in answers] == [0, 0, 0, 0], answers
        if rows(host) == EMPTY:
            assert (host.ns.snapshot(), pod.snapshot()) == before
        else:
            check = call(host, "CHECK", {**conf, "prevResult": answers[0].body}, netns=pod)
            assert check.code == 0, check
        deleted(host, conf, netns=pod)
        assert not difference(before[0], host.ns.snapshot())
        assert not difference(before[1], pod.snapshot())
        assert rows(host) == EMPTY


def test_of_two_adds_for_one_nic_exactly_one_wins(world: World, host: Host) -> None:
    pods = [world.ns("one"), world.ns("two")]
    before = host.ns.snapshot()
    conf = host.conf(mode="host-device")
    for _ in range(4):
        answers = at_once([partial(host.call, "ADD", conf, f"c{n}", pod) for n, pod in enumerate(pods)])
        assert sorted(answer.error for answer in answers) == [0, 11], answers
        assert len(rows(host)["attachments"]) == 1
        for number, pod in enumerate(pods):
            deleted(host, conf, f"c{number}", pod)
        assert host.ns.snapshot() == before
        assert rows(host) == EMPTY


def test_a_del_of_the_dead_owner_and_the_next_pods_add_do_not_wait_for_each_other(world: World, host: Host) -> None:
    """What happens whenever a job ends and the next one starts: the runtime deletes one and adds the other."""
    conf = host.conf(mode="host-device")
    for number in range(4):
        old, new = world.ns(f"old{number}"), world.ns(f"new{number}")
        added(host, conf, "old", old)
        for rail in (0, 1):  # as the kernel returns a physical NIC of a dying namespace
            old.ip("link", "set", f"rail{rail}", "netns", host.ns.name)
        old.delete()
        answers = at_once(
            [partial(host.call, "DEL", conf, "old"), partial(host.call, "ADD", conf, f"new{number}", new)]
        )
        assert [answer.code for answer in answers] == [0, 0], answers
        deleted(host, conf, f"new{number}", new)
    assert rows(host) == EMPTY
