"""Commands and signals: nothing that the demo starts outlives it.

A signal sets a flag and no more; the demo looks at it between steps and while it waits. Commands that change
something are short and always run to their end, so that clean-up knows what there is; the long one, ``mpirun``, is
ended with all that it started.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nccltest.launch import process as launched

_POLL = 0.05
_GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL: mpirun ends its daemons in between."""


class SignalledError(Exception):
    """A signal asked the demo to end."""


class CommandError(Exception):
    """A command failed, or took too long. The text says which and what it printed."""


class Signals(launched.Signals):
    """The probe's flag for SIGINT, SIGTERM and SIGHUP, and what a demo does with it besides."""

    def check(self) -> None:
        """Raise SignalledError if a signal came."""
        if self.received:
            raise SignalledError(self.name)

    @property
    def name(self) -> str:
        """The signal that came."""
        return signal.Signals(self.received).name

    def ignore(self) -> None:
        """From here on nothing may interrupt, nor the commands started: clean-up runs to its end."""
        for number in self.WATCHED:
            signal.signal(number, signal.SIG_IGN)


class Done(NamedTuple):
    """A command that ended."""

    code: int
    stdout: str
    stderr: str


def run(
    words: Sequence[str],
    *,
    timeout: float,
    signals: Signals | None = None,
    env: Mapping[str, str] | None = None,
) -> Done:
    """Run a command in a session of its own, so that Ctrl-C reaches the demo alone.

    With ``signals`` a signal ends the command and raises SignalledError; without, the command is waited for.
    CommandError after ``timeout`` seconds. Output goes through files: a pipe would wait for every grandchild.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, start_new_session=True
        )
        try:
            in_time = _wait(child, timeout, signals)
        finally:
            if child.poll() is None:
                end(child)
        out.seek(0)
        err.seek(0)
        done = Done(child.returncode, out.read(), err.read())
    if not in_time:
        raise CommandError(f"{' '.join(words)}: no end after {timeout:g} s\n{done.stdout}{done.stderr}".rstrip())
    return done


def must(words: Sequence[str], *, timeout: float = 30, env: Mapping[str, str] | None = None) -> str:
    """Run a command to its end; its stdout. CommandError when it fails."""
    done = run(words, timeout=timeout, env=env)
    if done.code:
        raise CommandError(f"{' '.join(words)}: exit {done.code}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def _wait(child: subprocess.Popen[bytes], timeout: float, signals: Signals | None) -> bool:
    """Whether it ended in time."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            child.wait(_POLL)
        except subprocess.TimeoutExpired:
            if signals is not None:
                signals.check()
        else:
            return True
    return False


def end(child: subprocess.Popen[bytes]) -> None:
    """End a command's whole process group, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(_GRACE)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def inside(namespaces: frozenset[int], until: float = math.inf) -> list[int]:
    """The processes whose network namespace is one of ``namespaces`` (inode numbers), started by ``until``.

    ``until``: seconds since boot. A namespace's number may be another's as soon as it is gone.
    """
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{entry}/ns/net").st_ino in namespaces and _started(entry) <= until:
                found.append(int(entry))
        except OSError:
            continue  # it ended meanwhile
    return found


def _started(pid: str) -> float:
    """Seconds since boot: field 22 of proc_pid_stat(5), in ticks. The name before it may hold anything."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
