"""One run of guest tests: set-up, boot, and how long everything took."""

from __future__ import annotations

import compileall
import itertools
import json
import os
import resource
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.lab.vm import boot, machine, module, software
from tests.lab.vm.cache import CACHE, CHECKOUT, LabError, UnavailableError
from tests.lab.vm.report import Report, read_outcomes

GUEST_TESTS = CHECKOUT / "tests" / "lab" / "guest"
LIMIT = 900.0
"""Seconds for a boot and all tests before the guest is killed: a busy machine is slow, only a hang is an error."""
PACKAGES = ("cni", "conf", "host", "nccltest", "tests", "tuner")
"""What guests import of this checkout."""
KEPT = 5
"""Runs whose logs are kept."""
PYTEST = ("-q", "-p", "no:cacheprovider", "--durations=5")
START = """\
cd {checkout}
: >/run/lab/booted
export ROCEWAY_LAB_SIMULATION={simulation}
{modules}
: >/run/lab/loaded
{command}
"""


def run_tests(
    selection: Sequence[str],
    say: Callable[[str], None] = lambda text: None,
    watch: Callable[[], None] = lambda: None,
) -> Report:
    """Run guest tests; ``selection`` is pytest's. ``say`` is given the guest's output as it comes.

    ``watch`` is called every now and then; what it raises ends the guest.
    """
    started, before = time.monotonic(), _cpu()
    folder = _new_folder()
    python = [sys.executable, "-m", "pytest", *PYTEST, *selection]
    clock = _Clock(folder, say)
    set_up = prepare(folder, f"{shlex.join(python)} >/run/lab/pytest.txt 2>&1")
    clock.start()

    def look() -> None:
        watch()
        clock.look()

    ended = boot.guest(set_up.machine, set_up.root, folder, limit=LIMIT, watch=look)
    clock.look()
    report = Report(folder, seconds={"set-up": clock.started - started, **clock.phases()})
    report.seconds["total"] = time.monotonic() - started
    report.cpu = _cpu() - before
    read_outcomes(report, "" if ended else f"the guest was killed after {LIMIT:.0f} s")
    (folder / "initramfs").unlink(missing_ok=True)
    (folder / "report.json").write_text(json.dumps(asdict(report), default=str, indent=1))
    return report


def shell(command: str = "") -> None:
    """A shell in the guest, after ``command``."""
    folder = _new_folder()
    inner = f"{command}\nsetsid --ctty --wait bash -i </dev/hvc0 >/dev/hvc0 2>&1"
    set_up = prepare(folder, f"stty -F /dev/hvc0 rows {_rows()} 2>/dev/null\n{inner}")
    boot.guest(set_up.machine, set_up.root, folder, limit=24 * 3600, interactive=True)


@dataclass(frozen=True)
class SetUp:
    """What a boot needs."""

    machine: machine.Machine
    root: software.Root


def prepare(folder: Path, command: str) -> SetUp:
    """Have everything that a boot needs, and put the guest's start script in place."""
    if os.uname().machine != "x86_64":
        raise UnavailableError("the lab's guest runs this machine's own programs on an x86-64 kernel")
    described = machine.load()
    root = software.get(described.software)
    simulation = f"insmod {shlex.quote(str(module.get(root)))} {machine.module_parameters(described)}"
    lines = [simulation if name == "simroce" else f"modprobe {name}" for name in described.modules]
    quoted = {"checkout": shlex.quote(str(CHECKOUT)), "simulation": shlex.quote(simulation)}
    script = START.format(modules="\n".join(lines), command=command, **quoted)
    (folder / "start").write_text(script)
    _compile()
    return SetUp(described, root)


def _compile() -> None:
    """Bytecode of this checkout, up to date: a guest needs twenty times as long for it. A file that is no Python is
    for its importer to complain of."""
    for package in PACKAGES:
        compileall.compile_dir(CHECKOUT / package, quiet=2)


class _Clock:
    """Notes when the guest's milestones appear, and passes its output on."""

    MARKS = {"boot": "booted", "modules": "loaded", "tests": "exit"}  # noqa: RUF012 - a constant

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._seen: dict[str, float] = {}
        self._read = 0
        self.started = 0.0

    def start(self) -> None:
        self.started = time.monotonic()

    def look(self) -> None:
        for phase, mark in self.MARKS.items():
            if phase not in self._seen and (self._folder / mark).exists():
                self._seen[phase] = time.monotonic()
        output = self._folder / "pytest.txt"
        if output.exists():
            with output.open(errors="replace") as file:
                file.seek(self._read)
                text = file.read()
                self._read = file.tell()
            if text:
                self._say(text)

    def phases(self) -> dict[str, float]:
        """Seconds of each phase that was completed."""
        times = [self.started, *self._seen.values()]
        return {
            phase: after - before for phase, (before, after) in zip(self._seen, itertools.pairwise(times), strict=True)
        }


def _new_folder() -> Path:
    """runs/<number>, the newest few being kept."""
    runs = CACHE / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    old = sorted((path for path in runs.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    for path in old[: -KEPT + 1]:
        if (path / "report.json").exists() or time.time() - path.stat().st_mtime > 2 * LIMIT:  # else it still runs
            shutil.rmtree(path, ignore_errors=True)
    for number in itertools.count(int(old[-1].name) + 1 if old else 1):
        try:
            (runs / str(number)).mkdir()
        except FileExistsError:
            continue
        return runs / str(number)
    raise LabError("unreachable")


def _cpu() -> float:
    """Processor seconds of children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rows() -> str:
    size = shutil.get_terminal_size()
    return f"{size.lines} cols {size.columns}"
