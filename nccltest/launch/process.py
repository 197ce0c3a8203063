"""The door to processes: calls that run at the same time, each ended in time with everything that it started.

A call runs in a session of its own, so that Ctrl-C reaches the probe alone, and dies with the probe however that dies
(``setpriv --pdeathsig``: mpirun then ends its ranks). Output goes to a file: a pipe would wait for every grandchild.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Literal, NamedTuple, Self

__all__ = ["GRACE", "Ended", "Signals", "Task", "marked", "run_together", "sweep"]

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL: mpirun ends its daemons and ranks in between."""
MOST_OUTPUT = 256 << 20
"""Bytes; a call that prints more is ended."""
_READ = 64 << 20
_POLL = 0.05

How = Literal["ended", "timeout", "interrupted", "too much output", "not started"]


class Task(NamedTuple):
    """A call to run."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    """Its working directory and temporary folder; it exists."""
    timeout: float


class Ended(NamedTuple):
    """What became of it."""

    how: How
    code: int
    """Exit code; 128 + number for a signal."""
    text: str
    """stdout and stderr as they came."""
    seconds: float


class Signals:
    """SIGINT, SIGTERM and SIGHUP as a flag, so that what runs is ended in order. A context manager."""

    WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in self.WATCHED:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() itself returned

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = self.received or number

    def __call__(self) -> bool:
        """Whether one came."""
        return bool(self.received)


def run_together(tasks: Sequence[Task], parallel: int, stop: Callable[[], bool]) -> list[Ended]:
    """Run the tasks, ``parallel`` of them at a time; each result at its task's place.

    ``stop`` is asked all the time: once it says so, what runs is ended, and what has not begun is not started.
    """
    ended: dict[int, Ended] = {}
    running: dict[int, _Running] = {}
    waiting = list(enumerate(tasks))[::-1]
    try:
        while waiting or running:
            if stop():
                ended |= {place: each.end("interrupted") for place, each in _end_all(running)}
                ended |= {place: Ended("interrupted", 0, "", 0.0) for place, _ in waiting}
                return [ended[place] for place in range(len(tasks))]
            while waiting and len(running) < parallel:
                place, task = waiting.pop()
                started = _start(task)
                if isinstance(started, Ended):
                    ended[place] = started
                else:
                    running[place] = started
            for place in [place for place, each in running.items() if each.finished()]:
                ended[place] = running.pop(place).result()
            if running:
                time.sleep(_POLL)
    finally:
        for _, each in _end_all(running):
            each.end("interrupted")
    return [ended[place] for place in range(len(tasks))]


def _end_all(running: dict[int, _Running]) -> list[tuple[int, _Running]]:
    """Ask all to end before waiting for any."""
    taken = list(running.items())
    running.clear()
    for _, each in taken:
        each.ask()
    return taken


def _start(task: Task) -> _Running | Ended:
    out = (task.folder / "output").open("w+b")
    guard = ["setpriv", "--pdeathsig", "TERM", "--"] if shutil.which("setpriv") else []
    environment = {**os.environ, **task.environment, "TMPDIR": str(task.folder)}
    try:
        child = subprocess.Popen(
            [*guard, *task.words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        out.close()
        return Ended("not started", 127, f"roceway-probe: {task.words[0]}: {error.strerror or error}\n", 0.0)
    return _Running(child, out, task.timeout)


class _Running:
    def __init__(self, child: subprocess.Popen[bytes], out: IO[bytes], timeout: float) -> None:
        self._child = child
        self._out = out
        self._start = time.monotonic()
        self._deadline = self._start + timeout
        self._how: How = "ended"

    def finished(self) -> bool:
        """Whether it has ended, by itself or because it had to."""
        if self._child.poll() is not None:
            return True
        if time.monotonic() >= self._deadline:
            self._how = "timeout"
        elif os.fstat(self._out.fileno()).st_size > MOST_OUTPUT:
            self._how = "too much output"
        else:
            return False
        self._kill()
        return True

    def ask(self) -> None:
        """Ask it to end, without waiting."""
        self._signal(signal.SIGTERM)

    def end(self, how: How) -> Ended:
        """End it now."""
        if self._child.poll() is None:
            self._how = how
            self._kill()
        return self.result()

    def result(self) -> Ended:
        """What became of it; closes its output."""
        seconds = time.monotonic() - self._start
        with self._out:
            self._out.seek(0)
            text = self._out.read(_READ).decode(errors="replace")
        code = self._child.returncode
        return Ended(self._how, 128 - code if code < 0 else code, text, seconds)

    def _kill(self) -> None:
        """The whole process group, politely first."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            try:
                self._child.wait(GRACE)
            except subprocess.TimeoutExpired:
                continue
            break
        self._signal(signal.SIGKILL)  # its children, when it did not wait for them

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._child.pid, number)
        except ProcessLookupError:
            return


def marked(variable: str) -> list[int]:
    """Processes of this host whose environment holds ``NAME=value``; other users' are skipped."""
    wanted = variable.encode()
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                held = file.read().split(b"\0")
        except OSError:
            continue  # it ended meanwhile, or is not ours
        if wanted in held and int(entry) != os.getpid():
            found.append(int(entry))
    return found


def sweep(variable: str) -> int:
    """End every process of this host with ``NAME=value`` in its environment; how many there were."""
    found = marked(variable)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return len(found)
