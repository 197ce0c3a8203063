"""From a rule that somebody deletes in a pod to the Event that `kubectl describe pod` shows: the whole agent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cni.agent.apiserver import KubeApi
from tests.cni.agent.kubelet import wait_for
from tests.netns.agents import Agent
from tests.netns.support import added, within
from tests.tuner.switch.servers import needs
from tests.world import ROOT, Host, Ns, World

pytestmark = needs("openssl")
ENV = {"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=ml;K8S_POD_NAME=train-0;K8S_POD_UID=uid-0"}
SECRET = "token-that-nobody-shall-read"


@pytest.fixture
def pod(world: World, host: Host) -> Ns:
    made = world.ns("pod")
    added(host, host.conf(), netns=made, env=ENV)
    return made


@pytest.fixture
def api(host: Host, tmp_path: Path) -> Iterator[KubeApi]:
    """An API server that the host reaches on its loopback."""
    made = KubeApi(tmp_path / "api", SECRET)
    with within(host.ns):
        made.start()
    yield made
    made.stop()


@pytest.fixture
def agent(host: Host, api: KubeApi) -> Iterator[Agent]:
    made = Agent(host)
    yield made
    made.close()
    assert SECRET not in made.log.read_text()


def start(agent: Agent, api: KubeApi, *more: str) -> None:
    """As in its pod, where the kubelet has mounted the service account."""
    words = ("--node", "node-1", "--metrics", "off", "--service-account", str(api.account), *more)
    agent.start(*words, env=api.env)
    wait_for(lambda: "drift" in problems(agent))


def problems(agent: Agent) -> dict[str, str]:
    told = agent.status()
    return told["parts"] if told else {}


def reasons(api: KubeApi) -> list[str]:
    return [reason for reason, _, _ in api.told]


def test_a_rail_that_loses_its_rule_becomes_an_event_of_its_pod(agent: Agent, api: KubeApi, pod: Ns) -> None:
    start(agent, api)
    assert problems(agent)["events"] == ""
    pod.ip("rule", "del", "from", "10.200.0.2")
    wait_for(lambda: api.events, 20)
    (event,) = api.events.values()
    lost = "rail0: rule: wanted from 10.200.0.2/32 lookup 1000 priority 1000, got none"
    assert (event["reason"], event["type"], event["count"]) == ("RailRepaired", "Normal", 1)
    assert event["message"] == f"{lost} (put back)"
    assert event["involvedObject"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "ml", "name": "train-0", "uid": "uid-0"
    }  # fmt: skip
    assert event["source"] == {"component": "roceway-agent", "host": "node-1"}
    assert "from 10.200.0.2 lookup 1000" in pod.ip("rule")


def test_a_lost_address_is_a_warning_once_and_its_return_is_told(agent: Agent, api: KubeApi, pod: Ns) -> None:
    start(agent, api)
    pod.ip("addr", "del", "10.200.0.2/24", "dev", "rail0")
    wait_for(lambda: api.events, 20)
    pod.ip("link", "set", "rail1", "down")
    wait_for(lambda: len(api.events) == 2, 20)
    first, second = api.events.values()
    assert (first["reason"], first["type"]) == ("RailDrifted", "Warning")
    assert first["message"].startswith("rail0: address: wanted 10.200.0.2/24, got none")
    assert first["message"].endswith("(left as it is: somebody took it or it broke)")
    assert second["message"].startswith("rail1: link: wanted up, got down")
    assert len(api.requests) == 2, "one for each, however often it was looked at"


def test_without_repair_the_event_says_that_nothing_was_put_back(agent: Agent, api: KubeApi, pod: Ns) -> None:
    start(agent, api, "--no-repair")
    pod.ip("rule", "del", "from", "10.200.0.2")
    wait_for(lambda: api.events, 20)
    assert [message.partition(" (")[2] for _, message, _ in api.told] == ["not put back: --no-repair)"]
    pod.ip("rule", "add", "from", "10.200.0.2", "lookup", "1000", "priority", "1000")
    wait_for(lambda: reasons(api) == ["RailDrifted", "RailRecovered"], 20)


def test_an_api_server_that_is_gone_fails_nothing_and_status_says_so(
    agent: Agent, api: KubeApi, host: Host, pod: Ns
) -> None:
    start(agent, api)
    api.stop()
    pod.ip("rule", "del", "from", "10.200.0.2")
    wait_for(lambda: "the API server at 127.0.0.1" in problems(agent)["events"], 20)
    assert "from 10.200.0.2 lookup 1000" in pod.ip("rule"), "put back all the same"
    assert host.call("DEL", agent.conf(host.conf()), "c1", pod, env=ENV).code == 0
    assert agent.stop() == 0


@pytest.mark.parametrize("how", ["outside", "unwanted"])
def test_off_or_outside_kubernetes_it_is_silent_and_no_problem(agent: Agent, api: KubeApi, pod: Ns, how: str) -> None:
    if how == "outside":
        agent.start("--metrics", "off")
    else:
        start(agent, api, "--no-events")
    wait_for(lambda: problems(agent).get("events", "").startswith("off: "))
    pod.ip("rule", "del", "from", "10.200.0.2")
    wait_for(lambda: "from 10.200.0.2 lookup 1000" in pod.ip("rule"), 20)
    assert api.requests == []
    words = [sys.executable, "-m", "cni.agent", "status", "--socket", str(agent.socket)]
    done = subprocess.run(
        ["nsenter", f"--net={agent.host.ns.path}", "--", *words], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    why = "--no-events" if how == "unwanted" else "not in Kubernetes"
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("events: ")]
    assert line.startswith(f"events: off: {why}")
    said = [json.loads(line)["event"] for line in agent.log.read_text().splitlines()]
    assert len([line for line in said if line.startswith("no events on pods: ")]) == 1
