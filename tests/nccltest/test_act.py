"""Acting on a blame: not before it lasts, not on more nodes than allowed, and back when it is over."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.errors import HostError
from nccltest.__main__ import PROBE
from nccltest.act import Policy, State, act, from_json, label, marked, to_json
from nccltest.history import History
from nccltest.kube import Cluster
from nccltest.webhook import post
from tests.nccltest.apiserver import ApiServer, serving
from tuner.cli import run

NODES = "n[1-9]"
TWICE = Policy(after=2, clear_after=2, most=2)
NEW = State()


def summary(*blamed: str, confidence: float = 0.99, nodes: str = NODES) -> dict[str, Any]:
    """A run that blames ``nic:n1/rail0`` and the like."""
    suspects = [
        dict(zip(("kind", "id"), text.split(":"), strict=True))
        | {"confidence": confidence, "ratio": 0.8, "evidence": "4 of 4", "fault": i}
        for i, text in enumerate(blamed)
    ]
    return {"time": 1.7e9, "nodes": nodes, "locate": {"suspects": suspects}}


def after(*runs: dict[str, Any], policy: Policy = TWICE, state: State = NEW) -> tuple[State, list[str]]:
    said = []
    for number, each in enumerate(runs, state.run + 1):
        state, acts = act(state, number, each, policy)
        said += [f"{one.what} {one.blame.id}" for one in acts]
    return state, said


def test_one_run_is_not_enough() -> None:
    state, said = after(summary("nic:n1/rail0"))
    assert said == []
    assert marked(state) == {}


def test_two_runs_in_a_row_are() -> None:
    state, said = after(summary("nic:n1/rail0"), summary("nic:n1/rail0"))
    assert said == ["blame n1/rail0"]
    assert state.tainted == ("n1",)


def test_a_run_without_it_between_begins_the_count_anew() -> None:
    _, said = after(summary("nic:n1/rail0"), summary(), summary("nic:n1/rail0"))
    assert said == []


def test_what_is_not_sure_never_counts() -> None:
    state, said = after(*[summary("nic:n1/rail0", confidence=0.94)] * 9)
    assert (state.blames, said) == ((), [])


def test_it_is_taken_back_after_two_good_runs() -> None:
    bad, good = summary("node:n2"), summary()
    state, said = after(bad, bad, good)
    assert said == ["blame n2"]
    assert state.tainted == ("n2",)
    state, said = after(good, state=state)
    assert said == ["clear n2"]
    assert (state.blames, state.tainted) == ((), ())


def test_a_flapping_blame_stays_until_it_is_quiet() -> None:
    bad, good = summary("node:n2"), summary()
    state, said = after(bad, bad, good, bad, good, bad, good)
    assert said == ["blame n2"]
    assert state.tainted == ("n2",)


def test_a_run_that_did_not_test_the_node_clears_nothing() -> None:
    bad, elsewhere = summary("node:n2"), summary(nodes="n[5-9]")
    state, said = after(bad, bad, *[elsewhere] * 5)
    assert said == ["blame n2"]
    assert state.tainted == ("n2",)


def test_the_cap_holds_and_the_next_in_line_follows() -> None:
    three = summary("node:n1", "node:n2", "nic:n3/rail0")
    state, said = after(three, three)
    assert sorted(said) == ["blame n1", "blame n2", "blame n3/rail0", "capped n3/rail0"]
    assert state.tainted == ("n1", "n2")
    two = summary("node:n2", "nic:n3/rail0")
    state, said = after(two, two, state=state)
    assert said == ["clear n1"]
    assert state.tainted == ("n2", "n3")


def test_two_nics_of_a_node_are_one_taint() -> None:
    both = summary("nic:n1/rail0", "nic:n1/rail3")
    state, _ = after(both, both)
    assert state.tainted == ("n1",)
    assert label(marked(state)["n1"]) == "nic-rail0_nic-rail3"


def test_a_leaf_is_told_and_marks_no_node() -> None:
    bad = summary("leaf:leaf-r0")
    state, said = after(bad, bad)
    assert said == ["blame leaf-r0"]
    assert (marked(state), state.tainted) == ({}, ())


def test_a_run_is_looked_at_once() -> None:
    state, _ = act(State(), 5, summary("node:n1"), TWICE)
    again, acts = act(state, 5, summary("node:n1"), TWICE)
    assert (again, acts) == (state, ())


_RUNS = st.lists(st.lists(st.sampled_from(["node:n1", "node:n2", "nic:n3/rail0", "node:n4"]), unique=True), max_size=25)


@given(_RUNS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_laws_of_acting(runs: Sequence[Sequence[str]], begin: int, end: int, most: int) -> None:
    policy = Policy(begin, end, most)
    state = State()
    acted: set[str] = set()
    for number, blamed in enumerate(runs, 1):
        state, acts = act(state, number, summary(*blamed), policy)
        assert len(state.tainted) <= most
        assert set(state.tainted) <= set(marked(state))
        for one in acts:
            if one.what == "blame":
                assert one.blame.id not in acted
                acted.add(one.blame.id)
            elif one.what == "clear":
                acted.remove(one.blame.id)
        assert {each.id for each in state.blames if each.acted} == acted
        assert from_json(json.loads(json.dumps(to_json(state)))) == state


# Kubernetes


@pytest.fixture
def server() -> ApiServer:
    return ApiServer("n1", "n2", "n3")


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> Iterator[Path]:
    with serving(server, tmp_path) as path:
        yield path


def test_a_condition_is_set_and_cleared_beside_others(server: ApiServer, kubeconfig: Path) -> None:
    cluster = Cluster.connect(kubeconfig)
    assert cluster.set_condition("n1", True, "SlowNIC", "rail0 at 80 %")
    first = dict(server.condition("n1"))
    assert (first["status"], first["reason"]) == ("True", "SlowNIC")
    assert cluster.set_condition("n1", True, "SlowNIC", "still")
    assert server.condition("n1")["lastTransitionTime"] == first["lastTransitionTime"]
    assert cluster.set_condition("n1", False, "Recovered", "well")
    assert server.condition("n1")["status"] == "False"
    assert server.condition("n1", "Ready")["status"] == "True"


def test_a_taint_leaves_others_and_survives_conflicts(server: ApiServer, kubeconfig: Path) -> None:
    cluster = Cluster.connect(kubeconfig)
    server.conflicts = 2
    assert cluster.set_taint("n1", True)
    assert set(server.taints("n1")) == {
        "nvidia.com/gpu:NoSchedule",
        "other-0:NoExecute",
        "other-1:NoExecute",
        "roceway/degraded:NoSchedule",
    }
    assert cluster.set_taint("n1", True)
    assert server.taints("n1").count("roceway/degraded:NoSchedule") == 1
    assert cluster.set_taint("n1", False)
    assert "roceway/degraded:NoSchedule" not in server.taints("n1")
    assert "nvidia.com/gpu:NoSchedule" in server.taints("n1")


def test_endless_conflicts_end(server: ApiServer, kubeconfig: Path) -> None:
    server.conflicts = 99
    with pytest.raises(HostError, match="taint node n1: the API server says 409"):
        Cluster.connect(kubeconfig).set_taint("n1", True)


def test_a_label_comes_and_goes(server: ApiServer, kubeconfig: Path) -> None:
    cluster = Cluster.connect(kubeconfig)
    cluster.set_label("n2", "nic-rail0")
    assert server.nodes["n2"]["metadata"]["labels"] == {"zone": "a", "roceway/degraded": "nic-rail0"}
    cluster.set_label("n2", None)
    assert server.nodes["n2"]["metadata"]["labels"] == {"zone": "a"}


def test_a_node_that_is_gone_is_no_error(kubeconfig: Path) -> None:
    cluster = Cluster.connect(kubeconfig)
    assert not cluster.set_taint("n9", True)
    assert not cluster.set_label("n9", "x")
    assert not cluster.set_condition("n9", True, "SlowNode", "")


def test_a_refusal_names_node_and_status(server: ApiServer, kubeconfig: Path) -> None:
    server.refuse = 403
    with pytest.raises(HostError, match="label node n1: the API server says 403"):
        Cluster.connect(kubeconfig).set_label("n1", "x")


def test_no_api_server_is_told(tmp_path: Path) -> None:
    with serving(ApiServer("n1"), tmp_path) as path:
        pass
    with pytest.raises(HostError, match="cannot be reached"):
        Cluster.connect(path).set_label("n1", "x")
    with pytest.raises(HostError, match="use the Kubernetes API"):
        Cluster.connect(tmp_path / "none")


# webhook


@contextmanager
def hook(*answers: int) -> Iterator[tuple[str, list[Any]]]:
    """A receiver that answers so in turn, 200 afterwards; its address and what it got."""
    got: list[Any] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(left.pop(0) if left else 200)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/services/T0/secret", got
    finally:
        http.shutdown()
        http.server_close()
        thread.join(timeout=10)


def test_a_webhook_that_stumbles_is_tried_again() -> None:
    with hook(503) as (url, got):
        post(url, {"event": "blame"})
    assert got == [{"event": "blame"}] * 2


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (302, 1)])
def test_a_webhook_that_refuses_is_not(status: int, tries: int) -> None:
    with hook(*[status] * 9) as (url, got), pytest.raises(HostError) as refused:
        post(url, {})
    assert len(got) == tries
    assert f"it says {status}" in str(refused.value)
    assert "secret" not in str(refused.value)


# the command


def recorded(path: Path, *runs: dict[str, Any]) -> str:
    with History.open(path) as history:
        for each in runs:
            name = f"run-{len(history.runs(1000))}"
            history.record(name, 1.7e9, [], (), each)
    return str(path)


def test_nothing_is_done_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = recorded(tmp_path / "h.db", *[summary("nic:n1/rail0")] * 2)
    assert run(PROBE, ["act", "--history", database]) == 1
    assert "blamed: nic n1/rail0" in capsys.readouterr().out


def test_marks_and_words_come_and_go(
    server: ApiServer,
    kubeconfig: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = recorded(tmp_path / "h.db", *[summary("nic:n1/rail0", "node:n2", "node:n3")] * 2)
    every = ["--mark", "condition,event,label,taint", "--kubeconfig", str(kubeconfig), "--webhook"]
    with hook() as (url, got):
        monkeypatch.setenv("ROCEWAY_WEBHOOK", url)
        assert run(PROBE, ["act", "--history", database, *every, "--json"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document["tainted"] == ["n1", "n2"]
        assert "roceway/degraded:NoSchedule" in server.taints("n1")
        assert "roceway/degraded:NoSchedule" not in server.taints("n3")
        assert server.condition("n3")["status"] == "True"
        assert server.nodes["n1"]["metadata"]["labels"]["roceway/degraded"] == "nic-rail0"
        assert [each["reason"] for each in server.events].count("FabricDegradedNotTainted") == 1
        assert {each["event"] for each in got} == {"blame", "capped"}
        assert got[0].keys() >= {"kind", "id", "node", "ratio", "text"}

        recorded(tmp_path / "h.db", *[summary()] * 2)
        assert run(PROBE, ["act", "--history", database, *every]) == 0
        assert server.taints("n1") == ["nvidia.com/gpu:NoSchedule"]
        assert server.condition("n1")["status"] == "False"
        assert server.nodes["n1"]["metadata"]["labels"] == {"zone": "a"}
        assert got[-1]["event"] == "clear"


def test_what_could_not_be_done_is_done_next_time(server: ApiServer, kubeconfig: Path, tmp_path: Path) -> None:
    database = recorded(tmp_path / "h.db", *[summary("node:n2")] * 2)
    command = ["act", "--history", database, "--mark", "taint", "--kubeconfig", str(kubeconfig)]
    server.refuse = 500
    assert run(PROBE, command) == 3
    server.refuse = 0
    assert run(PROBE, command) == 1
    assert "roceway/degraded:NoSchedule" in server.taints("n2")


def test_a_dry_run_changes_and_remembers_nothing(server: ApiServer, kubeconfig: Path, tmp_path: Path) -> None:
    database = recorded(tmp_path / "h.db", *[summary("node:n2")] * 2)
    command = ["act", "--history", database, "--mark", "taint", "--kubeconfig", str(kubeconfig), "--dry-run"]
    assert run(PROBE, command) == run(PROBE, command) == 1
    assert server.requests == []


@pytest.mark.parametrize(
    "wrong", [["--mark", "cordon"], ["--most", "0"], ["--after", "x"]], ids=["mark", "most", "after"]
)
def test_bad_options_are_refused(wrong: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as refused:
        run(PROBE, ["act", "--history", str(tmp_path / "h.db"), *wrong])
    assert refused.value.code == 2


def test_a_webhook_without_an_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ROCEWAY_WEBHOOK", raising=False)
    database = recorded(tmp_path / "h.db", summary())
    assert run(PROBE, ["act", "--history", database, "--webhook"]) == 2
    assert run(PROBE, ["act", "--history", database, "--webhook-file", str(tmp_path / "none")]) == 2
    assert "$ROCEWAY_WEBHOOK is not set" in capsys.readouterr().err
