"""Where the demo is: a bar on a terminal, plain lines everywhere; NO_COLOR is honoured."""

from __future__ import annotations

import os
import sys
import time

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_PIPE_WIDTH = 120


class Screen:
    """stdout. A context manager; the bar goes when it is left."""

    def __init__(self, steps: int) -> None:
        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
        self._console = Console(width=width, highlight=False, markup=False, emoji=False)
        self.plain = not self._console.is_terminal
        self._start = time.monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(
            *columns, TimeElapsedColumn(), console=self._console, transient=True, disable=self.plain
        )
        self._task = self._progress.add_task("", total=steps)

    def __enter__(self) -> Screen:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def doing(self, what: str) -> None:
        """What happens now."""
        self._progress.update(self._task, description=what)

    def done(self, what: str) -> None:
        """A step that is done."""
        self._progress.advance(self._task)
        self.say(f"{time.monotonic() - self._start:5.1f} s  {what}")

    def say(self, what: RenderableType = "") -> None:
        """A line or a table."""
        self._console.print(what)
