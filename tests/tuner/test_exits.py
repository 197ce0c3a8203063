"""Errors become one sentence and a code, whatever stdout and stderr are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADROOM = "headroom --model mlx5 --speed 100G --cable 7m"
FULL = "cannot write: No space left on device"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which ``roceway-tune`` is this checkout's."""
    function = f'roceway-tune() {{ "{sys.executable}" -m tuner "$@"; }}\nset -o pipefail\n'
    words = ["bash", "-c", function + line]
    own = {**os.environ, **environment}
    return subprocess.run(words, capture_output=True, errors="replace", cwd=ROOT, timeout=60, env=own, check=False)


@pytest.mark.parametrize("words", [f"{HEADROOM} --json", "--help", "headroom --help"])
def test_a_full_disk_is_one_sentence_and_exit_3(words: str) -> None:
    done = shell(f"roceway-tune {words} > /dev/full")
    assert (done.returncode, done.stderr) == (3, f"roceway-tune: {FULL}\n")


def test_closed_output_is_no_error() -> None:
    done = shell(f"roceway-tune {HEADROOM} >&-")
    assert (done.returncode, done.stderr) == (0, "")
    done = shell("roceway-tune lint -f nosuch.yaml >&- 2>&-")
    assert (done.returncode, done.stderr) == (2, "")


def test_a_reader_that_goes_away_gets_no_message_and_what_it_missed_is_no_success() -> None:
    done = shell("roceway-tune lint --help | true; exit ${PIPESTATUS[0]}")
    assert done.stderr == ""
    assert done.returncode in (0, 3), "it may all have fitted into the pipe"
    many = "import sys; from tuner.exits import guarded; sys.exit(guarded('x', lambda: print('y' * 10**6) or 0))"
    done = shell(f'"{sys.executable}" -c "{many}" | true; exit ${{PIPESTATUS[0]}}')
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_arrows_gets_question_marks(encoding: str) -> None:
    done = shell(f"roceway-tune {HEADROOM} --explain", PYTHONIOENCODING=encoding, LC_ALL="C")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stdout.count("\n") > 2


def test_ctrl_c_while_modules_are_imported_is_one_word() -> None:
    # Told from inside: before the program's own first lines nobody could catch it.
    program = (
        "import tuner.cli as cli, tuner.__main__ as m; mend = cli.mend_streams; "
        "cli.mend_streams = lambda: (mend(), print('up', flush=True)); m.main()"
    )
    words = [sys.executable, "-c", program, "lint", "-f", "x"]
    for delay in (0.0, 0.03, 0.1):
        child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        time.sleep(delay)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        assert (child.returncode, said) in ((3, "roceway-tune: interrupted\n"), (2, said))
        assert "Traceback" not in said


@pytest.mark.parametrize("wait", ["-5", "nan", "x"])
def test_a_time_that_is_none_is_refused(wait: str) -> None:
    done = shell(f"roceway-tune apply -f x --wait {wait}")
    assert done.returncode == 2
    assert "--wait" in done.stderr.splitlines()[-1]
