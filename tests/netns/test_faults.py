"""The kernel refuses one step of an attachment: all or nothing, and the first cause is what is told."""

from __future__ import annotations

import pytest

from tests.netns.faults import refusing
from tests.netns.support import EMPTY, MODES, call, deleted, difference, need, rows
from tests.world import Host, World


@pytest.mark.parametrize("mode", MODES)
def test_a_refused_step_leaves_nothing_behind_whichever_it_is(world: World, host: Host, mode: str) -> None:
    need(mode)
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    conf = host.conf(mode=mode)
    at = 1
    while True:
        with refusing(at) as tally:
            answer = call(host, "ADD", conf, netns=pod)
        if answer.code == 0:
            break
        assert answer.error == 5, answer
        assert answer.body["msg"].startswith(f"injected {tally.seen[at - 1]}: Operation not permitted"), answer
        assert not difference(before[0], host.ns.snapshot()), f"step {at}: {tally.seen[at - 1]}"
        assert not difference(before[1], pod.snapshot()), f"step {at}: {tally.seen[at - 1]}"
        assert rows(host) == EMPTY
        at += 1
    assert at > 10
    deleted(host, conf, netns=pod)


@pytest.mark.parametrize("mode", MODES)
def test_a_refused_undo_keeps_the_first_cause_and_the_journal_for_a_later_del(
    world: World, host: Host, mode: str
) -> None:
    need(mode)
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    conf = host.conf(mode=mode)
    at = 1
    while True:
        with refusing(at, undo_too=True) as tally:
            answer = call(host, "ADD", conf, netns=pod)
        if answer.code == 0:
            break
        assert answer.error == 5, answer
        assert answer.body["msg"].startswith(f"injected {tally.seen[at - 1]}:"), answer
        assert len(rows(host)["attachments"]) == 1, f"step {at}: the journal is gone although nothing was undone"
        deleted(host, conf, netns=pod)
        assert not difference(before[0], host.ns.snapshot()), f"step {at}: {tally.seen[at - 1]}"
        assert not difference(before[1], pod.snapshot()), f"step {at}: {tally.seen[at - 1]}"
        assert rows(host) == EMPTY
        at += 1
    deleted(host, conf, netns=pod)


def test_an_error_that_keeps_the_journal_does_not_say_that_nothing_was_kept(world: World, host: Host) -> None:
    pod = world.ns("pod")
    with refusing(3, undo_too=True):
        answer = call(host, "ADD", host.conf(), netns=pod)
    assert answer.error == 5
    assert "nothing of this attachment was kept" not in answer.body.get("details", "")
    deleted(host, host.conf(), netns=pod)


def test_a_del_that_fails_goes_past_the_failure_and_the_next_one_finishes(world: World, host: Host) -> None:
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    assert call(host, "ADD", host.conf(), netns=pod).code == 0
    with refusing(1) as tally:
        answer = call(host, "DEL", host.conf(), netns=pod)
    assert answer.error == 5
    assert tally.seen[0] in answer.body["msg"]
    assert "rail" not in "\n".join(line for line in pod.snapshot().splitlines() if line.startswith("link"))
    assert len(rows(host)["leases"]) == 2, "an address is free only when all of the attachment is undone"
    deleted(host, host.conf(), netns=pod)
    assert (host.ns.snapshot(), pod.snapshot()) == before
    assert rows(host) == EMPTY
