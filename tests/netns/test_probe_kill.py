"""Whatever happens to a run, no process is left on any host, and one clear record says what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.netns.probe_lab import ProbeLab

HANG = f"[{sys.executable}, -m, tests.netns.probe_hang]"


@pytest.fixture
def lab() -> Iterator[ProbeLab]:
    with ProbeLab(2, rails=1) as made:
        yield made
        for pid in made.processes():  # only where a test failed, or a host was dead
            os.kill(pid, signal.SIGKILL)


def within(seconds: float, true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return true()


def fabric(lab: ProbeLab, *, hang: bool = False, timeout: str = "60s", size: str = "1MiB") -> Path:
    path = lab.write_fabric(repeats=1, matchings=1, timeout=timeout, size=size)
    if hang:
        path.write_text(path.read_text().replace("benchmark: mpi", f"benchmark: {HANG}"))
    return path


def start(lab: ProbeLab, path: Path) -> subprocess.Popen[str]:
    """A run whose ranks are at work on both hosts."""
    probe = lab.start("run", *lab.files(path), "--no-confirm")
    assert within(30, lambda: ranks(lab) >= 2), probe.communicate(timeout=30)
    return probe


def ranks(lab: ProbeLab) -> int:
    commands = [command(pid) for pid in lab.processes()]
    return sum("probe_hang" in each or "mpi_allreduce" in each for each in commands)


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def test_a_hung_rank_is_a_timeout_and_leaves_nothing(lab: ProbeLab) -> None:
    done = lab.probe("run", *lab.files(fabric(lab, hang=True, timeout="8s")), "--no-confirm")
    assert done.returncode == 1
    (record,) = lab.recorded()
    assert (record.status, record.busbw, record.unreachable) == ("timeout", None, ())
    assert record.errors[0].startswith("timeout after 8 s") or record.errors[0].startswith("timeout after")
    assert within(5, lambda: not lab.processes()), [command(pid) for pid in lab.processes()]
    assert record.seconds < 8 + 2 * 5 + 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("hang", [False, True])
def test_interrupted_it_leaves_nothing_and_says_so(lab: ProbeLab, number: signal.Signals, hang: bool) -> None:
    probe = start(lab, fabric(lab, hang=hang, size="64MiB"))
    probe.send_signal(number)
    _, err = probe.communicate(timeout=30)
    assert probe.returncode == 3, err
    (record,) = lab.recorded()
    assert (record.status, record.busbw) == ("interrupted", None)
    assert within(5, lambda: not lab.processes()), [command(pid) for pid in lab.processes()]


def test_killed_it_loses_nothing_measured_and_its_ranks_end(lab: ProbeLab) -> None:
    state = lab.folder / "state"
    done = lab.probe("run", *lab.files(fabric(lab)), "--no-confirm")
    assert done.returncode == 0, done.stderr
    before = lab.recorded()
    assert len(before) == 1
    probe = start(lab, fabric(lab, size="64MiB"))
    probe.kill()
    probe.communicate(timeout=30)
    assert within(20, lambda: not lab.processes()), [command(pid) for pid in lab.processes()]
    assert lab.recorded() == before
    # Killed while it wrote: the cut line is dropped by the next run, and nothing else.
    (day,) = state.glob("*.jsonl")
    with day.open("a") as file:
        file.write('{"test":"all_red')
    done = lab.probe("run", *lab.files(fabric(lab)), "--no-confirm")
    assert done.returncode == 0, done.stderr
    after = lab.recorded()
    assert after[0] == before[0]
    assert len(after) == 2


def test_a_host_that_is_lost_in_the_middle_is_named(lab: ProbeLab) -> None:
    probe = start(lab, fabric(lab, size="64MiB", timeout="12s"))
    lab.die("n1")
    _, err = probe.communicate(timeout=90)
    assert probe.returncode == 1, err
    (record,) = lab.recorded()
    assert record.status in ("timeout", "failed")
    assert record.unreachable == ("n1",)
    assert any("could not be ended on n1" in error for error in record.errors)
    inode = os.stat(lab.spaces["n0"].path).st_ino
    left = [pid for pid in lab.processes() if os.stat(f"/proc/{pid}/ns/net").st_ino == inode]
    assert left == []


def test_two_runs_do_not_meet(lab: ProbeLab) -> None:
    probe = start(lab, fabric(lab, size="64MiB"))
    second = lab.probe("run", *lab.files(fabric(lab)), "--no-confirm")
    assert second.returncode == 3
    assert "another run writes to" in second.stderr
    probe.send_signal(signal.SIGINT)
    probe.communicate(timeout=30)
