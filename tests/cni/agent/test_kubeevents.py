"""Events over real TLS to a double of the API server: told, refused, late, and never in anybody's way."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cni.agent import kubeapi, kubeevents
from cni.agent.kubeapi import ApiServer
from cni.agent.kubeevents import Events
from cni.agent.parts import OFF
from cni.agent.podevents import DRIFTED, Notice
from host.errors import HostError
from tests.cni.agent.apiserver import KubeApi, status
from tests.cni.agent.kubelet import running, wait_for
from tests.tuner.switch.servers import needs

pytestmark = needs("openssl")
POD = {"namespace": "ml", "name": "train-0", "uid": "uid-0"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubeApi]:
    made = KubeApi(tmp_path / "api").start()
    yield made
    made.stop()


@pytest.fixture
def events(api: KubeApi) -> Iterator[Events]:
    with running(Events(api.client, "node-1")) as part:
        yield part


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures are tried again after 50 ms and not after seconds."""
    monkeypatch.setattr(kubeevents, "_BACK_OFF", 0.05)


def drifted(message: str = "rail0: gone", **pod: str) -> Notice:
    return Notice({**POD, **pod}, DRIFTED, warning=True, message=message)


@contextmanager
def no_secret(caplog: pytest.LogCaptureFixture, *tokens: str) -> Iterator[None]:
    with caplog.at_level("DEBUG"):
        yield
    text = " ".join([caplog.text, *(repr(record.__dict__) for record in caplog.records)])
    for token in tokens:
        assert token not in text


def test_a_notice_arrives_as_an_event_with_the_tokens_blessing(api: KubeApi, events: Events) -> None:
    events.tell(drifted())
    wait_for(lambda: api.told)
    assert api.told == [("RailDrifted", "rail0: gone", 1)]
    (event,) = api.events.values()
    assert event["involvedObject"]["uid"] == "uid-0"
    assert event["source"] == {"component": "roceway-agent", "host": "node-1"}
    assert api.requests == [("POST", "/api/v1/namespaces/ml/events", 201)]
    assert events.problem() == ""


def test_a_burst_of_one_and_the_same_is_one_request(api: KubeApi, events: Events) -> None:
    for _ in range(500):
        events.tell(drifted())
    events.tell(drifted("rail1: gone"))
    wait_for(lambda: len(api.told) == 2)
    assert len(api.requests) == 2


def test_after_ten_minutes_the_same_object_is_patched(
    api: KubeApi, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    events.tell(drifted())
    wait_for(lambda: api.told)
    later = time.time() + 600
    monkeypatch.setattr("time.time", lambda: later)
    events.tell(drifted())
    wait_for(lambda: api.told == [("RailDrifted", "rail0: gone", 2)])
    assert [each[0] for each in api.requests] == ["POST", "PATCH"]


def test_an_event_that_the_server_has_forgotten_is_made_anew(
    api: KubeApi, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    events.tell(drifted())
    wait_for(lambda: api.told)
    api.events.clear()
    later = time.time() + 600
    monkeypatch.setattr("time.time", lambda: later)
    events.tell(drifted())
    wait_for(lambda: api.told == [("RailDrifted", "rail0: gone", 2)])
    assert [each[2] for each in api.requests] == [201, 404, 201]


def test_a_rotated_token_is_used_at_the_next_request(api: KubeApi, events: Events) -> None:
    events.tell(drifted())
    wait_for(lambda: api.told)
    api.rotate("token-2-of-the-agent")
    events.tell(drifted("rail1: gone"))
    wait_for(lambda: len(api.told) == 2)
    assert [each[2] for each in api.requests] == [201, 201]


@pytest.mark.usefixtures("patient")
def test_an_expired_token_is_a_problem_until_the_kubelet_renews_it(
    api: KubeApi, events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    api.token = "token-9-unknown-to-the-agent"
    with no_secret(caplog, "token-1", "token-9"):
        events.tell(drifted())
        wait_for(lambda: "says 401: Unauthorized" in events.problem())
        api.rotate("token-9-unknown-to-the-agent")
        wait_for(lambda: api.told)
        wait_for(lambda: events.problem() == "")
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["events on pods cannot be told: the API server says 401: Unauthorized", "events are told again"]


@pytest.mark.usefixtures("patient")
def test_no_permission_is_said_once_and_told_when_it_is_granted(
    api: KubeApi, events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    words = f'User "system:serviceaccount:x:y" cannot create resource "events" {api.token}'
    api.answers = [(403, {}, status(words))] * 3
    with no_secret(caplog, api.token):
        events.tell(drifted())
        wait_for(lambda: "cannot create resource" in events.problem())
        wait_for(lambda: api.told)
    assert [each[2] for each in api.requests] == [403, 403, 403, 201]
    assert len([record for record in caplog.records if "403" in record.getMessage()]) == 1


def test_a_namespace_that_ends_is_no_problem(api: KubeApi, events: Events) -> None:
    api.answers = [(403, {}, status("forbidden: it is being terminated", "NamespaceTerminating"))]
    api.answers += [(404, {}, status('namespaces "ml" not found'))]
    events.tell(drifted("rail0: gone"))
    events.tell(drifted("rail1: gone"))
    events.tell(drifted("rail2: gone"))
    wait_for(lambda: api.told == [("RailDrifted", "rail2: gone", 1)])
    assert [each[2] for each in api.requests] == [403, 404, 201]
    assert events.problem() == ""


def test_what_the_server_finds_malformed_is_not_repeated(api: KubeApi, events: Events) -> None:
    api.answers = [(422, {}, status("Event is invalid"))]
    events.tell(drifted("rail0: gone"))
    events.tell(drifted("rail1: gone"))
    wait_for(lambda: api.told == [("RailDrifted", "rail1: gone", 1)])
    assert len(api.requests) == 2


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("refusal", "words"), [(429, "too many"), (503, "no leader")])
def test_an_overloaded_server_gets_the_pause_that_it_asks_for(
    api: KubeApi, events: Events, refusal: int, words: str
) -> None:
    api.answers = [(refusal, {"Retry-After": "1"}, status(words))]
    began = time.monotonic()
    events.tell(drifted())
    wait_for(lambda: words in events.problem())
    wait_for(lambda: api.told)
    assert time.monotonic() - began >= 1.0
    assert len(api.requests) == 2


def test_a_server_cannot_ask_for_a_pause_of_a_year(api: KubeApi) -> None:
    api.answers = [(429, {"Retry-After": "31536000"}, status("a year")), (429, {"Retry-After": "86399"}, status("day"))]
    assert api.client.send("POST", "/api/v1/namespaces/ml/events", {}).retry_after is None
    part = Events(None, "")
    assert part._later("x", 86399.0) == 600.0


@pytest.mark.usefixtures("patient")
def test_what_became_of_events_is_counted(api: KubeApi) -> None:
    api.answers = [(503, {}, status("not now")), (422, {}, status("malformed"))]
    counts: Counter[str] = Counter()
    part = Events(api.client, "node-1", counted=lambda outcome, number: counts.update({outcome: number}))
    with running(part):
        for rail in ("rail0", "rail1"):
            part.tell(drifted(f"{rail}: gone"))
        wait_for(lambda: api.told)
    assert counts == {"failed": 1, "refused": 1, "told": 1}
    part = Events(api.client, "", counted=lambda outcome, number: counts.update({outcome: number}))
    for number in range(1030):
        part.tell(drifted(f"rail{number}: gone"))
    part._well()
    assert counts["dropped"] == 6


def test_failures_are_tried_less_and_less_often() -> None:
    part = Events(None, "")
    pauses = [part._later("x") for _ in range(10)]
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0]


@pytest.mark.usefixtures("patient")
def test_a_server_that_is_gone_gets_everything_when_it_is_back(api: KubeApi, events: Events) -> None:
    api.stop()
    for number in range(5):
        events.tell(drifted(f"rail{number}: gone"))
    wait_for(lambda: "the API server at 127.0.0.1" in events.problem())
    api.start()
    wait_for(lambda: len(api.told) == 5)
    assert events.problem() == ""


@pytest.mark.usefixtures("patient")
def test_an_event_whose_answer_was_lost_is_not_made_twice(
    api: KubeApi, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeapi, "_TIMEOUT", 0.3)
    api.delay = 1.0
    events.tell(drifted())
    wait_for(lambda: "timed out" in events.problem(), 10)
    api.delay = 0.0
    wait_for(lambda: (409 in [each[2] for each in api.requests]) and events.problem() == "", 10)
    assert api.told == [("RailDrifted", "rail0: gone", 1)]


def test_a_server_that_drips_is_cut_off(api: KubeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeapi, "_DEADLINE", 0.5)
    api.delay = 0.1
    began = time.monotonic()
    named = {"namespace": "ml", "name": "e"}
    with pytest.raises(HostError, match="the API server at"):
        api.client.send("POST", "/api/v1/namespaces/ml/events", {"metadata": named, "involvedObject": named})
    assert time.monotonic() - began < 3.0
    assert [each[2] for each in api.requests] == [201], "it was answering"


def test_who_tells_never_waits_and_the_agent_stops_at_once(api: KubeApi) -> None:
    """Also while the server is at it."""
    api.delay = 0.2
    part = Events(api.client, "")
    part.start()
    began = time.monotonic()
    for number in range(1000):
        part.tell(drifted(f"rail{number}: gone"))
    assert time.monotonic() - began < 1.0
    began = time.monotonic()
    part.stop()
    assert time.monotonic() - began < 2.5


def test_an_idle_part_stops_at_once(api: KubeApi, events: Events) -> None:
    events.tell(drifted())
    wait_for(lambda: api.told)
    began = time.monotonic()
    events.stop()
    assert time.monotonic() - began < 1.0


def test_a_server_of_another_ca_never_sees_the_token(tmp_path: Path, api: KubeApi) -> None:
    other = KubeApi(tmp_path / "other").start()
    try:
        client = ApiServer("127.0.0.1", other.port, str(api.account))
        with pytest.raises(HostError, match="CERTIFICATE_VERIFY_FAILED"):
            client.send("POST", "/api/v1/namespaces/ml/events", {})
        assert other.requests == []
    finally:
        other.stop()


def test_a_certificate_for_another_name_is_refused(api: KubeApi) -> None:
    client = ApiServer("localhost", api.port, str(api.account))
    with pytest.raises(HostError, match="CERTIFICATE_VERIFY_FAILED"):
        client.send("POST", "/api/v1/namespaces/ml/events", {})


def test_a_redirect_is_not_followed(api: KubeApi) -> None:
    api.answers = [(302, {"Location": f"https://127.0.0.1:{api.port}/elsewhere"}, {})]
    assert api.client.send("POST", "/api/v1/namespaces/ml/events", {}).status == 302
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [b"", b"\0" * 100, b"HTTP/1.1 999999 x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"H" * 200_000],
)
def test_an_answer_that_is_no_http_is_an_error(api: KubeApi, answer: bytes) -> None:
    """Whoever it is that has the certificate."""
    api.stop()
    listening = socket.create_server(("127.0.0.1", api.port))

    def serve() -> None:
        raw, _ = listening.accept()
        raw.settimeout(5)
        with api._context.wrap_socket(raw, server_side=True) as connection:
            asked = b""
            while not asked.endswith(b"{}"):  # all of it: closing with something unread would take the answer back
                asked += connection.recv(65536) or b"{}"
            connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        client = ApiServer("127.0.0.1", api.port, str(api.account))
        if b"200 OK" in answer:
            assert client.send("POST", "/x", {}).status == 200
        else:
            with pytest.raises(HostError, match="the API server at"):
                client.send("POST", "/x", {})
    finally:
        thread.join(5)
        listening.close()


@pytest.mark.parametrize("body", [b"[]", b"null", b"{", b'{"details": 1}', b'{"details": {"causes": [1]}}', b"\xff"])
def test_a_body_that_is_no_status_is_no_error(body: bytes) -> None:
    response = SimpleNamespace(status=500, reason="Internal Server Error", headers={})
    answer = kubeapi._answer(response, body, "token-1")  # type: ignore[arg-type] # the attributes that are read
    assert answer == (500, "Internal Server Error", (), None)


@pytest.mark.parametrize("token", ["", "two\nlines", "tok\ren", "späß", "a b"])
def test_a_token_that_is_none_is_an_error_that_does_not_show_it(api: KubeApi, token: str) -> None:
    (api.account / "token").write_text(token, encoding="utf-8")
    with pytest.raises(HostError) as caught:
        api.client.send("POST", "/api/v1/namespaces/ml/events", {})
    assert not token or token not in str(caught.value)
    assert api.requests == []


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_file_that_vanished_or_is_no_certificate_is_an_error(api: KubeApi, name: str) -> None:
    (api.account / name).unlink()
    with pytest.raises(HostError, match=name):
        api.client.send("POST", "/api/v1/namespaces/ml/events", {})
    (api.account / "ca.crt").write_text("no certificate")
    (api.account / "token").write_text("t")
    with pytest.raises(HostError, match=r"ca\.crt"):
        api.client.send("POST", "/api/v1/namespaces/ml/events", {})


def test_a_pod_finds_the_server_as_every_pod_does(api: KubeApi, tmp_path: Path) -> None:
    found = ApiServer.of_cluster(api.env, str(api.account))
    assert found is not None
    assert ApiServer.of_cluster({}, str(api.account)) is None, "outside Kubernetes"
    assert ApiServer.of_cluster(api.env, str(tmp_path)) is None, "no service account is mounted"
    assert ApiServer.of_cluster({**api.env, "KUBERNETES_SERVICE_PORT_HTTPS": "x"}, str(api.account)) is None


def test_outside_kubernetes_it_is_absent_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    part: Any = Events(None, "", "not in Kubernetes")
    threads = threading.active_count()
    with caplog.at_level("INFO"), running(part):
        part.tell(drifted())
        assert threading.active_count() == threads
        assert part.problem() == f"{OFF}not in Kubernetes"
    assert [record.getMessage() for record in caplog.records] == ["no events on pods: not in Kubernetes"]
