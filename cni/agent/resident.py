"""The life of the agent: start, serve, stop."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple

# What the workers shall have in memory when they are forked.
from cni import gpunames, inventory, kubelet, policy, rundir  # noqa: F401 - for pods with GPUs
from cni.agent import protocol
from cni.agent.background import Background
from cni.agent.crew import Crew
from cni.agent.notify import Notifier
from cni.agent.parts import Setting
from cni.agent.server import Server, listen
from cni.agent.worker import Report
from cni.commands import add, check, delete, gc, status  # noqa: F401 - warmed for the workers
from cni.lifecycle import open_store

__all__ = ["DRAIN", "Agent", "Options"]

DRAIN = 20.0
"""Seconds that requests in flight have to end after SIGTERM."""

_log = logging.getLogger("roceway-agent")


class Options(NamedTuple):
    """How to run."""

    setting: Setting
    workers: int
    trace: bool


class Agent:
    """The main process."""

    def __init__(self, options: Options, env: dict[str, str]) -> None:
        self._options = options
        self._setting = options.setting
        self._notifier = Notifier(env)
        self._born = time.time()
        self._told = 0.0
        self._stopping = False
        self._server: Server | None = None
        self._wakeup, self._signalled = socket.socketpair()
        self._background = Background(self._setting, self._leave_to_main)
        self._crew: Crew | None = None

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT. HostError when it cannot begin."""
        self._prepare_state()
        self._catch_signals()
        self._background.start()
        self._crew = Crew(self._setting, self._options.workers, self._leave_to_main)
        listening = listen(self._setting.socket)
        self._server = Server(listening, self._crew, self._heard, self.status)
        self._server.watch(self._wakeup, self._signal)
        self._watch_background()
        _log.info("serving on %s", self._setting.socket)
        self._notifier.ready(f"serving on {self._setting.socket}")
        while not self._stopping:
            self._turn()
        self._stop()
        return 0

    @property
    def _serving(self) -> Server:
        assert self._server is not None  # noqa: S101 - made before the loop
        return self._server

    def status(self) -> dict[str, Any]:
        """What a status request is answered."""
        assert self._crew is not None  # noqa: S101 - asked by way of the server
        return {
            "release": protocol.RELEASE,
            "protocol": protocol.PROTOCOL,
            "pid": os.getpid(),
            "ready": self._serving.is_alive and not self._stopping,
            "uptime_s": round(time.time() - self._born),
            "socket": self._setting.socket,
            "state_dir": self._setting.state_dir,
            "conf_dir": self._setting.options.get("conf_dir") or "",
            "node": self._setting.node,
            "workers": len(self._crew.workers),
            "workers_lost": self._crew.lost,
            "served": self._serving.served,
            "refused": self._serving.refused,
            "reports_dropped": self._background.dropped,
            "parts": self._background.problems,
        }

    def _prepare_state(self) -> None:
        """The folder must be there before the first plugin says what it sees; one that a kubelet made is 0755."""
        store = open_store(self._setting.state_dir, create=True)
        if store is not None:
            store.close()
        os.chmod(self._setting.state_dir, 0o700)

    def _catch_signals(self) -> None:
        self._wakeup.setblocking(False)
        self._signalled.setblocking(False)
        signal.set_wakeup_fd(self._signalled.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _signal(self) -> None:
        with suppress(BlockingIOError):
            if set(self._wakeup.recv(64)) & {signal.SIGTERM, signal.SIGINT}:
                self._stopping = True

    def _leave_to_main(self) -> None:
        """In a forked child: let go of everything that is the main process's."""
        signal.set_wakeup_fd(-1)
        self._wakeup.close()
        self._signalled.close()
        if self._background.channel is not None:
            self._background.channel.close()
        if self._server is not None:
            for each in self._server.descriptors():
                each.close()
            self._server.forget_selector()
        for worker in self._crew.workers if self._crew else []:
            worker.channel.close()

    def _turn(self) -> None:
        self._serving.turn()
        if self._background.is_due():
            self._background.start()
            self._watch_background()
        if self._notifier.interval and time.monotonic() - self._told >= self._notifier.interval / 2:
            self._told = time.monotonic()
            if self._serving.is_alive:
                self._notifier.alive()

    def _watch_background(self) -> None:
        channel = self._background.channel
        assert channel is not None  # noqa: S101 - just started

        def act() -> None:
            if not self._background.hear():
                self._serving.unwatch(channel)
                self._background.lost()

        self._serving.watch(channel, act)

    def _heard(self, report: Report) -> None:
        finished = report.finished
        if finished is None:
            _log.info("left to the plugin: %s", report.refused)
            return
        self._background.tell(finished)
        fields = {
            "verb": finished.verb,
            "container": finished.container,
            "pod": finished.args.get("K8S_POD_NAME", ""),
            "code": finished.code,
            "message": finished.message,
            "ms": round(1e3 * finished.seconds, 2),
            "where": report.trace if self._options.trace else "",
        }
        _log.info("%s", json.dumps({name: value for name, value in fields.items() if value != ""}))

    def _stop(self) -> None:
        """Finish what was begun, bounded in time."""
        assert self._crew is not None  # noqa: S101 - made before the loop
        server = self._serving
        _log.info("stopping")
        self._notifier.stopping()
        server.stop_accepting()
        deadline = time.monotonic() + DRAIN
        while server.busy and time.monotonic() < deadline:
            server.turn(0.1)
        self._crew.close(max(0.5, deadline - time.monotonic()))
        self._background.stop()
        sys.stderr.flush()
