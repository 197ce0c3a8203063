"""Pods wait for each other: real sockets, all or none, and who is missing has a name."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.world import ROOT


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def pod(index: int, port: int, peers: Sequence[str], seconds: float) -> subprocess.Popen[str]:
    words = ["--index", str(index), "--port", str(port), "--seconds", str(seconds), *peers]
    return subprocess.Popen(
        [sys.executable, "-m", "nccltest.launch.barrier", *words], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def test_all_go_on_when_the_last_has_come() -> None:
    port, peers = free_port(), ["localhost"] * 3
    first = [pod(index, port, peers, 30) for index in (1, 2)]
    time.sleep(1.5)
    assert [each.poll() for each in first] == [None, None]
    leader = pod(0, port, peers, 30)
    assert [each.wait(30) for each in (*first, leader)] == [0, 0, 0]


def test_who_never_came_is_named_and_nobody_goes_on() -> None:
    port, peers = free_port(), ["localhost", "pod-1", "pod-2"]
    leader, other = pod(0, port, peers, 3), pod(1, port, peers, 3)
    assert leader.wait(30) == other.wait(30) == 1
    assert leader.stderr is not None
    assert "these pods never came: pod-2" in leader.stderr.read()


def test_a_caller_that_talks_nonsense_holds_nobody_up() -> None:
    port, peers = free_port(), ["localhost"] * 2
    leader = pod(0, port, peers, 30)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" * 100)
            break
        except OSError:
            time.sleep(0.1)
    other = pod(1, port, peers, 30)
    assert leader.wait(30) == other.wait(30) == 0
