"""The agent's main process: accepts and reads requests, gives each to a free worker, watches over both.

Single-threaded, never blocked by a plugin: requests are read as they come and only whole ones go to a worker, so a
slow or silent plugin holds a descriptor for a second and nothing else. Who asks must be root (SO_PEERCRED).
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cni.agent import protocol
from cni.agent.crew import Crew, Worker
from cni.agent.protocol import ANSWER, BEGUN, REFUSED, frame
from cni.agent.worker import Report
from host.errors import HostError

__all__ = ["Server", "listen"]

READ_WAIT = 1.0
"""Seconds in which a request must have arrived."""
QUEUE_WAIT = 10.0
"""Seconds for a worker to become free; the plugin does better itself after that."""
WORK_WAIT = 30.0
"""Seconds for a verb: locks are waited for up to 15. A worker that takes longer is killed, as a runtime would."""
_PLUGINS_MAX = 128
_BACKLOG = 128
_TICK = 0.5
_RECEIVE = 1 << 16
_PEERCRED = struct.Struct("=3i")

_log = logging.getLogger("roceway-agent")


def listen(path: str) -> socket.socket:
    """A listening socket that replaces whatever is at ``path`` by a rename: no instant without one.

    HostError when it cannot be made. Mode 0600 before it has its name.
    """
    fresh = f"{path}.{os.getpid()}"
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        before = os.umask(0o177)
        try:
            server.bind(fresh)
        finally:
            os.umask(before)
        server.listen(_BACKLOG)
        os.rename(fresh, path)
    except OSError as error:
        server.close()
        raise HostError("listen on", path, error.errno or 0) from error
    return server


class Plugin:
    """One connection: a plugin that reads its answer from it sooner or later."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.arrived = time.monotonic()
        self.data = bytearray()
        self.header: protocol.Header | None = None

    @property
    def missing(self) -> int:
        """Bytes that the request still lacks, as far as is known."""
        fixed = protocol.HEADER.size
        whole = fixed if self.header is None else fixed + self.header.environment + self.header.stdin
        return whole - len(self.data)

    def take(self, data: bytes) -> None:
        """More of the request. ValueError when it is none that this agent serves."""
        self.data += data
        if self.header is None and len(self.data) == protocol.HEADER.size:
            self.header = protocol.header(bytes(self.data))

    def say(self, data: bytes) -> None:
        """A frame, without waiting: the socket's buffer is empty or its reader is gone."""
        with suppress(OSError):
            self.socket.send(data)


class Server:
    """Requests in, answers out. ``heard`` gets every report; ``status`` says what a status request is answered."""

    def __init__(
        self,
        listening: socket.socket,
        crew: Crew,
        heard: Callable[[Report], None],
        status: Callable[[], dict[str, Any]],
    ) -> None:
        self._listening: socket.socket | None = listening
        self._crew = crew
        self._heard = heard
        self._status = status
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ, self._accept)
        self._reading: dict[socket.socket, Plugin] = {}
        self._queue: deque[Plugin] = deque()
        self._working: dict[int, Plugin] = {}
        self._is_full = False
        self.served = 0
        self.refused = 0
        for worker in crew.workers:
            self._watch(worker)

    # what others need to know

    @property
    def busy(self) -> bool:
        """Whether any request is in flight."""
        return bool(self._reading or self._queue or self._working)

    @property
    def is_alive(self) -> bool:
        """Whether requests are being answered: a worker is there and none waits for longer than it may."""
        return bool(self._crew.workers) and not any(
            time.monotonic() - worker.since > WORK_WAIT + _TICK * 4 for worker in self._crew.workers if worker.busy
        )

    def descriptors(self) -> list[socket.socket]:
        """What a forked child must close, so that only this process holds connections."""
        plugins = [*self._reading, *(each.socket for each in self._queue), *(p.socket for p in self._working.values())]
        return [*plugins, *([self._listening] if self._listening else [])]

    def forget_selector(self) -> None:
        """In a forked child: the descriptor of epoll is shared with the parent and must not outlive it."""
        self._selector.close()

    def watch(self, source: socket.socket, act: Callable[[], None]) -> None:
        """Call ``act`` whenever ``source`` is readable."""
        self._selector.register(source, selectors.EVENT_READ, lambda _: act())

    def unwatch(self, source: socket.socket) -> None:
        """No longer."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(source)

    # the loop

    def turn(self, wait: float = _TICK) -> None:
        """Wait for events and handle them; then look after what took too long."""
        for key, _ in self._selector.select(wait):
            if self._selector.get_map().get(key.fd) is key:  # not closed by what came before it in this turn
                key.data(key.fileobj)
        self._look_after_times()
        self._crew.reap()

    def stop_accepting(self) -> None:
        """No new requests; those already connected are still served.

        The name stays: it refuses connections at once, and it may be a newer agent's by now.
        """
        if self._listening is None:
            return
        self._accept(self._listening)
        self.unwatch(self._listening)
        self._listening.close()
        self._listening = None

    def _accept(self, listening: socket.socket) -> None:
        while self._has_room:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connection.setblocking(False)
            if not _is_root(connection):
                _log.warning("refused a connection that is not root's")
                connection.close()
                continue
            self._reading[connection] = Plugin(connection)
            self._selector.register(connection, selectors.EVENT_READ, self._read)
            self._read(connection)  # usually the whole request is there already
        self._is_full = True  # until there is room again the kernel's queue holds the others
        self.unwatch(listening)

    @property
    def _has_room(self) -> bool:
        return len(self._reading) + len(self._queue) < _PLUGINS_MAX

    def _read(self, connection: socket.socket) -> None:
        plugin = self._reading[connection]
        try:
            while plugin.missing > 0:
                data = connection.recv(min(plugin.missing, _RECEIVE))
                if not data:
                    raise ConnectionResetError  # it left before it had said everything
                plugin.take(data)
        except BlockingIOError:
            return  # the rest comes later, or READ_WAIT ends it
        except OSError:
            self._drop(plugin)
        except ValueError as error:
            self._refuse(plugin, str(error))
        else:
            self._begin(plugin)

    def _begin(self, plugin: Plugin) -> None:
        del self._reading[plugin.socket]
        assert plugin.header is not None  # noqa: S101 - the request is complete
        start = protocol.HEADER.size
        env = protocol.variables(bytes(plugin.data[start : start + plugin.header.environment]))
        if "ROCEWAY_STATUS" in env:
            self._selector.unregister(plugin.socket)
            plugin.say(frame(ANSWER, b"\0" + json.dumps(self._status()).encode()))
            plugin.socket.close()
            return
        plugin.say(frame(BEGUN))
        self._selector.modify(plugin.socket, selectors.EVENT_READ, self._abandoned)
        self._queue.append(plugin)
        self._hand_out()

    def _abandoned(self, connection: socket.socket) -> None:
        """A plugin that waits in the queue or for its worker has closed: the worker finds out by itself."""
        self._selector.unregister(connection)
        for plugin in [each for each in self._queue if each.socket is connection]:
            self._queue.remove(plugin)
            connection.close()

    def _hand_out(self) -> None:
        while self._queue:
            worker = self._crew.free()
            if worker is None and self._crew.may_hire:
                worker = self._hire()
            if worker is None and not self._crew.workers:
                self._refuse(self._queue.popleft(), "no worker lives")
                continue
            if worker is None:
                return
            plugin = self._queue.popleft()
            assert plugin.header is not None  # noqa: S101 - only whole requests are queued
            if worker.give(plugin.arrived, plugin.header.flags, bytes(plugin.data), plugin.socket):
                self._working[worker.pid] = plugin
                plugin.data.clear()
            else:
                self._queue.appendleft(plugin)
                self._lost(worker)

    # workers

    def _watch(self, worker: Worker) -> None:
        self._selector.register(worker.channel, selectors.EVENT_READ, lambda _: self._hear(worker))

    def _hear(self, worker: Worker) -> None:
        try:
            reports = worker.reports()
        except (OSError, ValueError):
            self._lost(worker)
            return
        for report in reports:
            self._finish(worker, report)
        self._hand_out()

    def _finish(self, worker: Worker, report: Report) -> None:
        plugin = self._working.pop(worker.pid, None)
        if plugin is not None:
            self._close(plugin)
        self.served += not report.refused
        self.refused += bool(report.refused)
        self._heard(report)

    def _lost(self, worker: Worker) -> None:
        """A worker died, or is not to be used any more: its plugin is told by the end of its connection."""
        _log.warning("worker %d is gone; the plugin that it worked for goes on by itself", worker.pid)
        with suppress(KeyError, ValueError):
            self._selector.unregister(worker.channel)
        plugin = self._working.pop(worker.pid, None)
        self._crew.dismiss(worker)
        if plugin is not None:
            self._close(plugin)
        if self._crew.is_short:
            self._hire()
        self._hand_out()

    def _hire(self) -> Worker:
        worker = self._crew.hire()
        self._watch(worker)
        return worker

    def _look_after_times(self) -> None:
        now = time.monotonic()
        for plugin in [each for each in self._reading.values() if now - each.arrived > READ_WAIT]:
            self._drop(plugin)
        while self._queue and now - self._queue[0].arrived > QUEUE_WAIT:
            self._refuse(self._queue.popleft(), "all workers are busy")
        for worker in [each for each in self._crew.workers if each.busy and now - each.since > WORK_WAIT]:
            _log.error("worker %d has worked for %.0f s on one request: killed", worker.pid, WORK_WAIT)
            self._lost(worker)
        spare = self._crew.spare()
        if spare is not None:
            self.unwatch(spare.channel)
            self._crew.let_go(spare)
        if self._crew.is_short:
            self._hire()
        if self._is_full and self._has_room and self._listening is not None:
            self._is_full = False
            self._selector.register(self._listening, selectors.EVENT_READ, self._accept)

    # ends

    def _refuse(self, plugin: Plugin, reason: str) -> None:
        self.refused += 1
        _log.info("refused: %s", reason)
        plugin.say(frame(REFUSED, reason.encode()))
        self._drop(plugin)

    def _drop(self, plugin: Plugin) -> None:
        self._reading.pop(plugin.socket, None)
        self._close(plugin)

    def _close(self, plugin: Plugin) -> None:
        self.unwatch(plugin.socket)
        plugin.socket.close()


def _is_root(connection: socket.socket) -> bool:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    return bool(_PEERCRED.unpack(raw)[1] == 0)
