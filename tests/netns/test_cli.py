"""`roceway-cni state` and `explain` on a node with real pods."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from cni import install
from tests.world import Host, World, sh


def _cli(host: Host, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        ["nsenter", f"--net={host.ns.path}", "--", sys.executable, "-m", "cni", *words, "--state-dir", str(host.state)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def _json(host: Host, *words: str) -> Any:
    return json.loads(_cli(host, *words, "--json")[1])


def test_state_of_a_node_where_nothing_was_attached(host: Host) -> None:
    assert _cli(host, "state") == (0, "no attachments\n")
    assert _json(host, "state") == {"attachments": [], "leases": [], "journal": []}


def test_state_shows_attachments_and_leases(world: World, host: Host) -> None:
    pod = world.ns("pod")
    host.call("ADD", host.conf(), "c0ffee", pod, env={"CNI_ARGS": "K8S_POD_NAMESPACE=train;K8S_POD_NAME=gpt-0"})
    told = _json(host, "state")
    assert [(each["container"], each["pod"], each["state"], each["alive"]) for each in told["attachments"]] == [
        ("c0ffee", "train/gpt-0", "attached", True)
    ]
    assert [(each["rail"], each["address"]) for each in told["leases"]] == [
        ("rail0", "10.200.0.2/24"),
        ("rail1", "10.201.0.2/24"),
    ]
    code, text = _cli(host, "state")
    assert code == 0
    assert "train/gpt-0" in text
    assert "10.201.0.2/24" in text


def test_explain_says_what_why_and_that_nothing_is_wrong(world: World, host: Host) -> None:
    host.call("ADD", host.conf(), "c0ffee", world.ns("pod"))
    code, text = _cli(host, "explain", "c0f")
    assert code == 0
    assert "attach: always" in text
    assert "the configuration names nic1 for rail1" in text
    assert "every rail is as it was attached" in text


def test_explain_names_what_is_wrong_now_and_exits_1(world: World, host: Host) -> None:
    pod = world.ns("pod")
    host.call("ADD", host.conf(), "c0ffee", pod)
    pod.ip("addr", "flush", "dev", "rail1", "scope", "global")
    host.ns.ip("link", "set", "nic0", "down")
    code, text = _cli(host, "explain", "c0ffee")
    assert code == 1
    assert "rail1: address: wanted 10.201.0.2/24, got none" in text
    assert "rail0: link: wanted carrier" in text


def test_explain_of_a_dead_pod_says_so(world: World, host: Host) -> None:
    pod = world.ns("pod")
    host.call("ADD", host.conf(), "c0ffee", pod)
    sh("ip", "netns", "del", pod.name)
    assert _cli(host, "explain", "c0ffee")[0] == 1
    assert "is gone" in _json(host, "explain", "c0ffee")["problems"][0]


def test_explain_of_an_unknown_container_is_bad_input(world: World, host: Host) -> None:
    assert _cli(host, "explain", "nobody")[0] == 2
    host.call("ADD", host.conf(), "c0ffee", world.ns("pod"))
    code, text = _cli(host, "explain", "nobody")
    assert code == 2
    assert "roceway-cni state" in text


def test_the_installed_launcher_is_the_plugin(world: World, host: Host) -> None:
    program = world.folder / "bin" / "roceway-cni"
    install.apply([install.Change(program, install.launcher(), 0o755)])
    pod = world.ns("pod")
    before = pod.snapshot()
    assert host.call("ADD", host.conf(), netns=pod, program=[str(program)]).code == 0
    assert host.call("DEL", host.conf(), netns=pod, program=[str(program)]).code == 0
    assert pod.snapshot() == before
