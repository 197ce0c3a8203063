"""Notices a rail that is no longer as it was attached: it lost its address, a rule, its link.

The kernel's notifications say when to look, the journal what should be there, and only what is read back counts. It is
said in the log, in metrics, to Kubernetes and in ``roceway-agent status``. Put back is only what roceway alone owns and
what disturbs nobody: rules and routes of a rail whose link is up and whose address is there, three times an hour at
most. An address, a link, a NIC or an RDMA device that is gone was taken by somebody or broke; giving it back behind the
pod's back would hide it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol, Self

from cni import gather
from cni.agent.driftnotices import DriftNotices, Look
from cni.agent.looper import Looper
from cni.agent.podevents import Notice, unheard
from cni.apply import Kernel
from cni.commands.check import pod_differences
from cni.lifecycle import is_alive, lock_names, open_store
from cni.steps import AddAddress, AddRoute, AddRule, Bring, Step
from cni.store import ATTACHED, Attachment
from cni.verify import PodView, differences, is_carrier
from host.allns import LOST, AllNamespaces, number_of
from host.errors import Busy, HostError
from host.lock import hold
from host.netlink import Route
from host.netns import Netns

__all__ = ["Drift", "by_rail", "rails_of", "repairable"]

_PATIENCE = 0.3  # seconds: a change comes as a burst of notifications
_TRAINING = 5.0
"""Seconds after ADD in which a missing carrier is no news (as CHECK allows)."""
_REPAIRS, _REPAIR_SPAN = 3, 3600.0

_log = logging.getLogger("roceway-agent")


def rails_of(lines: Iterable[str], steps: Sequence[Step]) -> frozenset[str]:
    """The rails that differences speak of. Pure."""
    return frozenset(by_rail(lines, steps))


def by_rail(lines: Iterable[str], steps: Sequence[Step]) -> dict[str, list[str]]:
    """Differences by the rail that they speak of; without those that speak of none. Pure.

    A rule is told by its address.
    """
    by_source = {step.prefix.partition("/")[0]: step.rail for step in steps if isinstance(step, AddAddress)}
    known = {getattr(step, "rail", "") for step in steps}
    found: dict[str, list[str]] = {}
    for line in lines:
        rail = line.partition(":")[0]
        if rail == "rule":
            source = line.partition("from ")[2].partition("/")[0]
            rail = by_source.get(source, "")
        if rail and rail in known:
            found.setdefault(rail, []).append(line)
    return found


def repairable(steps: Sequence[Step], view: PodView) -> list[Step]:
    """Rules and routes that are missing, of rails whose link is up and whose addresses are all there. Pure."""
    broken = {
        step.rail
        for step in steps
        if isinstance(step, AddAddress | Bring) and any(not is_carrier(line) for line in differences([step], view))
    }
    sound = {
        step.prefix.partition("/")[0] for step in steps if isinstance(step, AddAddress) and step.rail not in broken
    }
    missing = [step for step in steps if isinstance(step, AddRoute | AddRule) and differences([step], view)]
    return [
        step
        for step in missing
        if (isinstance(step, AddRoute) and step.rail not in broken)
        or (isinstance(step, AddRule) and step.source.partition("/")[0] in sound)
    ]


class Ears(Protocol):
    """What says that something has changed."""

    every: float
    """Seconds between two looks at a pod of which nothing is heard."""
    account: str
    """What is wrong with the hearing."""

    def __enter__(self) -> Self:
        """For a ``with`` block."""

    def __exit__(self, *_: object) -> None:
        """Stop listening."""

    def wait(self, seconds: float) -> set[int]:
        """Numbers of the namespaces of which something was heard."""


class _Deaf:
    """Without CAP_NET_BROADCAST: pods are looked at often instead."""

    every = 10.0
    account = "no CAP_NET_BROADCAST: pods are looked at every 10 s, not when the kernel notifies"

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> set[int]:
        self._stopping.wait(seconds)
        return set()


class Drift(Looper):
    """The part of the agent that watches."""

    name = "drift"

    def __init__(
        self,
        state_dir: str,
        *,
        repair: bool,
        told: Callable[[dict[str, int], Iterable[str], Iterable[str]], None],
        notice: Callable[[Notice], None] = unheard,
    ) -> None:
        super().__init__()
        self._state_dir = state_dir
        self._repair = repair
        self._told = told
        """Called with rails to pods in which they differ, rails that newly do, and rails that were repaired."""
        self._notices = DriftNotices(repair=repair, notice=notice)
        self._numbers: dict[int, int] = {}
        self._looked: dict[int, float] = {}
        self._repaired: dict[int, list[float]] = {}
        self.found: dict[int, tuple[str, ...]] = {}
        """Attachment to its differences, as last seen."""
        self._rails: dict[int, frozenset[str]] = {}

    def loop(self) -> None:
        """Listen, and look."""
        with self._ears() as ears:
            while not self.stopping.is_set():
                self.turn(ears, time.time())
                self.account = ears.account

    def _ears(self) -> Ears:
        try:
            return AllNamespaces()
        except PermissionError:
            return _Deaf(self.stopping)

    def turn(self, ears: Ears, now: float) -> None:
        """Listen for a second, then look at every pod of which something was heard, or nothing for long."""
        heard = ears.wait(1.0)
        if heard:
            self.stopping.wait(_PATIENCE)
            heard |= ears.wait(0.0)
        attachments = self._attached()
        self._follow(attachments)
        for each in attachments:
            due = now - self._looked.get(each.id, 0.0) >= ears.every
            if due or LOST in heard or self._numbers.get(each.id) in heard or self.found.get(each.id):
                self._looked[each.id] = now
                self._look(each, now)
        self._forget({each.id for each in attachments})

    def _attached(self) -> list[Attachment]:
        store = open_store(self._state_dir, create=False)
        if store is None:
            return []
        with store:
            return [each for each in store.attachments() if each.state == ATTACHED and is_alive(each)]

    def _follow(self, attachments: Iterable[Attachment]) -> None:
        new = [each for each in attachments if each.id not in self._numbers]
        if not new:
            return
        with Route() as connection:
            for each in new:
                with suppress(HostError):  # it ended meanwhile
                    pod = Netns.open(each.netns)
                    try:
                        self._numbers[each.id] = number_of(connection, pod.fd)
                    finally:
                        pod.close()

    def _forget(self, here: set[int]) -> None:
        memories: tuple[dict[int, Any], ...] = (self._numbers, self._looked, self._repaired, self.found, self._rails)
        for memory in memories:
            for ident in memory.keys() - here:
                del memory[ident]
        self._notices.forget(here)
        self._tell((), ())

    def _look(self, attachment: Attachment, now: float) -> None:
        try:
            pod = Netns.open(attachment.netns)
        except HostError:
            return  # it ended meanwhile
        try:
            steps = attachment.steps()
            lines = before = self._read(attachment, pod, now)
            fixed = self._mend(attachment, pod, steps, now) if lines and self._repair else []
            if fixed:
                lines = self._read(attachment, pod, now)
        except (HostError, Busy, ValueError) as error:
            _log.warning("%s could not be looked at: %s", attachment.key, error)
            return
        finally:
            pod.close()
        self._compare(attachment, tuple(lines), steps, fixed)
        gone = [line for line in before if line not in lines] if fixed else []
        exhausted = len(self._recent(attachment.id, now)) >= _REPAIRS
        named = attachment.details.get("pod", {})
        self._notices.look(Look(attachment.id, named, by_rail(lines, steps), by_rail(gone, steps), exhausted))

    def _read(self, attachment: Attachment, pod: Netns, now: float) -> list[str]:
        lines = pod_differences(attachment, pod)
        young = now - attachment.created < _TRAINING
        return [line for line in lines if not (young and is_carrier(line))]

    def _mend(self, attachment: Attachment, pod: Netns, steps: Sequence[Step], now: float) -> list[Step]:
        """Put rules and routes back; what was. Nothing while a verb is at this attachment."""
        recent = self._recent(attachment.id, now)
        if len(recent) >= _REPAIRS:
            return []
        store = open_store(self._state_dir, create=False)
        if store is None:
            return []
        with store, suppress(Busy), hold(store.lock_path, lock_names(attachment.key), 0), Route() as host:
            again = store.get(attachment.id)
            if again is None or again.state != ATTACHED:
                return []
            kernel = Kernel(host, pod)
            try:
                missing = repairable(steps, gather.pod_view(kernel.socket(), pod, steps))
                if missing:
                    self._repaired[attachment.id] = [*recent, now]
                    kernel.run(missing)
                return missing
            finally:
                kernel.close()
        return []

    def _recent(self, ident: int, now: float) -> list[float]:
        """When it was repaired within the last hour."""
        return [at for at in self._repaired.get(ident, []) if now - at < _REPAIR_SPAN]

    def _compare(
        self, attachment: Attachment, lines: tuple[str, ...], steps: Sequence[Step], fixed: Sequence[Step]
    ) -> None:
        before = self.found.get(attachment.id, ())
        rails = rails_of(lines, steps)
        fresh = rails - self._rails.get(attachment.id, frozenset())
        self.found[attachment.id], self._rails[attachment.id] = lines, rails
        pod = attachment.details.get("pod", {})
        fields = {"container": attachment.key.container_id, "pod": pod.get("name", "")}
        if fixed:
            _log.warning("put back", extra={"fields": {**fields, "repaired": [str(step) for step in fixed]}})
        if lines and lines != before:
            _log.warning("rails drifted", extra={"fields": {**fields, "differences": list(lines)}})
        if before and not lines:
            _log.info("rails are as they were attached again", extra={"fields": fields})
        mended = rails_of([f"{getattr(step, 'rail', 'rule')}: {step}" for step in fixed], steps)
        self._tell(fresh, mended)

    def _tell(self, fresh: Iterable[str], repaired: Iterable[str]) -> None:
        counts: dict[str, int] = {}
        for rails in self._rails.values():
            for rail in rails:
                counts[rail] = counts.get(rail, 0) + 1
        self._told(counts, fresh, repaired)
