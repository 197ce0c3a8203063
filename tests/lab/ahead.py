"""The guest beside the other tests: it computes on one core for minutes, while most of them wait or use one as well.

It is booted before the first test and asked for its results when its own turn comes: after the pure tests, and before
those that measure bandwidth or need the kernel's quick answer.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import pytest

from tests.lab.vm import run
from tests.lab.vm.report import Report

__all__ = ["Ahead", "ordered"]

_NICE = 10
_QUIET = ("lab", "demo", "netns")
"""Folders whose tests come last, in this order."""


class StoppedError(Exception):
    """Nobody wants the results any more."""


class Ahead:
    """One run of guest tests in a thread; what was started there ends with this process, however it ends."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._stopped = threading.Event()
        self._report: Report | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="lab", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        os.nice(_NICE)  # Linux counts it by thread, and children inherit it: the other tests come first
        try:
            names = [str(run.GUEST_TESTS / name) for name in self._names]
            self._report = run.run_tests(names, watch=self._look)
            self._report.cpu = 0.0  # other tests had children as well
        except BaseException as error:  # noqa: BLE001  # whoever asks for the result gets it
            self._error = error

    def _look(self) -> None:
        if self._stopped.is_set():
            raise StoppedError

    def report(self) -> Report:
        """The results, waited for. Raises what the run raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._report is not None
        return self._report

    def stop(self) -> None:
        """End the guest and remove what it needed."""
        self._stopped.set()
        self._thread.join(10)


def ordered(items: list[pytest.Item]) -> list[pytest.Item]:
    """Pure tests first, then the guest's, then those that want a quiet machine; otherwise as they were."""

    def place(item: pytest.Item) -> int:
        folder = item.nodeid.split("/")[1] if item.nodeid.startswith("tests/") else ""
        return _QUIET.index(folder) if folder in _QUIET else -1

    return sorted(items, key=place)
