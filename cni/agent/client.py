"""The plugin's side of the agent's socket, for the plugin in Python. The compiled one does the same in C.

Imports next to nothing: a process per pod pays for it. Returns None whenever the work is to be done in process.
Before it does, the connection is closed; that is what the agent looks for once it holds a pod's lock
(docs/decisions/0010-agent.md).
"""

from __future__ import annotations

import os
import time
from _json import make_scanner  # the C part alone: `json` imports `re`, 3 ms
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket
from collections.abc import Mapping
from typing import Any, NamedTuple

from cni.agent import protocol, view

__all__ = ["Answer", "ask", "socket_of", "status"]

DEFAULT_SOCKET = "/run/roceway/agent.sock"
DEFAULT_STATE_DIR = "/var/lib/roceway"

SEND_WAIT = 1.0
"""Seconds for the connection, the request and its being begun: a living agent needs a millisecond."""
ANSWER_WAIT = 20.0
"""Seconds for the answer: a pod's lock is waited for up to 15. CRI-O gives a DEL 60, of which 40 are left then."""

_RECEIVE = 1 << 16


class Answer(NamedTuple):
    """What the agent said."""

    code: int
    """Exit code."""
    stdout: bytes
    stderr: bytes


class _Scanning:
    """What ``json.JSONDecoder`` would tell the scanner."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, None
    memo: dict[str, str] = {}  # noqa: RUF012 - lives as long as the process


def ask(env: Mapping[str, str], stdin: bytes, *, trace: bool = False) -> Answer | None:
    """One request; None when there is no agent, it refuses, or it does not answer in time."""
    if env.get("CNI_COMMAND") == "VERSION" or len(stdin) > protocol.REQUEST_MAX:
        return None
    path, state = socket_of(stdin)
    if not path or not os.path.exists(path):
        return None
    pod = env.get("CNI_NETNS", "")
    if pod and not pod.startswith("/"):
        return None  # the agent is in another folder
    sent = {name: value for name, value in env.items() if name.startswith("CNI_")}
    sent["ROCEWAY_RELEASE"] = protocol.RELEASE
    sent["ROCEWAY_VIEW"] = view.text(view.look(pod, state))
    data = protocol.request(sent, stdin, protocol.WANTS_TRACE if trace else 0)
    try:
        return _exchange(path, data)
    except (OSError, ValueError):
        return None


def socket_of(stdin: bytes) -> tuple[str, str]:
    """The agent's socket and the state folder that a configuration names. An empty socket: never ask."""
    try:
        raw, _ = make_scanner(_Scanning())(stdin.decode().strip(), 0)  # type: ignore[arg-type]  # all that it reads
    except (ValueError, StopIteration, RecursionError, SystemError):
        # In process the mistake gets its proper error. SystemError: the scanner cannot make one without `json`.
        return "", ""
    if not isinstance(raw, dict):
        return "", ""
    wanted: Any = raw.get("agent", DEFAULT_SOCKET)
    state: Any = raw.get("stateDir", DEFAULT_STATE_DIR)
    return (wanted, state) if isinstance(wanted, str) and isinstance(state, str) else ("", "")


def status(path: str) -> dict[str, Any] | None:
    """What the agent says of itself; None when none answers."""
    import json  # a command's, never the plugin's

    try:
        answer = _exchange(path, protocol.request({"ROCEWAY_STATUS": "1"}, b""))
        told = json.loads(answer.stdout) if answer else None
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def _exchange(path: str, data: bytes) -> Answer | None:
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
    try:
        deadline = time.monotonic() + SEND_WAIT
        connection.settimeout(SEND_WAIT)
        connection.connect(path)
        connection.sendall(data)
        return _Frames(connection, deadline).answer()
    finally:
        connection.close()


class _Frames:
    """Frames as they come in, each within its time."""

    def __init__(self, connection: socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._data = b""
        self._stderr = b""

    def answer(self) -> Answer | None:
        """The answer, or None for a refusal. OSError when it does not come, ValueError when it makes no sense."""
        while True:
            kind, payload = self._next()
            if kind == protocol.BEGUN:
                self._deadline = time.monotonic() + ANSWER_WAIT
            elif kind in (protocol.STDERR, protocol.TRACE):
                self._stderr += payload
            elif kind == protocol.ANSWER and payload:
                return Answer(payload[0], payload[1:], self._stderr)
            elif kind == protocol.REFUSED:
                return None
            else:
                raise ValueError("not a frame")

    def _next(self) -> tuple[int, bytes]:
        kind, length = protocol.FRAME.unpack(self._exactly(protocol.FRAME.size))
        return kind, self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        while len(self._data) < length:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            more = self._connection.recv(_RECEIVE)
            if not more:
                raise ConnectionResetError
            self._data += more
        head, self._data = self._data[:length], self._data[length:]
        return head
