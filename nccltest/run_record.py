"""The door to what was measured: one file of JSON lines for each day, written through before the next round begins."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from host.errors import Busy, HostError
from nccltest.model import Measurement, read_measurements, write_measurements
from nccltest.redact import redact

__all__ = ["Record", "recent"]

_SUFFIX = ".jsonl"
_MOST_TEXT, _MOST_FILES, _LONGEST = 1 << 20, 400, 4096


class Record:
    """A folder of daily files, one run at a time. A context manager. Busy while another run holds it."""

    def __init__(self, folder: Path, copy: Path | None = None) -> None:
        self.folder = folder
        self.copy = copy
        """A file that gets the same lines."""
        self._lock = -1

    def __enter__(self) -> Record:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HostError("write to", str(self.folder), error.errno or 0) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise Busy(f"another run writes to {self.folder}") from None
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def append(self, measurements: Sequence[Measurement]) -> Path:
        """Write measurements to the day's file, onto the disk; that file. HostError where the disk refuses."""
        moment = measurements[0].time if measurements else 0.0
        path = self.folder / f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}{_SUFFIX}"
        for each in filter(None, (path, self.copy)):
            self._write(each, measurements)
        return path

    def _write(self, path: Path, measurements: Sequence[Measurement]) -> None:
        try:
            with open(path, "a+b", opener=_private) as file:
                _drop_cut_line(file.fileno())
                file.write(write_measurements(measurements).encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise HostError("write to", str(path), error.errno or 0) from error

    def keep_output(self, name: str, text: str) -> None:
        """What a failed group printed, without secrets: ``output/NAME.log``, the newest few hundred."""
        folder = self.folder / "output"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            told = "".join(f"{redact(line[:_LONGEST])}\n" for line in text[-_MOST_TEXT:].split("\n"))
            with open(folder / f"{name}.log", "w", encoding="utf-8", errors="replace", opener=_private) as file:
                file.write(told)
            for old in sorted(folder.glob("*.log"))[:-_MOST_FILES]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise HostError("write to", str(folder), error.errno or 0) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _drop_cut_line(file: int) -> None:
    """What a killed run had not finished writing is no line: the next one would be glued to it."""
    end = os.fstat(file).st_size
    start = end
    while start > 0:
        step = min(65_536, start)
        block = os.pread(file, step, start - step)
        found = block.rfind(b"\n")
        if found >= 0:
            start = start - step + found + 1
            break
        start -= step
    if start != end:
        os.ftruncate(file, start)


def recent(folder: Path, days: int) -> tuple[Measurement, ...]:
    """What the newest ``days`` files hold, oldest first; nothing where there is no folder.

    ConfigError for a file that is not ours: the past must not be guessed.
    """
    if not folder.is_dir():
        return ()
    told: list[Measurement] = []
    for path in sorted(folder.glob(f"*{_SUFFIX}"))[-days:]:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise HostError("read", str(path), error.errno or 0) from error
        told += read_measurements(text, str(path))
    return tuple(told)
