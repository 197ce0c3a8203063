"""A real agent for a test's host, and plugins as a runtime starts them."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from cni import install
from cni.agent import client
from tests.netns.support import within
from tests.world import PLUGIN, ROOT, Host

_START = 20.0  # seconds; usually 0.4, on a busy machine more


@functools.cache
def _compiled() -> Path | None:
    """Installed once for all tests of a run."""
    program = install.compiled()
    if program is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="roceway-plugin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    install.apply(install.plan_plugin(folder, program))
    return folder / "roceway-cni"


def program(kind: str) -> tuple[str, ...]:
    """``compiled`` or ``python``: the plugin as it is installed with and without a C compiler."""
    if kind == "python":
        return PLUGIN
    found = _compiled()
    if found is None:
        pytest.skip("no C compiler: .ci/setup installs one")
    return (str(found),)


class Agent:
    """One agent process in a host's namespace."""

    def __init__(self, host: Host, socket: Path | None = None) -> None:
        self.host = host
        self.socket = socket or host.world.folder / f"run{host.number}" / "agent.sock"
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.log = host.world.folder / f"agent-{time.monotonic_ns()}.log"

    def conf(self, conf: Mapping[str, Any]) -> dict[str, Any]:
        """A configuration that names this agent."""
        return {**conf, "agent": str(self.socket)}

    def status(self) -> dict[str, Any] | None:
        """What whoever serves the socket says."""
        return client.status(str(self.socket))

    def start(self, *more: str, env: Mapping[str, str] | None = None) -> None:
        """As a service manager starts it."""
        words = [sys.executable, "-m", "cni.agent", "run", "--socket", str(self.socket)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["nsenter", f"--net={self.host.ns.path}", "--", *words, "--state-dir", str(self.host.state), *more],
                stderr=log,
                cwd=ROOT,
                env={**os.environ, **(env or {})},
            )
        self.pid = self._process.pid  # nsenter becomes it
        self._await(ready=True)

    def fork(
        self,
        broken: Callable[[], AbstractContextManager[object]] = nullcontext,
        workers: int = 1,
        *,
        until_ready: bool = True,
    ) -> None:
        """In a forked child, with ``broken`` patched into it and its workers; a process group of its own.

        ``until_ready``: False where it is so broken that it may never be: then until it answers.
        """
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                os.setpgid(0, 0)
                signal.alarm(300)
                log = os.open(self.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
                os.dup2(log, 2)
                code = self._be(broken, workers)
            finally:
                os._exit(code)
        self._await(ready=until_ready)

    def _be(self, broken: Callable[[], AbstractContextManager[object]], workers: int) -> int:
        from cni.agent.parts import Setting
        from cni.agent.resident import Agent as Resident
        from cni.agent.resident import Options

        setting = Setting(str(self.socket), str(self.host.state), "", "test", {})
        with within(self.host.ns), broken():
            return Resident(Options(setting, workers, trace=False), {}).run()

    def _await(self, *, ready: bool) -> None:
        deadline = time.monotonic() + _START
        while time.monotonic() < deadline:
            told = self.status()
            if told is not None and told["pid"] == self.pid and (told["ready"] or not ready):
                return
            time.sleep(0.02)
        raise AssertionError(f"the agent did not start:\n{self.log.read_text()}")

    def children(self) -> list[int]:
        """Its processes: background first, then workers."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def signal(self, number: int) -> None:
        """To the main process."""
        os.kill(self.pid, number)

    def wait(self, seconds: float = 30.0) -> int:
        """Its end: exit code, or minus the signal."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            code = self._ended()
            if code is not None:
                self.pid = 0
                return code
            time.sleep(0.01)
        raise AssertionError(f"the agent does not end:\n{self.log.read_text()}")

    def _ended(self) -> int | None:
        if self._process is not None:
            return self._process.poll()
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def close(self) -> None:
        """Whatever state it is in."""
        if not self.pid:
            return
        for pid in (*self._children_if_any(), self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
        self.wait()

    def _children_if_any(self) -> list[int]:
        with contextlib.suppress(OSError):
            return self.children()
        return []


@contextmanager
def running(host: Host, *more: str) -> Iterator[Agent]:
    """An agent for the block."""
    agent = Agent(host)
    try:
        agent.start(*more)
        yield agent
    finally:
        agent.close()


def served(answer_stderr: str) -> bool:
    """Whether a plugin that was started with ``--trace`` got its answer from an agent."""
    return "roceway-agent: " in answer_stderr


def text(conf: Mapping[str, Any]) -> str:
    """For a plugin's stdin."""
    return json.dumps(conf)
