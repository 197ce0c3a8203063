"""The agent under a service manager: what it tells, what it may, and what happens when it hangs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from cni.agent import server
from tests.cni.agent.test_deploy import UNIT, _unit
from tests.netns.agents import Agent, program, running, served
from tests.netns.support import EMPTY, MODES, need, rows
from tests.netns.test_agent import slow
from tests.world import ROOT, Answer, Host, World


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(tmp_path / "notify"))
        door.settimeout(10)
        yield door


def test_ready_then_signs_of_life_then_stopping(host: Host, manager: socket.socket) -> None:
    agent = Agent(host)
    try:
        agent.start(env={"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "2000000"})
        assert manager.recv(1000).startswith(b"READY=1\n")
        assert [manager.recv(1000) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        agent.signal(signal.SIGSTOP)
        time.sleep(0.1)
        manager.setblocking(False)
        with suppress(BlockingIOError):
            while manager.recv(1000):
                pass  # what it had said before
        manager.settimeout(3)
        with pytest.raises(TimeoutError):
            manager.recv(1000)  # a loop that does not turn gives no sign
        agent.signal(signal.SIGCONT)
        agent.signal(signal.SIGTERM)
        manager.settimeout(10)
        while (said := manager.recv(1000)) == b"WATCHDOG=1":
            pass
        assert said == b"STOPPING=1"
        assert agent.wait() == 0
    finally:
        agent.close()


def test_a_state_folder_that_somebody_made_for_it_is_roots_alone(host: Host) -> None:
    """A kubelet makes what a DaemonSet mounts with mode 0755."""
    host.state.mkdir(mode=0o755)
    with running(host):
        assert host.state.stat().st_mode & 0o777 == 0o700


def test_a_worker_that_hangs_is_killed_and_its_plugin_goes_on_alone(world: World, host: Host) -> None:
    agent = Agent(host)

    @contextmanager
    def impatient() -> Iterator[None]:
        with patch.object(server, "WORK_WAIT", 0.5), slow("_unlike", 30)():
            yield

    try:
        agent.fork(impatient)
        pod = world.ns("pod")
        conf = agent.conf(host.conf())
        start = time.monotonic()
        answer = host.call("ADD", conf, "c1", pod, program=(*program("compiled"), "--trace"))
        assert (answer.code, served(answer.stderr)) == (0, False), answer
        assert time.monotonic() - start < 15
        told = agent.status()
        assert told is not None
        assert (told["workers_lost"], told["ready"], told["workers"]) == (1, True, 1)
        assert host.call("DEL", conf, "c1", pod, program=program("compiled")).code == 0
        assert rows(host) == EMPTY
    finally:
        agent.close()


@pytest.mark.parametrize("mode", MODES)
def test_the_units_capabilities_are_enough(world: World, host: Host, mode: str) -> None:
    """And fewer than root's: the bounding set is the unit file's."""
    need(mode)
    names = [name.removeprefix("CAP_").lower() for name in _unit()["Service"]["CapabilityBoundingSet"].split()]
    agent = Agent(host)
    host.state.mkdir(mode=0o700)
    bounds = ",".join(["-all", *(f"+{name}" for name in names)])
    words = [sys.executable, "-m", "cni.agent", "run", "--socket", str(agent.socket), "--state-dir", str(host.state)]
    try:
        with agent.log.open("wb") as log:
            agent._process = subprocess.Popen(
                [
                    "nsenter",
                    f"--net={host.ns.path}",
                    "--",
                    "setpriv",
                    f"--bounding-set={bounds}",
                    "--no-new-privs",
                    *words,
                ],
                stderr=log,
                cwd=ROOT,
            )
        agent.pid = agent._process.pid
        agent._await(ready=True)
        worker = agent.children()[-1]
        effective = next(
            line for line in Path(f"/proc/{worker}/status").read_text().splitlines() if line.startswith("CapEff:")
        )
        assert bin(int(effective.split()[1], 16)).count("1") == len(names), UNIT
        pod = world.ns("pod")
        conf = agent.conf(host.conf(mode=mode))
        conf["rails"][1]["ipam"] = {"ranges": [{"subnet": "fd00:201::/64"}]}
        for verb in ("ADD", "STATUS", "DEL"):
            answer = host.call(verb, conf, "c1", pod, program=(*program("compiled"), "--trace"))
            assert (answer.code, served(answer.stderr)) == (0, True), answer
        assert rows(host) == EMPTY
    finally:
        agent.close()


def test_requests_are_served_while_the_service_is_restarted_again_and_again(world: World, host: Host) -> None:
    """Stop and start with a gap, as systemd does: the plugin fills it."""
    pod = world.ns("pod")
    stop = threading.Event()
    answers: list[Answer] = []
    with running(host) as first:
        conf = first.conf(host.conf())

        def traffic() -> None:
            while not stop.is_set():
                for verb in ("ADD", "DEL"):
                    answers.append(host.call(verb, conf, "c1", pod, program=program("compiled")))

        work = threading.Thread(target=traffic, daemon=True)
        work.start()
        try:
            for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
                time.sleep(0.2)
                if how == signal.SIGKILL:
                    for pid in (*first.children(), first.pid):
                        os.kill(pid, signal.SIGKILL)
                    first.wait()
                else:
                    assert first.stop() == 0
                first.start()
        finally:
            stop.set()
            work.join(30)
    assert len(answers) > 10
    assert {answer.code for answer in answers} == {0}, [answer for answer in answers if answer.code]
    assert rows(host) == EMPTY
