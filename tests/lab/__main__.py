"""``python -m tests.lab [--shell | --keep] [PATTERN]``: the lab's guest, its tests or a shell in it."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence

from tests.lab.vm import run
from tests.lab.vm.cache import LabError, UnavailableError
from tests.lab.vm.report import Report


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all passed; 1: a test failed; 2: usage; 3: the lab cannot be had here."""
    parser = argparse.ArgumentParser(prog="tests.lab", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="part of a guest test file's name, else pytest's -k")
    parser.add_argument("--shell", action="store_true", help="a shell in the guest; no tests")
    parser.add_argument("--keep", action="store_true", help="run the tests on the terminal, then a shell")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that blocks are left and clean up
    try:
        if options.shell or options.keep:
            run.shell("" if options.shell else f"{sys.executable} -m pytest {shlex.join(selection(options.pattern))}")
            return 0
        return _report(run.run_tests(selection(options.pattern), say=_echo))
    except UnavailableError as error:
        print(f"lab: not here: {error}", file=sys.stderr)
        return 3
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def selection(pattern: str) -> list[str]:
    """pytest's arguments for a pattern: the files that it names, else the tests that it names."""
    files = sorted(str(path) for path in run.GUEST_TESTS.glob(f"test_*{pattern}*.py")) if pattern else []
    return files or [str(run.GUEST_TESTS), *(["-k", pattern] if pattern else [])]


def _echo(text: str) -> None:
    print(text, end="", flush=True)


def _report(report: Report) -> int:
    if report.trouble:
        print(f"lab: {report.trouble}", file=sys.stderr)
    print(f"lab: {report.spent()}; logs in {report.folder}", file=sys.stderr)
    failed = any(outcome.status == "failed" for outcome in report.outcomes.values())
    return 1 if failed or report.trouble else 0


if __name__ == "__main__":
    sys.exit(main())
