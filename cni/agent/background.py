"""The background process: everything of the agent that is not the fast path.

It may import what it likes, use threads and wait for others: it shares nothing with the workers but the database. Dies
it, the main process starts another; CNI requests do not notice.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cni.agent.children import reap
from cni.agent.parts import PARTS, Finished, Part, Setting, resolve

__all__ = ["Background", "live"]

_PACKET = 200 << 10  # bytes; a report of 32 rails is 10 KiB
_TELL_EVERY = 2.0  # seconds between two accounts of the parts' problems
_BACK_OFF_MAX = 60.0
_STOP_WAIT = 5.0

_log = logging.getLogger("roceway-agent")


class Background:
    """The background process as the main process sees it. ``in_child`` closes there what is the main process's."""

    def __init__(self, setting: Setting, in_child: Callable[[], None]) -> None:
        self._setting = setting
        self._in_child = in_child
        self._pid = 0
        self._leaving: set[int] = set()
        self._again = 0.0
        self._delay = 1.0
        self.channel: socket.socket | None = None
        self.problems: dict[str, str] = {}
        """Part to why it does not do its work; empty texts for those that do. As last heard."""
        self.dropped = 0
        """Reports that the process did not read in time."""

    def start(self) -> None:
        """Fork it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            code = 70
            try:
                ours.close()
                self._in_child()
                live(theirs, self._setting)
                code = 0
            except BaseException:  # noqa: BLE001 - the process ends here whatever it was
                _log.exception("the background process failed")
            finally:
                os._exit(code)
        theirs.close()
        ours.setblocking(False)
        self.channel = ours
        self._again = time.monotonic() + self._delay

    def tell(self, finished: Finished) -> None:
        """A request is done. Never waits; a process that is behind misses it, and sees the database."""
        if self.channel is None:
            return
        try:
            self.channel.send(json.dumps(finished).encode())
        except OSError:
            self.dropped += 1

    def hear(self) -> bool:
        """Read its account; False when it is gone."""
        assert self.channel is not None  # noqa: S101 - watched only while it is there
        try:
            data = self.channel.recv(_PACKET)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            return False
        with suppress(ValueError):
            self.problems = {str(name): str(text) for name, text in json.loads(data).items()}
        return True

    def lost(self) -> None:
        """It is gone: the next :meth:`look_after` starts it again, later each time that it dies at once."""
        _log.error("the background process ended; CNI requests are served all the same")
        if self.channel is not None:
            self.channel.close()
        self.channel = None
        self.problems = {"background": "ended; it is started again"}
        self._leaving.add(self._pid)
        quick = time.monotonic() < self._again + self._delay
        self._delay = min(self._delay * 2, _BACK_OFF_MAX) if quick else 1.0
        self._again = time.monotonic() + self._delay

    def is_due(self) -> bool:
        """Whether it is to be started again."""
        self._leaving = {pid for pid in self._leaving if not reap(pid, 0)}
        return self.channel is None and time.monotonic() >= self._again

    def stop(self) -> None:
        """End it: its parts stop when the channel closes."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None
        if self._pid and not reap(self._pid, _STOP_WAIT):
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            reap(self._pid, 1.0)


def live(channel: socket.socket, setting: Setting) -> None:
    """The background process itself, until the main process closes the channel."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the main process says when
    parts, problems = _started(setting)
    try:
        _listen(channel, parts, problems)
    finally:
        for part in reversed(parts):
            try:
                part.stop()
            except Exception:  # noqa: BLE001 - the others must stop as well
                _log.exception("%s did not stop", part.name)


def _started(setting: Setting) -> tuple[list[Part], dict[str, str]]:
    parts: list[Part] = []
    problems: dict[str, str] = {}
    for name in PARTS:
        try:
            part: Part = resolve(name)(setting)
            part.start()
        except Exception as error:  # noqa: BLE001 - one part must not take the others with it
            _log.exception("%s did not start; the agent goes on without it", name)
            problems[name] = f"did not start: {error}"
        else:
            parts.append(part)
    return parts, problems


def _listen(channel: socket.socket, parts: list[Part], problems: dict[str, str]) -> None:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    told = 0.0
    while True:
        if time.monotonic() - told >= _TELL_EVERY:
            told = time.monotonic()
            with suppress(BlockingIOError):
                account = {**problems, **{part.name: _problem(part) for part in parts}}
                channel.send(json.dumps(account).encode(), socket.MSG_DONTWAIT)
        if not poll.poll(1000 * _TELL_EVERY / 4):
            continue
        data = channel.recv(_PACKET)
        if not data:
            return
        finished = Finished(*json.loads(data))
        for part in parts:
            _call(part, finished)


def _problem(part: Part) -> str:
    try:
        return part.problem()
    except Exception as error:  # noqa: BLE001 - told, like any other problem
        return repr(error)


def _call(part: Part, finished: Any) -> None:
    try:
        part.after(finished)
    except Exception:  # noqa: BLE001 - one part must not take the others with it
        _log.exception("%s could not take note of a request", part.name)
