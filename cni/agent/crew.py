"""The agent's workers as its main process sees them: forked, given work, heard, dismissed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable

from cni.agent.children import reap
from cni.agent.parts import Finished, Setting
from cni.agent.worker import LENGTH, TASK, Report, serve

__all__ = ["Crew", "Worker"]

KEEP = 2
"""Workers that wait even when nothing happens; each is 8 MiB of memory of its own."""
IDLE = 60.0
"""Seconds without work after which a further one may go."""
_DELAY_MAX = 10.0
_GIVE_WAIT = 1.0  # seconds: a free worker reads at once
_REPORT_MAX = 8 << 20


class Worker:
    """One worker process and the socket to it."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self.busy = False
        self.has_worked = False
        """Whether it ever took a request."""
        self.since = time.monotonic()
        """CLOCK_MONOTONIC when it was given what it works on, or worked on last."""
        self._heard = bytearray()

    def give(self, arrived: float, flags: int, data: bytes, plugin: socket.socket) -> bool:
        """Hand a request over; False when the worker does not take it."""
        self.busy, self.has_worked, self.since = True, True, time.monotonic()
        self.channel.settimeout(_GIVE_WAIT)
        try:
            socket.send_fds(self.channel, [TASK.pack(arrived, flags, len(data))], [plugin.fileno()])
            self.channel.sendall(data)
        except OSError:
            return False
        finally:
            self.channel.setblocking(False)
        return True

    def reports(self) -> list[Report]:
        """What it has reported. OSError when it is gone, ValueError when it talks nonsense."""
        with contextlib.suppress(BlockingIOError):
            data = self.channel.recv(1 << 16)
            if not data:
                raise ConnectionResetError
            self._heard += data
        reports = []
        while len(self._heard) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._heard)
            if length > _REPORT_MAX:
                raise ValueError(f"a report of {length} bytes")
            end = LENGTH.size + length
            if len(self._heard) < end:
                break
            reports.append(_report(bytes(self._heard[LENGTH.size : end])))
            del self._heard[:end]
            self.busy = False
        return reports


def _report(data: bytes) -> Report:
    refused, trace, finished = json.loads(data)
    return Report(refused, trace, Finished(*finished) if finished else None)


class Crew:
    """All workers: KEEP of them always, up to ``most`` while there is work for them.

    ``in_child`` runs first in a forked worker and closes what belongs to the main process.
    """

    def __init__(self, setting: Setting, most: int, in_child: Callable[[], None]) -> None:
        self._setting = setting
        self._in_child = in_child
        self._most = most
        self.workers: list[Worker] = []
        self.lost = 0
        """Workers that died or had to be killed."""
        self._leaving: set[int] = set()
        self._delay = 0.0
        self._again = 0.0
        for _ in range(min(most, KEEP)):
            self.hire()

    @property
    def may_hire(self) -> bool:
        """Whether there may be another one now."""
        return len(self.workers) < self._most and time.monotonic() >= self._again

    @property
    def is_short(self) -> bool:
        """Whether there are fewer than always should be, and may be another one now."""
        return len(self.workers) < KEEP and self.may_hire

    def spare(self) -> Worker | None:
        """One that nobody has needed for a while, beyond those that are kept."""
        idle = [worker for worker in self.workers if not worker.busy]
        if len(self.workers) <= KEEP or not idle:
            return None
        longest = min(idle, key=lambda worker: worker.since)
        return longest if time.monotonic() - longest.since > IDLE else None

    def free(self) -> Worker | None:
        """A worker without work; the one that had it last, whose caches are warm."""
        idle = [worker for worker in self.workers if not worker.busy]
        return max(idle, key=lambda worker: worker.since) if idle else None

    def hire(self) -> Worker:
        """Fork a worker."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pid = os.fork()
        if pid == 0:
            self._become(theirs, ours)
        theirs.close()
        ours.setblocking(False)
        worker = Worker(pid, ours)
        self.workers.append(worker)
        return worker

    def _become(self, channel: socket.socket, other_end: socket.socket) -> None:
        """In the child, for the rest of its life."""
        code = 70
        try:
            other_end.close()
            for worker in self.workers:
                worker.channel.close()
            self._in_child()
            serve(channel, self._setting)
            code = 0
        except BaseException:  # noqa: BLE001 - the process ends here whatever it was
            traceback.print_exc()
        finally:
            os._exit(code)

    def dismiss(self, worker: Worker) -> None:
        """Kill a worker and forget it. What it was doing is in the journal, and its locks are gone with it.

        The next one is hired at once, unless this one died without having done anything: then later each time.
        """
        self.lost += 1
        self._delay = 0.0 if worker.has_worked else min(max(2 * self._delay, 0.1), _DELAY_MAX)
        self._again = time.monotonic() + self._delay
        self.let_go(worker)
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)

    def let_go(self, worker: Worker) -> None:
        """Forget a worker; it ends by itself when it reads that."""
        self.workers.remove(worker)
        worker.channel.close()
        self._leaving.add(worker.pid)

    def reap(self) -> None:
        """Take note of dismissed workers that have ended. One may be stuck in the kernel for long."""
        self._leaving = {pid for pid in self._leaving if not reap(pid, 0)}

    def close(self, wait: float) -> None:
        """Let all go: each ends with its request. Those still there after ``wait`` seconds are killed."""
        for worker in self.workers:
            worker.channel.close()
        deadline = time.monotonic() + wait
        for worker in self.workers:
            if not reap(worker.pid, max(0.0, deadline - time.monotonic())):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
                reap(worker.pid, 1.0)
        self.workers.clear()
