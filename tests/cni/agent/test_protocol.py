"""The wire between plugin and agent, as values; and both plugins against a socket that behaves in every bad way."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni.agent import protocol, view
from tests.netns.agents import program
from tests.world import ROOT

NAMES = st.text(st.characters(exclude_characters="=\0", exclude_categories=["Cs"]), min_size=1)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
Script = Callable[[socket.socket], None]


@given(st.dictionaries(NAMES, VALUES), st.binary())
def test_a_request_comes_back_as_it_was(env: dict[str, str], stdin: bytes) -> None:
    data = protocol.request(env, stdin)
    found = protocol.header(data)
    start = protocol.HEADER.size
    assert protocol.variables(data[start : start + found.environment]) == env
    assert data[start + found.environment :] == stdin
    assert len(data) == start + found.environment + found.stdin


@given(st.binary(min_size=16, max_size=16))
def test_a_header_is_understood_or_refused_in_words(data: bytes) -> None:
    try:
        found = protocol.header(data)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, but this one has words
    else:
        assert found.protocol == protocol.PROTOCOL
        assert found.environment + found.stdin <= protocol.REQUEST_MAX


def test_undecodable_bytes_of_the_environment_survive() -> None:
    value = os.fsdecode(b"caf\xe9")
    assert protocol.variables(protocol.environment({"CNI_ARGS": value})) == {"CNI_ARGS": value}


def test_two_who_see_the_same_differ_in_nothing(tmp_path: Path) -> None:
    mine = view.look(str(tmp_path), str(tmp_path))
    assert view.difference(view.parse(view.text(mine)), mine) == ""
    assert view.difference(mine, mine._replace(network="0:1"))
    assert view.difference(mine, mine._replace(pod=view.NOTHING))
    assert view.difference(mine, mine._replace(state="0:1"))


@pytest.mark.parametrize("said", ["", "1:2", "a b c", "a b c d e"])
def test_a_view_that_is_none_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match="does not say"):
        view.parse(said)


# both plugins, and an agent that misbehaves


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Callable[[Script], Path]]:
    """A listening socket whose one connection is handled by a script."""
    opened: list[socket.socket] = []

    def serve(script: Script) -> Path:
        path = tmp_path / "agent.sock"
        listening = socket.socket(socket.AF_UNIX)
        opened.append(listening)
        listening.bind(str(path))
        listening.listen()

        def handle() -> None:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                script(connection)

        threading.Thread(target=handle, daemon=True).start()
        return path

    yield serve
    for each in opened:
        each.close()


def asked(kind: str, agent: Path | str) -> tuple[int, str, str, float]:
    """A plugin whose own part would say that the configuration is wrong (code 7): exit, stdout, stderr, seconds."""
    conf = {"cniVersion": "1.1.0", "name": "n", "type": "roceway-cni", "agent": str(agent), "rails": []}
    env = {"CNI_COMMAND": "STATUS", "CNI_PATH": "/p", "PATH": os.environ["PATH"]}
    start = time.monotonic()
    done = subprocess.run(
        program(kind), input=json.dumps(conf), capture_output=True, text=True, env=env, cwd=ROOT, timeout=60
    )
    return done.returncode, done.stdout, done.stderr, time.monotonic() - start


def read_request(connection: socket.socket) -> dict[str, str]:
    data = b""
    while len(data) < protocol.HEADER.size or len(data) < _whole(data):
        data += connection.recv(65536)
    found = protocol.header(data)
    return protocol.variables(data[protocol.HEADER.size : protocol.HEADER.size + found.environment])


def _whole(data: bytes) -> int:
    found = protocol.header(data)
    return protocol.HEADER.size + found.environment + found.stdin


def said(*frames: bytes) -> Script:
    def script(connection: socket.socket) -> None:
        read_request(connection)
        for each in frames:
            connection.sendall(each)

    return script


def silent(connection: socket.socket) -> None:
    read_request(connection)
    time.sleep(2)


PLUGINS = ("compiled", "python")
BEGUN = protocol.frame(protocol.BEGUN)
ALONE: dict[str, Script] = {
    "closes at once": lambda connection: None,
    "closes when asked": said(),
    "refuses": said(protocol.frame(protocol.REFUSED, b"no")),
    "refuses after all": said(BEGUN, protocol.frame(protocol.REFUSED, b"no")),
    "begins and dies": said(BEGUN),
    "dies in a frame": said(BEGUN, protocol.FRAME.pack(protocol.ANSWER, 100) + b"\0{"),
    "dies in a head": said(BEGUN, b"\5\0"),
    "answers nothing": said(BEGUN, protocol.frame(protocol.ANSWER)),
    "talks nonsense": said(b"HTTP/1.1 200 OK\r\n\r\n"),
    "claims a terabyte": said(b"\5\0\0\0\xff\xff\xff\xff"),
    "is silent": silent,
}


@pytest.mark.parametrize("kind", PLUGINS)
@pytest.mark.parametrize("how", ALONE)
def test_the_plugin_works_alone_when_the_agent(how: str, kind: str, door: Callable[[Script], Path]) -> None:
    code, out, _, seconds = asked(kind, door(ALONE[how]))
    assert (code, json.loads(out)["code"]) == (1, 7)
    assert seconds < 10  # a second of silence at most, and its own work


@pytest.mark.parametrize("kind", PLUGINS)
@pytest.mark.parametrize("agent", ["/nowhere/agent.sock", "/etc/passwd", "/" + "long" * 40, "relative.sock"])
def test_the_plugin_works_alone_where_there_is_no_agent(kind: str, agent: str) -> None:
    code, out, _, _ = asked(kind, agent)
    assert (code, json.loads(out)["code"]) == (1, 7)


@pytest.mark.parametrize("kind", PLUGINS)
def test_what_the_agent_answers_is_what_the_plugin_says(kind: str, door: Callable[[Script], Path]) -> None:
    big = json.dumps({"x": "y" * 300_000})
    script = said(
        BEGUN, protocol.frame(protocol.STDERR, b"a warning\n"), protocol.frame(protocol.ANSWER, b"\3" + big.encode())
    )
    code, out, err, _ = asked(kind, door(script))
    assert (code, out, err) == (3, big + "\n", "a warning\n")


@pytest.mark.parametrize("kind", PLUGINS)
def test_silence_and_success_stay_silence_and_success(kind: str, door: Callable[[Script], Path]) -> None:
    assert asked(kind, door(said(BEGUN, protocol.frame(protocol.ANSWER, b"\0"))))[:3] == (0, "", "")


@pytest.mark.parametrize("kind", PLUGINS)
def test_both_plugins_ask_the_same(kind: str, door: Callable[[Script], Path]) -> None:
    heard: dict[str, str] = {}

    def script(connection: socket.socket) -> None:
        heard.update(read_request(connection))
        connection.sendall(protocol.frame(protocol.ANSWER, b"\0"))

    asked(kind, door(script))
    assert set(heard) == {"CNI_COMMAND", "CNI_PATH", "ROCEWAY_RELEASE", "ROCEWAY_VIEW"}
    assert heard["ROCEWAY_RELEASE"] == protocol.RELEASE
    assert heard["ROCEWAY_VIEW"] == view.text(view.look("", "/var/lib/roceway"))
