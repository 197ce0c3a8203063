"""Calling the plugin without a process, and what a test wants to know about its state."""

from __future__ import annotations

import functools
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from cni.skel import dispatch
from host.netns import Netns, inside
from tests.world import CNI_PLUGINS, Answer, Host, Ns

MODES = ("macvlan", "ipvlan", "host-device")
Rows = dict[str, list[Any]]


@contextmanager
def within(space: Ns) -> Iterator[None]:
    """The calling thread in ``space`` for the block."""
    opened = Netns.open(space.path)
    try:
        with inside(opened):
            yield
    finally:
        opened.close()


def call(
    host: Host,
    command: str,
    conf: Mapping[str, Any] | str,
    container: str = "c1",
    netns: Ns | str = "",
    *,
    ifname: str = "eth0",
    env: Mapping[str, str] | None = None,
) -> Answer:
    """One call of the dispatcher in this process: the same answer as Host.call gives, in a tenth of the time."""
    variables = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": container,
        "CNI_NETNS": netns.path if isinstance(netns, Ns) else netns,
        "CNI_IFNAME": ifname,
        "CNI_PATH": str(CNI_PLUGINS),
        **(env or {}),
    }
    with within(host.ns):
        code, out = dispatch(variables, conf if isinstance(conf, str) else json.dumps(conf))
    return Answer(code, json.loads(out) if out else None, "")


def added(host: Host, conf: Mapping[str, Any], container: str = "c1", netns: Ns | str = "", **more: Any) -> Any:
    """ADD that must succeed; its result."""
    answer = call(host, "ADD", conf, container, netns, **more)
    assert answer.code == 0, answer.body
    return answer.body


def deleted(host: Host, conf: Mapping[str, Any], container: str = "c1", netns: Ns | str = "", **more: Any) -> None:
    """DEL that must succeed in silence."""
    assert call(host, "DEL", conf, container, netns, **more) == Answer(0, None, "")


def collected(host: Host, conf: Mapping[str, Any], *valid: tuple[str, str]) -> Answer:
    """GC with a list of (container, ifname) that are still valid."""
    listed = [{"containerID": container, "ifname": ifname} for container, ifname in valid]
    return call(host, "GC", {**conf, "cni.dev/valid-attachments": listed})


@functools.cache
def _kernel_has(kind: str) -> bool:
    script = f"ip link add p0 type veth peer name p1 && ip link add t0 link p0 type {kind}"
    return not subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, check=False).returncode


def need(mode: str) -> None:
    """Skip the test where the kernel cannot make links of this mode, found out by making one."""
    if mode in ("macvlan", "ipvlan") and not _kernel_has(mode):
        pytest.skip(f"this kernel has no {mode} (CONFIG_{mode.upper()})")


def database(host: Host) -> sqlite3.Connection:
    """The host's state, for looking and for doing damage."""
    return sqlite3.connect(host.state / "state.db", isolation_level=None, timeout=30)


def rows(host: Host) -> Rows:
    """What the host's state holds, table by table; empty lists where there is no database."""
    tables = {
        "attachments": "SELECT network, container_id, ifname, state FROM attachments ORDER BY 1, 2, 3",
        "leases": "SELECT rail, prefix FROM leases ORDER BY rail, family, address",
        "claims": "SELECT device, exclusive FROM claims ORDER BY 1",
    }
    if not (host.state / "state.db").exists():
        return {name: [] for name in tables}
    connection = database(host)
    try:
        return {name: connection.execute(sql).fetchall() for name, sql in tables.items()}
    finally:
        connection.close()


EMPTY: Rows = {"attachments": [], "leases": [], "claims": []}


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked child; its wait status (a signal's number when it was killed, else its exit code)."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            signal.alarm(60)
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def difference(before: str, after: str) -> str:
    """What a snapshot lost (-) and gained (+); empty when it is the same."""
    old, new = before.splitlines(), after.splitlines()
    return "\n".join(
        [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
    )
