"""The demo from end to end, and interrupted. Nothing of it may be left on the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo import podman
from tests.world import ROOT

_REASON = podman.problem()

pytestmark = [
    pytest.mark.podman,
    pytest.mark.netns,
    pytest.mark.skipif(bool(_REASON), reason=_REASON or "podman can be the caller"),
]

_SHARED = ("/run/netns", "/var/lib/cni/results", "/dev/shm")
_CGROUPS = Path("/sys/fs/cgroup")


class Run:
    """One demo in a session of its own, as a terminal starts it, with a folder for temporary files of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = shared()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.demo", "--quick"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},
            start_new_session=True,
        )

    def wait_for(self, text: str) -> None:
        """Read until a line holds ``text``."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError(f"no {text!r} in the demo's output: {self.process.communicate()}")

    def left(self) -> list[str]:
        """What there is of this run: files, mounts, processes; namespaces, CNI results and cgroups."""
        names = (f"rw{self.process.pid}-", "netns-", "lab-", "libpod")
        found = [each for each in shared() - self._before if any(name in each for name in names)]
        found += [str(path) for path in self._folder.rglob("*")]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return [*found, *(line for line in mounts if str(self._folder) in line), *self._processes()]

    def _processes(self) -> list[str]:
        """Whatever has the folder in its command line or environment."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                told = Path("/proc", entry, "cmdline").read_bytes() + Path("/proc", entry, "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(self._folder) in told:
                found.append(f"process {entry} {told[:80]!r}")
        return found


def shared() -> set[str]:
    """What is on this machine in the places where runtimes leave things."""
    found = {f"{folder}/{name}" for folder in _SHARED if os.path.isdir(folder) for name in os.listdir(folder)}
    return found | {
        str(path) for name in ("rw*", "libpod*") for top in ("", "*/") for path in _CGROUPS.glob(top + name)
    }


@pytest.fixture
def demo() -> Iterator[Run]:
    # Not pytest's own folder: socket paths have to be short.
    with tempfile.TemporaryDirectory(prefix="rw-") as folder:
        run = Run(Path(folder))
        yield run
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGTERM)
            run.process.communicate(timeout=60)


def test_it_finds_the_throttled_rail_and_leaves_nothing(demo: Run) -> None:
    out, err = demo.process.communicate(timeout=240)
    assert demo.process.returncode == 0, f"{out}\n{err}"
    assert err == ""
    assert "Verdict: nic host2/rail1." in out
    assert "nothing left: " in out
    assert "correct" in out
    assert "\x1b" not in out
    assert demo.left() == []


def test_the_look_for_leftovers_is_not_blind(demo: Run) -> None:
    demo.wait_for("pod3 runs")
    time.sleep(0.5)
    found = "\n".join(demo.left())
    for what in ("/run/netns/rw", "/run/netns/netns-", "results/lab-", "/sys/fs/cgroup", "shm", "conmon", "mpirun"):
        assert what in found


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("4 hosts", signal.SIGINT),
        ("pod1 runs", signal.SIGINT),
        ("pod3 runs", signal.SIGTERM),
        ("rail0: ", signal.SIGINT),
    ],
)
def test_interrupted_it_removes_everything(demo: Run, moment: str, number: signal.Signals) -> None:
    demo.wait_for(moment)
    time.sleep(0.3)  # into the next step, not between two
    os.killpg(demo.process.pid, number)  # as a terminal does
    _, err = demo.process.communicate(timeout=60)
    assert demo.process.returncode == 128 + number
    assert err == f"demo: {number.name}: everything was removed\n"
    assert demo.left() == []
