"""Where the lab keeps what it has made: folders under .cache/lab named by the content that they were made from."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
CACHE = CHECKOUT / ".cache" / "lab"


class LabError(Exception):
    """The lab failed; the text says why."""


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


class UnavailableError(LabError):
    """The lab cannot be had on this machine; the text says what is missing."""


def made(name: str, sources: Iterable[str | bytes | Path], make: Callable[[Path], None]) -> Path:
    """The folder ``name-<key of the sources>``; made once, and only ever seen complete."""
    key = hashlib.sha256()
    for source in sources:
        data = source.read_bytes() if isinstance(source, Path) else source
        key.update(hashlib.sha256(data.encode() if isinstance(data, str) else data).digest())
    folder = CACHE / f"{name}-{key.hexdigest()[:12]}"
    with _locked():
        if folder.is_dir():
            os.utime(folder)
            return folder
        work = folder.with_suffix(".new")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            make(work)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        work.rename(folder)
        others = sorted(set(CACHE.glob(f"{name}-*")) - {folder}, key=lambda path: path.stat().st_mtime)
        for old in others[:-1]:  # the last one may be in use by another run
            shutil.rmtree(old, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
