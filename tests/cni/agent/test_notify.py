"""What systemd is told, and when."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cni.agent.notify import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(tmp_path / "notify"))
        door.settimeout(2)
        yield door


def test_each_state_is_one_datagram(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    notifier.ready("serving")
    notifier.alive()
    notifier.stopping()
    assert [manager.recv(1000).decode() for _ in range(3)] == ["READY=1\nSTATUS=serving", "WATCHDOG=1", "STOPPING=1"]


def test_an_abstract_socket_is_understood() -> None:
    name = f"roceway-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(f"\0{name}")
        door.settimeout(2)
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).alive()
        assert door.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize(
    ("env", "seconds"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
    ],
)
def test_the_watchdog_wants_a_sign_in_half_of_its_time(env: dict[str, str], seconds: float) -> None:
    assert Notifier(env).interval == seconds


@pytest.mark.parametrize("env", [{}, {"NOTIFY_SOCKET": "/nowhere/notify"}])
def test_a_manager_that_is_not_there_disturbs_nobody(env: dict[str, str]) -> None:
    Notifier(env).ready("serving")
