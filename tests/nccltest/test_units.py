"""The probe's unit and timer: systemd takes them, and they call the probe with options that it has."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from nccltest.history import DEFAULT
from tests.world import ROOT

DEPLOY = ROOT / "conf/deploy"
SERVICE, TIMER = DEPLOY / "roceway-probe.service", DEPLOY / "roceway-probe.timer"


def steps() -> list[argparse.Namespace]:
    """Each ExecStart as the command's own parser takes it."""
    made = []
    for line in re.findall(r"^ExecStart=(.*)$", SERVICE.read_text(), re.MULTILINE):
        program, command, *words = shlex.split(line)
        assert program == "/opt/roceway/bin/roceway-probe"
        parser = argparse.ArgumentParser(prog=command)
        parser.description = ""
        importlib.import_module(f"nccltest.commands.{command}").arguments(parser)
        made.append(parser.parse_args(words, argparse.Namespace(command=command)))
    return made


def test_it_runs_judges_reports_and_acts_on_one_file() -> None:
    run, judge, report, act = steps()
    assert [each.command for each in (run, judge, report, act)] == ["run", "judge", "report", "act"]
    assert run.fabric == judge.fabric == report.fabric == Path("/etc/roceway/fabric.yaml")
    assert str(run.output).startswith("${RUNTIME_DIRECTORY}/")  # which is new at every start
    assert {run.history, judge.history, report.history, act.history} == {DEFAULT}
    assert f"StateDirectory={DEFAULT.parent.relative_to('/var/lib')}\n" in SERVICE.read_text()


def test_a_slow_fabric_does_not_end_the_unit_before_it_is_told() -> None:
    assert "\nSuccessExitStatus=1\n" in SERVICE.read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_both(tmp_path: Path) -> None:
    for unit in (SERVICE, TIMER):
        text = unit.read_text().replace("/opt/roceway/bin/roceway-probe", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no"]
    done = subprocess.run([*words, str(tmp_path / TIMER.name)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "roceway" in line] == []
    when = re.findall(r"^OnCalendar=(.*)$", TIMER.read_text(), re.MULTILINE)
    calendar = subprocess.run(["systemd-analyze", "calendar", *when], capture_output=True, text=True, check=False)
    assert calendar.returncode == 0, calendar.stderr
