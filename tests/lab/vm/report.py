"""What a run left behind: outcomes as the guest told them one by one, trouble from its logs."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

KERNEL_COMPLAINT = re.compile(r"WARNING: |BUG: |Oops|general protection|blocked for more than|refcount|use-after-free")
LOGS = ("pytest.txt", "console.log", "qemu.log")


@dataclass(frozen=True)
class Outcome:
    """What became of one guest test."""

    status: Literal["passed", "failed", "skipped"]
    seconds: float
    text: str = ""


@dataclass
class Report:
    """A finished run. Seconds are those of the host's clock."""

    folder: Path
    """console.log, dmesg, pytest.txt, outcomes, report.json."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By ``file::test[parameters]``, file without its folder."""
    seconds: dict[str, float] = field(default_factory=dict)
    """set-up, boot, modules, tests, total."""
    cpu: float = 0.0
    """Processor seconds of QEMU and the file server: unlike the others the same on a busy machine. 0: not known."""
    trouble: str = ""
    """Why outcomes are missing or not to be trusted: the guest hung or crashed, its kernel complained."""

    def spent(self) -> str:
        """Seconds of each phase, processor seconds, and the load of this machine."""
        phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self.seconds.items())
        cpu = f"{self.cpu:.0f} s of processor time; " if self.cpu else ""
        return f"{phases}; {cpu}load {os.getloadavg()[1]:.1f}"


def read_outcomes(report: Report, trouble: str) -> None:
    """Fill in what the folder holds; ``trouble`` is what is known already."""
    path = report.folder / "outcomes"
    running = ""
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        name = record["test"].rpartition("/")[2]
        running = name if record["phase"] == "start" else "" if record["phase"] == "teardown" else running
        if record["phase"] != "start":
            report.outcomes[name] = _with(report.outcomes.get(name), record)
    report.trouble = trouble or _trouble(report)
    if running:
        report.outcomes[running] = Outcome("failed", 0.0, f"{report.trouble} during this test")
    if report.trouble:
        tails = (_tail(report.folder / name) for name in LOGS)
        report.trouble += (f" during {running}" if running else "") + "\n" + "\n".join(tails)


def _with(so_far: Outcome | None, record: dict[str, Any]) -> Outcome:
    """A test's outcome once one more of its phases (setup, call, teardown) is known: the worst of them."""
    if so_far is None:
        return Outcome(record["outcome"], record["seconds"], record["text"])
    worse = so_far.status == "passed" and record["outcome"] != "passed"
    status, text = (record["outcome"], record["text"]) if worse else (so_far.status, so_far.text)
    return Outcome(status, so_far.seconds + record["seconds"], text)


def _trouble(report: Report) -> str:
    if not (report.folder / "exit").exists():
        return "the guest ended early"
    if not report.outcomes:
        return "pytest ran nothing in the guest"
    complaint = _complaint(report.folder / "dmesg")
    return f"the guest's kernel complained: {complaint}" if complaint else ""


def _complaint(log: Path) -> str:
    """The first line in which the kernel speaks of a bug; empty when it does not."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return next((line for line in lines if KERNEL_COMPLAINT.search(line)), "")


def _tail(path: Path, characters: int = 3000) -> str:
    text = path.read_text(errors="replace").strip() if path.exists() else ""
    return f"--- end of {path.name} ---\n{text[-characters:]}" if text else ""
