"""The tuner's state on a host: snapshots, the journal of a run, what was applied last, the lock. Root only.

Files below ``tune`` in the state directory (mode 0700), each replaced whole so that no reader sees half of one:

``journal.json``    steps of the run that is under way; gone when the host is consistent
``snapshots/*.json``  the NICs before each run, newest last, named by time; the last ten are kept
``applied.json``    what was last applied, when, in which boot
``lock``            byte-range locks, dropped by the kernel with their holder
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from host import lock
from host.errors import Busy, HostError
from tuner.nic import Applied, HostQos
from tuner.record import decode, encode
from tuner.steps import Step, dump, load

__all__ = ["KEEP", "STATE", "WAY_OUT", "Journal", "Snapshot", "Store"]

STATE = "/var/lib/roceway"
KEEP = 10
_NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z(-[0-9]+)?")
_MOST = 1 << 26
WAY_OUT = "`roceway-tune rollback --forget` gives that run up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A host before a run, and what that run was to do."""

    name: str
    """When, as ``20260101T120000Z``."""
    host: HostQos
    steps: tuple[Step, ...]
    """The steps of the run that it was taken for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A run that has not ended."""

    snapshot: str
    boot_id: str
    steps: tuple[Step, ...]


class Store:
    """The files of one host."""

    def __init__(self, state: str = STATE) -> None:
        self.folder = os.path.join(state, "tune")

    @contextmanager
    def held(self, timeout: float = 0.0) -> Iterator[None]:
        """Be the only tuner on this host for the block. Busy where another one is at work."""
        self._make()
        try:
            with lock.hold(os.path.join(self.folder, "lock"), ["tuner"], timeout):
                yield
        except Busy:
            raise Busy("another roceway-tune is changing this host; try again when it has ended") from None

    def _make(self) -> None:
        try:
            os.makedirs(os.path.join(self.folder, "snapshots"), mode=0o700, exist_ok=True)
            os.chmod(self.folder, 0o700)
        except OSError as error:
            raise HostError("make", self.folder, error.errno or 0) from error

    def journal(self) -> Journal | None:
        """The run that has not ended; None where there is none. HostError where its record is damaged."""
        path = os.path.join(self.folder, "journal.json")
        try:
            values = self._read("journal.json")
            if values is None:
                return None
            return Journal(snapshot=values["snapshot"], boot_id=values["boot_id"], steps=load(values["steps"]))
        except (KeyError, TypeError, ValueError) as error:
            raise HostError("read", path, 0, f"damaged: {error}; {WAY_OUT}") from None

    def begin(self, host: HostQos, steps: Sequence[Step], name: str) -> Journal:
        """Write snapshot and journal down before the first change."""
        name = self._free(name)
        written = dump(steps)
        self._write(f"snapshots/{name}.json", {"host": host.to_json(), "steps": written})
        self._write("journal.json", {"snapshot": name, "boot_id": host.boot_id or "", "steps": written})
        self._prune()
        return Journal(snapshot=name, boot_id=host.boot_id or "", steps=tuple(steps))

    def end(self) -> None:
        """The host is consistent: forget the journal."""
        try:
            os.unlink(os.path.join(self.folder, "journal.json"))
        except FileNotFoundError:
            return
        except OSError as error:
            raise HostError("remove", os.path.join(self.folder, "journal.json"), error.errno or 0) from error
        self._sync()

    def forget(self) -> None:
        """Nothing is applied any more."""
        try:
            os.unlink(os.path.join(self.folder, "applied.json"))
        except OSError:
            return

    def drop(self, name: str) -> None:
        """Forget the snapshot of a run that changed nothing in the end."""
        try:
            os.unlink(os.path.join(self.folder, "snapshots", f"{name}.json"))
        except OSError:
            return

    def snapshots(self) -> tuple[str, ...]:
        """Names of the snapshots, oldest first."""
        try:
            names = os.listdir(os.path.join(self.folder, "snapshots"))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise HostError("list", os.path.join(self.folder, "snapshots"), error.errno or 0) from error
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return tuple(sorted((stem for stem in stems if _NAME.fullmatch(stem)), key=_order))

    def snapshot(self, name: str) -> Snapshot:
        """One snapshot. HostError where there is none of this name, or it is damaged."""
        if not _NAME.fullmatch(name):
            raise HostError("read", f"snapshot {name}", 2, "this is no snapshot's name")
        try:
            values = self._read(f"snapshots/{name}.json")
            if values is None:
                kept = ", ".join(self.snapshots()) or "none"
                raise HostError("read", f"snapshot {name}", 2, f"there is {kept}")
            return Snapshot(name=name, host=HostQos.from_json(values["host"]), steps=load(values["steps"]))
        except (KeyError, TypeError, ValueError) as error:
            raise HostError("read", f"snapshot {name}", 0, f"damaged: {error}") from None

    def applied(self) -> Applied | None:
        """What was applied last; None where nothing was, or its record cannot be read."""
        try:
            values = self._read("applied.json")
            return None if values is None else decode(Applied, values, "applied")
        except (HostError, ValueError):
            return None

    def set_applied(self, applied: Applied) -> None:
        """Write down what was applied."""
        self._make()
        self._write("applied.json", encode(applied))

    def _free(self, name: str) -> str:
        """A name that sorts after every snapshot there is, also where the clock went back."""
        newest = next(reversed(self.snapshots()), "")
        if _order(name) > _order(newest):
            return name
        stem, number = _order(newest)
        return f"{stem}-{number + 1}"

    def _prune(self) -> None:
        for name in self.snapshots()[:-KEEP]:
            self.drop(name)

    def _read(self, name: str) -> Any:
        """A file's JSON value; None where there is none. ValueError for what is no JSON."""
        path = os.path.join(self.folder, name)
        try:
            with open(path) as file:
                return json.loads(file.read(_MOST))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError("read", path, error.errno or 0) from error

    def _write(self, name: str, values: Any) -> None:
        path = os.path.join(self.folder, name)
        try:
            descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(values, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(f"{path}.new", path)
        except OSError as error:
            raise HostError("write", path, error.errno or 0) from error
        self._sync()

    def _sync(self) -> None:
        """The folder itself: a power failure must not bring an old journal back."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _order(name: str) -> tuple[str, int]:
    stem, _, number = name.partition("-")
    return stem, int(number or 0)
