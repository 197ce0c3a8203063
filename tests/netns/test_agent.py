"""The agent serves what the plugin would do, and everything that can befall it leaves the plugin unharmed."""

from __future__ import annotations

import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from cni import netconf
from cni.agent import client, crew, protocol, server
from cni.commands import add as add_command
from cni.skel import dispatch
from tests.netns.agents import Agent, program, running, served, text
from tests.netns.support import EMPTY, MODES, call, deleted, difference, need, rows, within
from tests.netns.test_parallel import at_once
from tests.world import CNI_PLUGINS, ROOT, Answer, Host, Ns, World

PLUGINS = ("compiled", "python")


@pytest.fixture
def agent(host: Host) -> Iterator[Agent]:
    """A running one."""
    with running(host) as made:
        yield made


def traced(host: Host, verb: str, conf: Any, pod: Ns | str, kind: str = "compiled", container: str = "c1") -> Answer:
    return host.call(verb, conf, container, pod, program=(*program(kind), "--trace"))


# the same answers


@pytest.mark.parametrize("kind", PLUGINS)
@pytest.mark.parametrize("mode", MODES)
def test_add_check_status_del_by_the_agent(world: World, host: Host, agent: Agent, mode: str, kind: str) -> None:
    need(mode)
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    conf = agent.conf(host.conf(mode=mode))
    added = traced(host, "ADD", conf, pod, kind)
    assert (added.code, served(added.stderr)) == (0, True), added
    for verb in ("CHECK", "STATUS"):
        answer = traced(host, verb, {**conf, "prevResult": added.body}, pod, kind)
        assert (answer.code, answer.body, served(answer.stderr)) == (0, None, True), answer
    again = traced(host, "ADD", conf, pod, kind)
    assert again.body == added.body
    answer = traced(host, "DEL", conf, pod, kind)
    assert (answer.code, answer.body, served(answer.stderr)) == (0, None, True), answer
    assert not difference(before[0], host.ns.snapshot())
    assert not difference(before[1], pod.snapshot())
    assert rows(host) == EMPTY
    told = agent.status()
    assert told is not None
    assert (told["served"], told["refused"], told["workers_lost"]) == (5, 0, 0)


@pytest.mark.parametrize("kind", PLUGINS)
@pytest.mark.parametrize(
    ("verb", "broken"),
    [
        ("ADD", "{"),
        ("ADD", '{"agent": "AGENT", "cniVersion": "9.9"}'),
        ("ADD", '{"agent": "AGENT", "stateDir": "STATE", "cniVersion": "1.1.0", "name": "n", "nonsense": 1}'),
        ("FOO", '{"agent": "AGENT", "stateDir": "STATE"}'),
        ("DEL", '{"agent": "AGENT", "stateDir": "STATE", "cniVersion": "1.1.0", "name": "né"}'),
    ],
)
def test_errors_are_the_same_with_and_without_the_agent(
    world: World, host: Host, agent: Agent, kind: str, verb: str, broken: str
) -> None:
    conf = broken.replace("AGENT", str(agent.socket)).replace("STATE", str(host.state))
    pod = world.ns("pod")
    with_agent = host.call(verb, conf, "c1", pod, program=program(kind))
    without = host.call(verb, conf.replace(str(agent.socket), "/none"), "c1", pod, program=program(kind))
    assert with_agent.code == 1
    assert with_agent == without


def test_version_and_an_agent_switched_off_never_ask(world: World, host: Host, agent: Agent) -> None:
    for kind in PLUGINS:
        assert not served(traced(host, "VERSION", agent.conf(host.conf()), "", kind).stderr)
        assert not served(traced(host, "STATUS", {**host.conf(), "agent": False}, "", kind).stderr)
    told = agent.status()
    assert told is not None
    assert told["served"] + told["refused"] == 0


def test_many_pods_at_once(world: World, host: Host, agent: Agent) -> None:
    pods = [world.ns(f"pod{number}") for number in range(16)]
    before = host.ns.snapshot(), [pod.snapshot() for pod in pods]
    conf = agent.conf(host.conf())
    words = program("compiled")
    answers = at_once([partial(host.call, "ADD", conf, f"c{n}", pod, program=words) for n, pod in enumerate(pods)])
    assert [answer.code for answer in answers] == [0] * 16
    assert len({ip["address"] for answer in answers for ip in answer.body["ips"]}) == 32
    answers = at_once([partial(host.call, "DEL", conf, f"c{n}", pod, program=words) for n, pod in enumerate(pods)])
    assert answers == [Answer(0, None, "")] * 16
    assert (host.ns.snapshot(), [pod.snapshot() for pod in pods]) == before
    assert rows(host) == EMPTY
    told = agent.status()
    assert told is not None
    assert told["served"] == 32
    assert crew.KEEP < told["workers"] <= 8


def test_workers_that_nobody_needs_any_more_go(world: World, host: Host) -> None:
    agent = Agent(host)

    @contextmanager
    def impatient() -> Iterator[None]:
        with patch.object(crew, "IDLE", 2.0), slow("_unlike", 0.3)():
            yield

    try:
        agent.fork(impatient, workers=6)
        pods = [world.ns(f"pod{number}") for number in range(5)]
        conf = agent.conf(host.conf())
        words = program("compiled")
        at_once([partial(host.call, "ADD", conf, f"c{n}", pod, program=words) for n, pod in enumerate(pods)])
        most = len(agent.children())
        deadline = time.monotonic() + 10
        while len(agent.children()) > 1 + crew.KEEP and time.monotonic() < deadline:
            time.sleep(0.1)
        assert most > 1 + crew.KEEP
        assert len(agent.children()) == 1 + crew.KEEP
        answer = traced(host, "DEL", conf, pods[0], container="c0")
        assert (answer.code, served(answer.stderr)) == (0, True), answer
        told = agent.status()
        assert told is not None
        assert told["workers_lost"] == 0
    finally:
        agent.close()


# who may ask, and what


def test_the_socket_is_roots_alone(agent: Agent) -> None:
    assert stat.S_IMODE(agent.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(agent.socket.parent.stat().st_mode) == 0o700


def test_another_user_gets_no_word_even_where_the_files_let_them_in(agent: Agent) -> None:
    for path in (agent.socket.parent.parent, agent.socket.parent):
        path.chmod(0o755)
    agent.socket.chmod(0o666)
    script = (
        "import os, socket, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect(sys.argv[1])\n"
        "try:\n    s.sendall(bytes.fromhex(sys.argv[2])); print(s.recv(100))\n"
        "except (BrokenPipeError, ConnectionResetError):\n    print(b'')\n"
    )
    data = protocol.request({"ROCEWAY_STATUS": "1"}, b"").hex()
    done = subprocess.run(
        [sys.executable, "-c", script, str(agent.socket), data], capture_output=True, text=True, timeout=30
    )
    assert done.stdout.strip() == "b''", done.stderr


def raw(agent: Agent, data: bytes, wait: float = 5.0) -> bytes:
    """Everything that the agent answers to ``data``, until it closes."""
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(wait)
        door.connect(str(agent.socket))
        found = b""
        try:
            door.sendall(data)
            while piece := door.recv(65536):
                found += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
        return found


@pytest.mark.parametrize(
    "data",
    [
        protocol.HEADER.pack(b"RWAY", 2, 0, 0, 0),
        protocol.HEADER.pack(b"HTTP", 1, 0, 0, 0),
        protocol.HEADER.pack(b"RWAY", 1, 0, 1 << 30, 1 << 30),
    ],
)
def test_what_it_does_not_know_is_refused_in_words(agent: Agent, data: bytes) -> None:
    kind, length = protocol.FRAME.unpack_from(raw(agent, data))
    assert kind == protocol.REFUSED
    assert length > 0


def test_nonsense_does_not_hurt_it(agent: Agent) -> None:
    chance = random.Random(4)
    good = protocol.request({"CNI_COMMAND": "STATUS", "CNI_PATH": "/p"}, b"{}")
    for _ in range(60):
        noise = chance.randbytes(chance.randrange(1, 200))
        raw(agent, noise, 0.01) if chance.random() < 0.2 else raw(
            agent, protocol.HEADER.pack(b"RWAY", 1, 0, 9, 9) + noise
        )
        cut = bytearray(good)
        cut[chance.randrange(16, len(cut))] ^= 1 << chance.randrange(8)
        raw(agent, bytes(cut))
    told = agent.status()
    assert told is not None
    assert told["ready"]
    assert told["workers_lost"] == 0


def test_slow_and_silent_plugins_do_not_stall_the_others(world: World, host: Host) -> None:
    agent = Agent(host)

    @contextmanager
    def patient() -> Iterator[None]:
        with patch.object(server, "READ_WAIT", 8.0):  # so that nobody is served because the silent were shown the door
            yield

    doors = [socket.socket(socket.AF_UNIX) for _ in range(100)]
    try:
        agent.fork(patient)
        for number, door in enumerate(doors):
            connect(door, agent)
            door.send(protocol.request({"CNI_COMMAND": "ADD"}, b"x" * 100)[: number % 60 + 1])
        start = time.monotonic()
        answer = traced(host, "ADD", agent.conf(host.conf()), world.ns("pod"))
        assert (answer.code, served(answer.stderr)) == (0, True), answer
        assert time.monotonic() - start < 7, "it waited for those that say nothing"
        for door in doors:
            door.settimeout(20)
        assert all(door.recv(10) == b"" for door in doors)
    finally:
        for door in doors:
            door.close()
        agent.close()


def test_a_flood_beyond_what_it_holds_is_served_in_process(world: World, host: Host, agent: Agent) -> None:
    doors = []
    try:
        for _ in range(200):
            door = socket.socket(socket.AF_UNIX)
            door.setblocking(False)
            doors.append(door)
            try:
                door.connect(str(agent.socket))
            except BlockingIOError:
                break  # as many as it holds, and as many again in the kernel's queue
        answer = traced(host, "ADD", agent.conf(host.conf()), world.ns("pod"))
        assert answer.code == 0, answer
    finally:
        for door in doors:
            door.close()


def test_an_agent_that_is_full_waits_without_turning(agent: Agent) -> None:
    doors = [socket.socket(socket.AF_UNIX) for _ in range(200)]
    try:
        for door in doors:
            connect(door, agent)
        before = ticks(agent.pid)
        time.sleep(0.8)
        assert ticks(agent.pid) - before < 40, "it spun"
    finally:
        for door in doors:
            door.close()


def connect(door: socket.socket, agent: Agent) -> None:
    """As soon as the kernel's queue has room for it."""
    deadline = time.monotonic() + 10
    door.setblocking(False)
    while time.monotonic() < deadline:
        try:
            door.connect(str(agent.socket))
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return


def ticks(pid: int) -> int:
    """CPU time of a process in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_workers_that_die_at_once_are_not_started_in_a_loop(world: World, host: Host) -> None:
    agent = Agent(host)

    @contextmanager
    def deadly() -> Iterator[None]:
        def serve(*_: Any) -> None:
            raise RuntimeError("cannot begin")

        with patch.object(crew, "serve", serve):
            yield

    try:
        agent.fork(deadly, until_ready=False)  # ready only until it sees that its workers are gone
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            told = agent.status()
            assert told is not None
            if not told["ready"] and told["workers_lost"] > 2:
                break
        time.sleep(1)
        told = agent.status()
        assert told is not None
        assert 2 < told["workers_lost"] < 12
        start = time.monotonic()
        answer = traced(host, "ADD", agent.conf(host.conf()), world.ns("pod"))
        assert (answer.code, served(answer.stderr)) == (0, False), answer
        assert time.monotonic() - start < 9
    finally:
        agent.close()


# views that differ


def test_a_plugin_in_another_network_namespace_is_refused(world: World, agent: Agent, host: Host) -> None:
    other = world.host()
    conf = agent.conf({**other.conf(), "stateDir": str(host.state)})
    answer = traced(other, "ADD", conf, world.ns("pod"))
    assert answer.code == 0, answer
    assert not served(answer.stderr)
    assert "another network namespace" in answer.stderr


def test_another_state_folder_is_refused(world: World, agent: Agent, host: Host) -> None:
    conf = agent.conf({**host.conf(), "stateDir": str(host.world.folder / "elsewhere")})
    answer = traced(host, "ADD", conf, world.ns("pod"))
    assert answer.code == 0, answer
    assert not served(answer.stderr)


@pytest.mark.parametrize("hidden", ["/run/netns", "state"])
def test_an_agent_that_does_not_see_the_hosts_folders_refuses(world: World, host: Host, hidden: str) -> None:
    """As in a container whose manifest forgot a mount."""
    agent = Agent(host)
    place = hidden if hidden.startswith("/") else str(host.state)
    host.state.mkdir(mode=0o700)

    @contextmanager
    def apart() -> Iterator[None]:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(0x00020000) == 0  # CLONE_NEWNS
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
        yield

    try:
        agent.fork(apart)
        answer = traced(host, "ADD", agent.conf(host.conf()), world.ns("pod"))
        assert answer.code == 0, answer
        assert not served(answer.stderr)
        assert "the agent" in answer.stderr
        assert len(rows(host)["attachments"]) == 1
    finally:
        agent.close()


def test_an_agent_with_mounts_of_its_own_serves_pods_made_after_it(world: World, host: Host) -> None:
    """As in the DaemonSet: /run/netns comes in by propagation; what goes to files of the host is refused."""
    agent = Agent(host)

    @contextmanager
    def container() -> Iterator[None]:
        import ctypes

        assert ctypes.CDLL(None, use_errno=True).unshare(0x00020000) == 0  # CLONE_NEWNS
        subprocess.run(["mount", "--make-rslave", "/"], check=True)
        subprocess.run(["mount", "--bind", "/proc/sys", "/proc/sys"], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", "/proc/sys"], check=True)
        yield

    try:
        agent.fork(container)
        pod = world.ns("later")
        conf = agent.conf(host.conf())
        for verb in ("ADD", "DEL"):
            answer = traced(host, verb, conf, pod)
            assert (answer.code, served(answer.stderr)) == (0, True), answer
        conf["rails"][1]["ipam"] = {"ranges": [{"subnet": "fd00:201::/64"}]}
        answer = traced(host, "ADD", conf, pod)
        assert (answer.code, served(answer.stderr)) == (0, False), answer
        assert "/proc/sys is read-only" in answer.stderr
        file = {"CNIDeviceInfoFile": str(host.world.folder / "device.json")}
        answer = traced(
            host, "ADD", agent.conf({**host.conf(rails=1), "runtimeConfig": file}), world.ns("other"), container="c2"
        )
        assert (answer.code, served(answer.stderr)) == (0, False), answer
    finally:
        agent.close()


# skew


def test_an_older_agent_leaves_a_newer_configuration_to_the_plugin(world: World, host: Host) -> None:
    agent = Agent(host)

    @contextmanager
    def older() -> Iterator[None]:
        with (
            patch.object(netconf, "_TOP_KEYS", netconf._TOP_KEYS - {"attach"}),
            patch.object(protocol, "RELEASE", "0.0.9"),
        ):
            yield

    try:
        agent.fork(older)
        pod = world.ns("pod")
        answer = traced(host, "ADD", agent.conf(host.conf()), pod)
        assert answer.code == 0, answer
        assert not served(answer.stderr)
        assert "0.0.9 does not understand" in answer.stderr
        answer = traced(host, "DEL", agent.conf(host.conf()), pod)
        assert (answer.code, served(answer.stderr)) == (0, True), answer
        assert rows(host) == EMPTY
    finally:
        agent.close()


def test_an_agent_of_another_protocol_leaves_everything_to_the_plugin(world: World, host: Host) -> None:
    agent = Agent(host)

    @contextmanager
    def newer() -> Iterator[None]:
        def header(data: bytes) -> protocol.Header:
            found = protocol.Header(*protocol.HEADER.unpack(data[: protocol.HEADER.size])[1:])
            if found.environment > 40:  # the test's own question for its status still gets through
                raise ValueError("protocol 1 is not spoken here, only 2")
            return found

        with patch.object(protocol, "header", header):
            yield

    try:
        agent.fork(newer)
        for kind in PLUGINS:
            answer = traced(host, "STATUS", agent.conf(host.conf()), "", kind)
            assert (answer.code, served(answer.stderr)) == (0, False), answer
    finally:
        agent.close()


# an agent that hangs


def test_a_stopped_agent_costs_a_second_and_its_request_is_never_done_later(world: World, host: Host) -> None:
    with running(host) as agent:
        pod = world.ns("pod")
        before = pod.snapshot()
        conf = agent.conf(host.conf())
        agent.signal(signal.SIGSTOP)
        start = time.monotonic()
        answer = traced(host, "ADD", conf, pod)
        assert (answer.code, served(answer.stderr)) == (0, False), answer
        assert time.monotonic() - start < 10  # a second, and the work
        deleted(host, conf, netns=pod)
        agent.signal(signal.SIGCONT)
        time.sleep(0.5)
        assert rows(host) == EMPTY
        assert pod.snapshot() == before
        assert agent.status() is not None


def slow(what: str, seconds: float) -> Any:
    """In the agent: ``what`` of the ADD takes its time first."""

    @contextmanager
    def broken() -> Iterator[None]:
        real = getattr(add_command, what)

        def late(*args: Any, **more: Any) -> Any:
            time.sleep(seconds)
            return real(*args, **more)

        with patch.object(add_command, what, late):
            yield

    return broken


def asked(host: Host, verb: str, conf: Any, pod: Ns, wait: float, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plugin's question, with little patience, from this process."""
    monkeypatch.setattr(client, "ANSWER_WAIT", wait)
    env = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": "c1",
        "CNI_NETNS": pod.path,
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(CNI_PLUGINS),
    }
    with within(host.ns):
        answer = client.ask(env, text(conf).encode())
        return answer if answer is not None else dispatch(env, text(conf))


def test_a_request_that_was_given_up_before_its_lock_is_never_done(
    world: World, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(host)
    try:
        agent.fork(slow("hold", 1.0))
        pod = world.ns("pod")
        before = pod.snapshot()
        conf = agent.conf(host.conf())
        code, _ = asked(host, "ADD", conf, pod, 0.2, monkeypatch)
        assert code == 0
        deleted(host, conf, netns=pod)
        time.sleep(1.2)  # now the agent has the lock, and looks
        assert rows(host) == EMPTY
        assert pod.snapshot() == before
    finally:
        agent.close()


def test_a_request_given_up_while_its_lock_is_held_is_not_done_twice(
    world: World, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(host)
    try:
        agent.fork(slow("_unlike", 0.8))
        pod = world.ns("pod")
        conf = agent.conf(host.conf())
        start = time.monotonic()
        code, out = asked(host, "ADD", conf, pod, 0.2, monkeypatch)
        assert code == 0
        assert time.monotonic() - start > 0.7, "it did not wait for the agent's lock"
        found = rows(host)
        assert len(found["attachments"]) == 1
        assert len(found["leases"]) == 2
        assert call(host, "CHECK", {**conf, "prevResult": __import__("json").loads(out)}, netns=pod).code == 0
        deleted(host, conf, netns=pod)
        assert rows(host) == EMPTY
    finally:
        agent.close()


# life cycle


def test_sigterm_finishes_what_was_begun_and_the_next_call_works_alone(world: World, host: Host) -> None:
    agent = Agent(host)
    try:
        agent.fork(slow("_unlike", 0.5))
        pod = world.ns("pod")
        answers: list[Answer] = []
        conf = agent.conf(host.conf())
        work = threading.Thread(target=lambda: answers.append(traced(host, "ADD", conf, pod)))
        work.start()
        deadline = time.monotonic() + 20
        while not rows(host)["attachments"] and time.monotonic() < deadline:
            time.sleep(0.01)  # until the agent is at it
        assert agent.stop() == 0
        work.join(20)
        assert (answers[0].code, served(answers[0].stderr)) == (0, True), answers
        answer = traced(host, "DEL", conf, pod)
        assert (answer.code, served(answer.stderr)) == (0, False), answer
        assert "sent" not in answer.stderr  # the name is there and refuses: nothing is waited for
        assert rows(host) == EMPTY
    finally:
        agent.close()


def test_a_main_process_killed_alone_leaves_its_workers_to_end_their_requests(world: World, host: Host) -> None:
    agent = Agent(host)
    try:
        agent.fork(slow("_unlike", 0.5))
        workers = agent.children()[1:]
        pod = world.ns("pod")
        answers: list[Answer] = []
        conf = agent.conf(host.conf())
        work = threading.Thread(target=lambda: answers.append(traced(host, "ADD", conf, pod)))
        work.start()
        deadline = time.monotonic() + 20
        while not rows(host)["attachments"] and time.monotonic() < deadline:
            time.sleep(0.01)
        agent.signal(signal.SIGKILL)
        agent.wait()
        work.join(20)
        assert (answers[0].code, served(answers[0].stderr)) == (0, True), answers
        while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
        deleted(host, conf, netns=pod)
        assert rows(host) == EMPTY
    finally:
        agent.close()


def test_the_background_process_may_die_and_comes_again(world: World, host: Host, agent: Agent) -> None:
    background = agent.children()[0]
    os.kill(background, signal.SIGKILL)
    answer = traced(host, "ADD", agent.conf(host.conf()), world.ns("pod"))
    assert (answer.code, served(answer.stderr)) == (0, True), answer
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        now = agent.children()
        if background not in now and len(now) == 1 + crew.KEEP:
            return
        time.sleep(0.05)
    raise AssertionError(f"{background} is not followed by another: {now}")


def test_an_upgrade_in_place_leaves_no_gap_and_pods_stay_attached(world: World, host: Host) -> None:
    old, new = Agent(host), Agent(host)
    pods = [world.ns(f"pod{number}") for number in range(2)]
    conf = old.conf(host.conf())
    try:
        old.start()
        assert served(traced(host, "ADD", conf, pods[0], container="c0").stderr)
        stop = threading.Event()
        answers: list[Answer] = []

        def traffic() -> None:
            while not stop.is_set():
                answers.extend(traced(host, verb, conf, pods[1], container="c1") for verb in ("ADD", "DEL"))

        work = threading.Thread(target=traffic, daemon=True)
        work.start()
        try:
            time.sleep(0.3)
            new.start()  # takes the name over while the old one serves
            assert old.stop() == 0
            time.sleep(0.3)
        finally:
            stop.set()
            work.join(30)
        assert new.socket.exists()
        assert len(answers) > 10
        assert all(answer.code == 0 and served(answer.stderr) for answer in answers), answers
        answer = traced(host, "DEL", conf, pods[0], container="c0")
        assert (answer.code, served(answer.stderr)) == (0, True), answer
        assert rows(host) == EMPTY
    finally:
        old.close()
        new.close()


def test_status_tells_what_it_does_and_ready_is_an_exit_code(agent: Agent) -> None:
    words = [sys.executable, "-m", "cni.agent", "status", "--socket", str(agent.socket)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=30)
    assert "workers" in done.stdout, done
    assert subprocess.run([*words, "--ready"], cwd=ROOT, timeout=30).returncode == 0
    assert agent.stop() == 0
    done = subprocess.run([*words, "--ready"], capture_output=True, text=True, cwd=ROOT, timeout=30)
    assert done.returncode == 3
    assert "the plugin works without it" in done.stderr


def figures(pid: int) -> tuple[int, int]:
    """Open descriptors and resident KiB of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return len(os.listdir(f"/proc/{pid}/fd")), resident


def test_three_hundred_cycles_leave_no_descriptor_no_memory_and_no_row(world: World, host: Host) -> None:
    """`make bench B=--soak` does 10,000."""
    with running(host, "--workers", "1") as agent:
        pod = world.ns("pod")
        conf = agent.conf(host.conf())

        def cycles(count: int) -> None:
            for _ in range(count):
                for verb in ("ADD", "DEL"):
                    assert host.call(verb, conf, "c1", pod, program=program("compiled")).code == 0

        cycles(60)
        time.sleep(0.2)  # deletions under way hold descriptors for 20 ms
        pids = [agent.pid, *agent.children()]
        before = {pid: figures(pid) for pid in pids}
        size = (host.state / "state.db").stat().st_size
        cycles(240)
        time.sleep(0.2)
        after = {pid: figures(pid) for pid in pids}
        assert [agent.pid, *agent.children()] == pids
        assert all(after[pid][0] <= before[pid][0] + 2 for pid in pids), (before, after)  # SQLite's come and go
        assert all(after[pid][1] - before[pid][1] < 1024 for pid in pids), (before, after)
        assert (host.state / "state.db").stat().st_size <= size + 16384
        assert rows(host) == EMPTY
