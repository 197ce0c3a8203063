"""What is told, how often, and that nothing grows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import ApiClient

from cni.agent.driftnotices import DriftNotices, Look
from cni.agent.podevents import AGAIN, DRIFTED, RECOVERED, REPAIRED, Job, Ledger, Notice, describe

POD = {"namespace": "ml", "name": "train-0", "uid": "uid-0"}
NOW = 1_800_000_000.0


def notice(message: str = "rail0: gone", *, lasts: bool = False, pod: dict[str, str] | None = None) -> Notice:
    return Notice(POD if pod is None else pod, DRIFTED, warning=True, message=message, lasts=lasts)


def sent(ledger: Ledger, now: float) -> list[Job]:
    """Everything that is due, told to a server that takes it."""
    jobs = []
    while (job := ledger.next(now)[0]) is not None:
        ledger.spend(job, now)
        ledger.done(job, now)
        jobs.append(job)
        assert len(jobs) < 1000
    return jobs


def test_an_event_is_what_the_api_knows_and_kubectl_shows() -> None:
    ledger = Ledger("node-1")
    ledger.note(notice(), NOW)
    (job,) = sent(ledger, NOW)
    assert (job.new, job.namespace) == (True, "ml")
    body = dict(job.body)
    assert body.pop("metadata") == {"name": job.name, "namespace": "ml"}
    assert job.name.startswith("train-0.")
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "ml", "name": "train-0", "uid": "uid-0"},
        "reason": "RailDrifted",
        "message": "rail0: gone",
        "type": "Warning",
        "source": {"component": "roceway-agent", "host": "node-1"},
        "reportingComponent": "roceway-agent",
        "reportingInstance": "node-1",
        "count": 1,
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
    }


def test_the_api_knows_every_field_of_it() -> None:
    """The client's models drop what they do not know: what comes back must be what went in."""
    ledger = Ledger("node-1")
    ledger.note(notice(), NOW)
    (job,) = sent(ledger, NOW)
    client: Any = ApiClient()
    known = client.sanitize_for_serialization(
        client.deserialize(json.dumps(job.body), "CoreV1Event", "application/json")
    )
    stamps = ("firstTimestamp", "lastTimestamp")
    assert {**known, **{name: job.body[name] for name in stamps}} == job.body


def test_what_lasts_is_one_object_counted_up_every_ten_minutes() -> None:
    ledger = Ledger("")
    ledger.note(notice(), NOW)
    jobs = sent(ledger, NOW)
    for second in range(1, 1801):
        ledger.note(notice(lasts=True), NOW + second)
        jobs += sent(ledger, NOW + second)
    assert [(job.new, job.body["count"]) for job in jobs] == [(True, 1), (False, 2), (False, 3), (False, 4)]
    assert len({job.name for job in jobs}) == 1
    assert jobs[1].body == {"count": 2, "lastTimestamp": "2027-01-15T08:10:00Z"}


def test_what_comes_again_is_counted_and_told_when_ten_minutes_are_over() -> None:
    ledger = Ledger("")
    ledger.note(notice(), NOW)
    sent(ledger, NOW)
    for second in (1, 2, 3):
        ledger.note(notice(), NOW + second)
    assert sent(ledger, NOW + 4) == []
    assert ledger.next(NOW + 4)[1] == AGAIN - 4
    (job,) = sent(ledger, NOW + AGAIN)
    assert job.body == {"count": 4, "lastTimestamp": "2027-01-15T08:00:03Z"}


def test_something_else_on_the_same_pod_is_another_object() -> None:
    ledger = Ledger("")
    for message in ("rail0: gone", "rail1: gone"):
        ledger.note(notice(message), NOW)
    assert [job.body["message"] for job in sent(ledger, NOW)] == ["rail0: gone", "rail1: gone"]


def test_what_came_while_it_was_sent_is_not_lost() -> None:
    ledger = Ledger("")
    ledger.note(notice(), NOW)
    job, _ = ledger.next(NOW)
    assert job is not None
    ledger.note(notice(), NOW + 1)
    ledger.done(job, NOW + 2)
    assert [each.body["count"] for each in sent(ledger, NOW + 2 + AGAIN)] == [2]


def test_an_object_that_the_server_has_forgotten_is_made_anew() -> None:
    ledger = Ledger("")
    ledger.note(notice(), NOW)
    (first,) = sent(ledger, NOW)
    ledger.note(notice(), NOW + AGAIN)
    job, _ = ledger.next(NOW + AGAIN)
    assert job is not None
    assert not job.new
    ledger.gone(job)
    (again,) = sent(ledger, NOW + AGAIN)
    assert (again.new, again.body["count"]) == (True, 2)
    assert again.name != first.name


def test_what_is_refused_is_not_tried_again_every_second() -> None:
    ledger = Ledger("")
    ledger.note(notice(), NOW)
    job, _ = ledger.next(NOW)
    assert job is not None
    ledger.refused(job, NOW)
    for second in range(1, 600):
        assert not ledger.note(notice(lasts=True), NOW + second)
    ledger.note(notice(lasts=True), NOW + AGAIN)
    assert [each.new for each in sent(ledger, NOW + AGAIN)] == [True]


def test_a_node_and_a_pod_have_a_cap_for_each_minute() -> None:
    ledger = Ledger("")
    for pod in range(5):
        for number in range(50):
            ledger.note(notice(f"rail0: {number}", pod={**POD, "name": f"train-{pod}"}), NOW)
    first = sent(ledger, NOW)
    assert len(first) == 60
    assert max([job.key[1] for job in first].count(f"train-{pod}") for pod in range(5)) == 20
    assert sent(ledger, NOW + 59) == []
    assert ledger.next(NOW + 59)[1] == pytest.approx(1.0)
    assert len(sent(ledger, NOW + 60)) == 60
    rest = [job for minute in range(2, 10) for job in sent(ledger, NOW + 60 * minute)]
    assert len(rest) == 250 - 120, "late, and none is lost"


def test_the_ledger_does_not_grow() -> None:
    ledger = Ledger("")
    for number in range(3000):
        ledger.note(notice(f"rail0: {number}"), NOW)
    assert len(ledger._entries) == 1024
    assert ledger.dropped == 3000 - 1024


def test_what_was_longest_without_news_is_forgotten_first() -> None:
    ledger = Ledger("")
    for number in range(1024):
        ledger.note(notice(f"rail0: {number}"), NOW)
    ledger.note(notice("rail0: 0", lasts=True), NOW + 1)
    ledger.note(notice("rail0: one more"), NOW + 1)
    messages = [key[-1] for key in ledger._entries]
    assert "rail0: 0" in messages
    assert "rail0: 1" not in messages


def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    ledger = Ledger("")
    for number in range(25):
        ledger.note(notice(f"rail0: {number}"), NOW)
    sent(ledger, NOW)
    ledger.note(notice("rail0: 0"), NOW - 7200)
    assert len(sent(ledger, NOW - 7200)) == 6


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"name": "train-0"},
        {"namespace": "ml", "name": ""},
        {"namespace": "../../nodes", "name": "x"},
        {"namespace": "ml", "name": "x/../y"},
        {"namespace": "ml", "name": "x\r\nHost: evil"},
        {"namespace": "ml", "name": "x", "uid": "a b"},
    ],
)
def test_what_kubernetes_would_not_call_a_pod_is_not_told(pod: dict[str, str]) -> None:
    ledger = Ledger("")
    assert not ledger.note(notice(pod=pod), NOW)
    assert sent(ledger, NOW) == []


def test_the_longest_pod_name_makes_a_name_that_is_allowed() -> None:
    ledger = Ledger("")
    ledger.note(notice(pod={**POD, "name": "a" * 235 + "." + "b" * 17}), NOW)
    (job,) = sent(ledger, NOW)
    assert len(job.name) <= 253
    assert ".." not in job.name


@given(st.lists(st.text()), st.text(max_size=200))
def test_a_message_always_fits_and_keeps_what_was_done(lines: list[str], done: str) -> None:
    text = describe("rail0", [f"rail0: {line}" for line in lines], done)
    assert len(text.encode()) <= 1023
    assert text.startswith("rail0: ")
    assert done in text


# what a look says

RULE = {"rail0": ["rule: wanted from 10.200.0.2/32, got none"]}
ADDRESS = {"rail0": ["rail0: address: wanted 10.200.0.2/24, got none"]}


class Told:
    def __init__(self, *, repair: bool = True) -> None:
        self.notices: list[Notice] = []
        self._deciding = DriftNotices(repair=repair, notice=self.notices.append)

    def look(
        self, wrong: dict[str, list[str]], mended: dict[str, list[str]] | None = None, *, exhausted: bool = False
    ) -> list[tuple[str, str, bool]]:
        self.notices.clear()
        self._deciding.look(Look(1, POD, wrong, mended or {}, exhausted))
        return [(each.reason, each.message, each.lasts) for each in self.notices]


def test_drift_is_told_at_the_second_look_then_as_lasting_and_once_when_it_is_over() -> None:
    told = Told()
    message = "rail0: address: wanted 10.200.0.2/24, got none (left as it is: somebody took it or it broke)"
    assert told.look(ADDRESS) == []
    assert told.look(ADDRESS) == [(DRIFTED, message, False)]
    assert told.look(ADDRESS) == [(DRIFTED, message, True)]
    assert told.look({}) == [(RECOVERED, "rail0: as it was attached again", False)]
    assert told.look({}) == []
    assert told.look(ADDRESS) == []
    assert told.look(ADDRESS) == [(DRIFTED, message, False)]


def test_drift_of_one_look_is_not_told() -> None:
    told = Told()
    assert told.look(ADDRESS) == []
    assert told.look({}) == []


def test_what_was_put_back_is_told_at_once() -> None:
    assert Told().look({}, RULE) == [(REPAIRED, "rail0: rule: wanted from 10.200.0.2/32, got none (put back)", False)]


def test_why_a_rule_is_not_put_back_is_said() -> None:
    for told, exhausted, words in (
        (Told(repair=False), False, "(not put back: --no-repair)"),
        (Told(), True, "(no longer put back: lost too often within the hour)"),
        (Told(), False, "(not put back yet)"),
    ):
        told.look(RULE)
        ((_, message, _),) = told.look(RULE, exhausted=exhausted)
        assert message.endswith(words)


def test_of_pods_that_ended_nothing_is_remembered() -> None:
    told = Told()
    told.look(ADDRESS)
    told._deciding.forget(set())
    assert told.look(ADDRESS) == []
