"""A worker: one CNI request at a time, in a process that is warm.

It is forked by the agent's main process with everything imported, keeps the state database open, and lives until the
main process closes its end of their socket. SIGKILL leaves what a killed plugin leaves: a journal, and no lock.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import select
import signal
import struct
import sys
import time
from array import array
from socket import CMSG_LEN, MSG_WAITALL, SCM_RIGHTS, SOL_SOCKET, socket
from typing import Any, NamedTuple

from cni.agent import protocol, view
from cni.agent.parts import Finished, Setting
from cni.agent.protocol import ANSWER, REFUSED, STDERR, TRACE, WANTS_TRACE, frame
from cni.errors import Code
from cni.skel import dispatch
from cni.spec import state_dir
from cni.store import keep_open
from host import linkgroup, netns, stopwatch, sysctl
from host.errors import Busy

__all__ = ["LENGTH", "TASK", "Report", "serve"]

TASK = struct.Struct("=dII")
"""Ahead of a request on its way to a worker: CLOCK_MONOTONIC of its arrival, flags, length. The plugin's connection
rides along as a descriptor."""
LENGTH = struct.Struct("=I")
"""Ahead of a report on its way back."""

_SEND_WAIT = 1.0  # seconds: an answer is smaller than a socket's buffer, so only a vanished plugin makes us wait
_UNREADABLE = frozenset(
    {Code.INCOMPATIBLE_VERSION, Code.UNSUPPORTED_FIELD, Code.ENVIRONMENT, Code.DECODE, Code.CONFIG, Code.INTERNAL}
)
"""What another release may understand: nothing was changed yet."""
_IDLE = 50  # milliseconds
_GARBAGE = 50_000  # objects: some twenty requests


class Report(NamedTuple):
    """What the main process hears when a request is done with."""

    refused: str
    """Why it was not done; empty when it was."""
    trace: str
    finished: Finished | None


class _RefusedError(Exception):
    """This agent does not do this request; nothing was changed."""


class _Task(NamedTuple):
    arrived: float
    flags: int
    env: dict[str, str]
    stdin: bytes
    plugin: socket


def serve(channel: socket, setting: Setting) -> None:
    """Work until the main process is gone or closes the channel."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the main process decides; requests in flight are finished
    keep_open()
    linkgroup.answer_early()
    gc.disable()
    gc.freeze()  # what was shared at the fork stays shared
    worker = _Worker(setting)
    while True:
        _tidy(channel)
        task = _receive(channel)
        if task is None:
            return
        with task.plugin:
            report = worker.work(task)
        data = json.dumps(report).encode()
        try:
            channel.sendall(LENGTH.pack(len(data)) + data)
        except OSError:
            return


def _tidy(channel: socket) -> None:
    """Collect garbage while there is nothing else to do."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    if not poll.poll(_IDLE) or gc.get_count()[0] > _GARBAGE:
        gc.collect()


def _receive(channel: socket) -> _Task | None:
    """The next task; None when there will be none."""
    space = CMSG_LEN(array("i").itemsize)
    try:
        head, ancillary, _, _ = channel.recvmsg(TASK.size, space, MSG_WAITALL)
        if len(head) < TASK.size:
            return None
        arrived, flags, length = TASK.unpack(head)
        data = channel.recv(length, MSG_WAITALL)
    except OSError:
        return None
    passed = array("i")
    for level, kind, payload in ancillary:
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
            passed.frombytes(payload[: len(payload) - len(payload) % passed.itemsize])
    head_length = protocol.header(data).environment + protocol.HEADER.size
    env = protocol.variables(data[protocol.HEADER.size : head_length])
    plugin = socket(fileno=passed[0])
    plugin.settimeout(_SEND_WAIT)
    return _Task(arrived, flags, env, data[head_length:], plugin)


class _Worker:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def work(self, task: _Task) -> Report:
        """Do a request and answer the plugin."""
        began = time.monotonic()
        stopwatch.restart()
        told = io.StringIO()
        try:
            with contextlib.redirect_stderr(told):
                code, out, finished = self._do(task)
        except _RefusedError as refusal:
            _tell(task.plugin, frame(REFUSED, str(refusal).encode()))
            return Report(str(refusal), "", None)
        trace = _trace(task.arrived, began)
        answer = frame(STDERR, told.getvalue().encode(errors="replace")) if told.tell() else b""
        if task.flags & WANTS_TRACE:
            answer += frame(TRACE, f"roceway-agent: {trace}\n".encode())
        _tell(task.plugin, answer + frame(ANSWER, bytes([code]) + out.encode(errors="surrogateescape")))
        sys.stderr.write(told.getvalue())
        return Report("", trace, finished)

    def _do(self, task: _Task) -> tuple[int, str, Finished]:
        raw = _decoded(task.stdin)
        self._refuse_what_is_not_ours(task, raw)
        env = {name: text for name, text in task.env.items() if name.startswith("CNI_")}

        def still_wanted() -> None:
            if _is_gone(task.plugin):
                raise Busy("the plugin that asked is gone")

        code, out = dispatch(env, task.stdin, still_wanted)
        finished = _finished(task, raw, code, out)
        if finished.code in _UNREADABLE and task.env.get("ROCEWAY_RELEASE") != protocol.RELEASE:
            raise _RefusedError(f"release {protocol.RELEASE} does not understand the request: {finished.message}")
        return code, out, finished

    def _refuse_what_is_not_ours(self, task: _Task, raw: dict[str, Any]) -> None:
        if state_dir(raw) != self._setting.state_dir:
            raise _RefusedError(f"this agent works on {self._setting.state_dir}")
        try:
            plugin = view.parse(task.env.get("ROCEWAY_VIEW", ""))
        except ValueError as error:
            raise _RefusedError(str(error)) from error
        mine = view.look(netns.found(task.env.get("CNI_NETNS", "")), self._setting.state_dir)
        reason = view.difference(plugin, mine) or _foreign(plugin, mine, raw, self._setting.socket)
        if reason:
            raise _RefusedError(reason)


def _foreign(plugin: view.View, mine: view.View, raw: dict[str, Any], socket_path: str) -> str:
    """What an agent in a container leaves to the plugin: what it would do to files that may not be the host's."""
    if plugin.mounts == mine.mounts:
        return ""
    runtime, rails, run_dir = raw.get("runtimeConfig"), raw.get("rails"), raw.get("runDir")
    modes = {rail.get("mode") for rail in rails if isinstance(rail, dict)} if isinstance(rails, list) else set()
    if isinstance(runtime, dict) and runtime.get("CNIDeviceInfoFile"):
        return "a device-info file is asked for, and the agent has mounts of its own"
    if isinstance(run_dir, str) and not run_dir.startswith(f"{os.path.dirname(socket_path)}/"):
        return f"run directories go to {run_dir}, which need not be the host's for the agent"
    if _has_ipv6(raw) and not sysctl.net_is_writable():
        return "IPv6 settings are asked for, and /proc/sys is read-only for the agent"
    if "sriov" in modes and not _is_writable("/sys"):
        return "a VF is asked for, and /sys is read-only for the agent"
    return ""


def _has_ipv6(raw: dict[str, Any]) -> bool:
    rails = raw.get("rails")
    ipams = [rail.get("ipam") for rail in rails if isinstance(rail, dict)] if isinstance(rails, list) else []
    return any("::" in str(ipam) for ipam in ipams)


def _is_writable(mount: str) -> bool:
    return not os.statvfs(mount).f_flag & os.ST_RDONLY


def _decoded(stdin: bytes) -> dict[str, Any]:
    try:
        raw = json.loads(stdin)
    except (ValueError, RecursionError):
        return {}
    return raw if isinstance(raw, dict) else {}


def _is_gone(plugin: socket) -> bool:
    """Whether the plugin has closed its end: it sends nothing more, so that anything to read is the end."""
    poll = select.poll()
    poll.register(plugin, select.POLLIN | select.POLLRDHUP)
    return bool(poll.poll(0))


def _tell(plugin: socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # it is gone, and what was done stays done: it finds that out by itself
        plugin.sendall(data)


def _finished(task: _Task, raw: dict[str, Any], code: int, out: str) -> Finished:
    document = _decoded(out.encode(errors="surrogateescape"))
    args = dict(pair.partition("=")[::2] for pair in task.env.get("CNI_ARGS", "").split(";") if "=" in pair)
    return Finished(
        verb=task.env.get("CNI_COMMAND", ""),
        network=str(raw.get("name", "")),
        container=task.env.get("CNI_CONTAINERID", ""),
        ifname=task.env.get("CNI_IFNAME", ""),
        netns=task.env.get("CNI_NETNS", ""),
        args=args,
        state_dir=state_dir(raw),
        code=int(document.get("code", Code.INTERNAL)) if code else 0,
        message=str(document.get("msg", "")) if code else "",
        result=document if document and not code else None,
        seconds=time.monotonic() - task.arrived,
    )


def _trace(arrived: float, began: float) -> str:
    now = time.monotonic()
    parts = {"queued": began - arrived, **stopwatch.spent()}
    parts["rest"] = now - arrived - sum(parts.values())
    return (
        " ".join(f"{name} {1e3 * seconds:.2f}" for name, seconds in parts.items()) + f" ms {1e3 * (now - arrived):.2f}"
    )
