"""Commands end, in time or by force, with everything that they started; signals wait for a good moment."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.demo.process import CommandError, SignalledError, Signals, inside, must, run


def gone(pid: int) -> bool:
    """Whether a process has ended, within a second. A zombie has: whose init reaps it late is not ours."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_a_failure_shows_command_and_output() -> None:
    with pytest.raises(CommandError, match=r"sh -c .*: exit 3\nout\nerr"):
        must(["sh", "-c", "echo out; echo err >&2; exit 3"])


def test_what_takes_too_long_ends_with_its_children() -> None:
    with pytest.raises(CommandError, match=r"no end after 0\.3 s") as refusal:
        run(["sh", "-c", "sleep 60 & echo $!; wait"], timeout=0.3)
    child = int(str(refusal.value).splitlines()[-1])
    assert gone(child)


def test_a_child_deaf_to_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.demo.process._GRACE", 0.2)
    start = time.monotonic()
    with pytest.raises(CommandError):
        run(["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], timeout=0.2)
    assert time.monotonic() - start < 3


def test_output_of_a_daemon_that_stays_is_not_waited_for() -> None:
    start = time.monotonic()
    done = run(["sh", "-c", "setsid sleep 5 & echo $!"], timeout=3)
    assert time.monotonic() - start < 2
    os.kill(int(done.stdout), signal.SIGKILL)


def test_a_signal_ends_what_listens_and_nothing_else() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Signals() as signals:
        signals.check()
        os.kill(os.getpid(), signal.SIGTERM)
        assert run(["echo", "still here"], timeout=5).stdout == "still here\n"
        with pytest.raises(SignalledError, match="SIGTERM"):
            run(["sleep", "60"], timeout=5, signals=signals)
        with pytest.raises(SignalledError, match="SIGTERM"):
            signals.check()
    assert signal.getsignal(signal.SIGTERM) is before


def test_clean_up_and_its_commands_are_deaf_to_signals() -> None:
    with Signals() as signals:
        signals.ignore()
        os.kill(os.getpid(), signal.SIGINT)
        done = run(["sh", "-c", "kill -INT $$; kill -TERM $$; echo alive"], timeout=5)
        assert done == (0, "alive\n", "")
        signals.check()


def test_a_process_that_came_later_is_not_one_that_was_left_in_a_namespace() -> None:
    own = frozenset({os.stat("/proc/self/ns/net").st_ino})
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    time.sleep(0.05)  # start times are told in hundredths of a second
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert child.pid in inside(own)
        assert child.pid not in inside(own, before)
        assert os.getpid() in inside(own, before)
    finally:
        child.kill()
        child.wait()
