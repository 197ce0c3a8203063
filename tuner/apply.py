"""Runs of steps: written down first, read back one by one, undone in reverse at the first that does not hold.

A journal names every step of the run before the first is done. Whatever happens then (a refusal, SIGKILL, a power
failure), undoing all of them in reverse gives the host as it was, because undoing what was never done changes nothing.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from host import roce
from host.errors import HostError
from tuner.gather import Doors, place
from tuner.hands import Hands
from tuner.machine import now
from tuner.nic import Applied, HostQos, HostWanted
from tuner.steps import SetMaxrate, Step, undo
from tuner.store import Journal, Snapshot, Store

__all__ = ["Outcome", "applied_record", "attempt", "put_back", "recover", "restoring", "reveal", "run"]

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run."""

    done: tuple[Step, ...] = ()
    cause: HostError | None = None
    """What made it stop; then everything was put back, but for:"""
    left: tuple[HostError, ...] = ()
    """What could not be put back. The journal stays, and ``rollback`` tries again."""


def reveal(doors: Doors, host: HostQos) -> bool:
    """Make rdma_cm show its ToS for every RDMA device; whether anything may look different now."""
    shown = False
    for nic in host.nics:
        if nic.rdma and nic.tos.rdma_cm is None:
            try:
                roce.reveal(place(nic, doors.root))
            except HostError:
                continue  # no configfs: the plan says that the ToS is not shown, apply that it cannot be set
            shown = True
    return shown


def run(steps: Sequence[Step], host: HostQos, store: Store, hands: Hands, tell: Tell) -> Outcome:
    """Do the steps in order; the first that fails undoes all, and so does whatever else stops it. ``tell`` gets one
    line for each."""
    journal = store.begin(host, steps, _stamp())
    done: list[Step] = []
    try:
        for step in steps:
            hands.make(step)
            done.append(step)
            tell(f"  done: {step}")
        store.end()
    except HostError as error:
        if len(done) < len(steps):
            tell(f"  failed: {steps[len(done)]}")
        left = _abandon(journal, steps[: len(done) + 1], store, hands, tell)
        return Outcome(done=tuple(done), cause=error, left=left)
    except BaseException as error:  # Ctrl-C, or a bug: half a configuration is no place to leave a host in
        tell("  interrupted" if isinstance(error, KeyboardInterrupt) else f"  failed: {type(error).__name__}")
        left = _abandon(journal, steps[: len(done) + 1], store, hands, tell)
        tell("NOT everything was put back" if left else "nothing was changed: everything was put back")
        raise
    return Outcome(done=tuple(done))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Whoever presses Ctrl-C once more gets a host that is as it was, a moment later."""
    if threading.current_thread() is not threading.main_thread():  # no other may change handlers
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _abandon(journal: Journal, begun: Sequence[Step], store: Store, hands: Hands, tell: Tell) -> tuple[HostError, ...]:
    """Undo what was begun; with all of it back, the run has never been."""
    with _undisturbed():
        left = put_back(begun, hands, tell)
    if not left:
        store.end()
        store.drop(journal.snapshot)
    return left


def put_back(steps: Sequence[Step], hands: Hands, tell: Tell) -> tuple[HostError, ...]:
    """Undo the steps in reverse, past errors; the errors."""
    return attempt(undo(steps), hands, tell, "put back")


def attempt(steps: Sequence[Step], hands: Hands, tell: Tell, verb: str = "done") -> tuple[HostError, ...]:
    """Do the steps, past errors; the errors. A step with nothing to do is not told."""
    errors = []
    for step in steps:
        try:
            changed = hands.make(step)
        except HostError as error:
            errors.append(error)
            tell(f"  NOT {verb}: {step}: {error}")
        else:
            if changed:
                tell(f"  {verb}: {step}")
    return tuple(errors)


def recover(store: Store, hands: Hands, boot_id: str | None, tell: Tell) -> tuple[HostError, ...] | None:
    """Finish a run that was killed: undo it. None where there was none; else what could not be put back.

    After a reboot the kernel has none of its changes any more, and the journal is only forgotten.
    """
    journal = store.journal()
    if journal is None:
        return None
    if journal.boot_id and boot_id and journal.boot_id != boot_id:
        tell("an earlier run was cut off by a reboot, which undid it")
        store.end()
        return ()
    tell("an earlier run was cut off: undoing it")
    return _abandon(journal, journal.steps, store, hands, tell)


def restoring(snapshots: Sequence[Snapshot], seen: HostQos) -> tuple[Step, ...]:
    """The steps from what is seen to the first of ``snapshots``: the one to return to and all newer ones, oldest first.

    Only what those runs have changed is put back; what the snapshot did not show is left alone.
    """
    target = snapshots[0].host
    touched: dict[tuple[str, str, str], Step] = {}
    for snapshot in snapshots:
        for step in snapshot.steps:
            touched.setdefault((type(step).__name__, step.nic, str(getattr(step, "name", ""))), step)
    steps = (_towards(step, target, seen) for step in reversed(touched.values()))
    return tuple(step for step in steps if step is not None and step.seen != step.wanted)


def _towards(step: Step, target: HostQos, seen: HostQos) -> Step | None:
    then, this = target.nic(step.nic), seen.nic(step.nic)
    was = None if then is None else step.of(then)
    has = None if this is None else step.of(this)
    if was is None or has is None:
        return None
    either: Any = step  # the union's classes differ in the types of the two
    extra: dict[str, Any] = {"note": ""} if isinstance(step, SetMaxrate) else {}
    towards: Step = replace(either, seen=has, wanted=was, **extra)
    return towards


def applied_record(wanted: HostWanted, seen: HostQos, *, complete: bool) -> Applied:
    """What to write down after an apply."""
    gids: dict[str, dict[str, int]] = {}
    for nic in seen.nics:
        entries: Iterable[Any] = nic.gids or ()
        gids[nic.name] = {each.address: each.index for each in entries if each.type == "RoCE v2"}
    return Applied(
        at=now(),
        boot_id=seen.boot_id or "",
        complete=complete,
        wanted=wanted.nics,
        ifindexes={nic.name: nic.ifindex for nic in seen.nics if nic.ifindex is not None},
        gids=gids,
    )


def _stamp() -> str:
    return now().replace("-", "").replace(":", "")
