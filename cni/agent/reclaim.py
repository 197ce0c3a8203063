"""Reclaims what dead pods left: nobody calls GC for us (containerd never does).

Two kinds of dead. A pod whose namespace is gone: found so three times, ten seconds apart (cni.lifecycle.sweep), and
once more under its lock. A pod whose namespace is still there though the runtime has forgotten its sandbox (it was
killed between the two): not listed three times, not known when asked for by id, and not one process left in the
namespace, which only who sees the runtime's processes can tell. Attachments are listed *before* the runtime is asked:
one made in between is not among them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress

from cni.agent.looper import Looper
from cni.agent.podevents import RECLAIMED, Notice, unheard
from cni.agent.runtime import Runtime
from cni.lifecycle import is_alive, lock_names, open_store, release, sweep
from cni.store import Attachment, Store
from host.errors import Busy
from host.lock import hold
from host.netlink import Route
from host.netns import Identity

__all__ = ["Misses", "Reclaimer", "is_inhabited"]

_EVERY = 10.0  # seconds: the spacing that sweep() keeps
_YOUNG = 120.0  # seconds in which an attachment is its runtime's: the sandbox is listed only when it is made
_MISSES = 3

_log = logging.getLogger("roceway-agent")


class Misses:
    """How often an attachment's sandbox was not listed, one look after the other."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def count(self, attachments: Iterable[Attachment], listed: Mapping[str, str], now: float) -> list[Attachment]:
        """Note one look; the attachments that were missed often enough.

        ``attachments`` were read before ``listed`` (sandbox to pod's UID). One whose sandbox is listed for another pod
        than the attachment's is as good as not listed.
        """
        missed = {each.id: each for each in attachments if now - each.created > _YOUNG and not _is_listed(each, listed)}
        self._counts = {ident: self._counts.get(ident, 0) + 1 for ident in missed}
        return [missed[ident] for ident, count in self._counts.items() if count >= _MISSES]


def _is_listed(attachment: Attachment, listed: Mapping[str, str]) -> bool:
    if attachment.key.container_id not in listed:
        return False
    uid = attachment.details.get("pod", {}).get("uid", "")
    return not uid or listed[attachment.key.container_id] in ("", uid)


def is_inhabited(namespace: Identity, proc: str = "/proc") -> bool:
    """Whether any process is in a network namespace; True where one cannot be looked at (no CAP_SYS_PTRACE)."""
    for name in os.listdir(proc):
        if not name.isdigit() or name == "1":
            continue  # the machine's init is in no pod
        try:
            status = os.stat(os.path.join(proc, name, "ns/net"))
        except PermissionError:
            return True
        except OSError:
            continue  # it has ended
        if (status.st_dev, status.st_ino) == namespace:
            return True
    return False


class Reclaimer(Looper):
    """The part of the agent that does it."""

    name = "reclaim"

    def __init__(
        self,
        state_dir: str,
        runtime: Callable[[], AbstractContextManager[Runtime] | None],
        told: Callable[[str], None],
        notice: Callable[[Notice], None] = unheard,
    ) -> None:
        super().__init__()
        self._state_dir = state_dir
        self._runtime = runtime
        self._told = told
        """Called with the reason for each attachment reclaimed."""
        self._notice = notice
        """Called with what its pod is told by Kubernetes."""
        self._misses = Misses()

    def loop(self) -> None:
        """Look every ten seconds."""
        while not self.stopping.wait(_EVERY):
            self.look(time.time())
            self.account = ""

    def look(self, now: float) -> list[Attachment]:
        """One look at both kinds; what was reclaimed."""
        store = open_store(self._state_dir, create=False)
        if store is None:
            return []
        with store, Route() as host:
            gone = sweep(store, host, now)
            for each in gone:
                self._note(each, "namespace gone")
            return [*gone, *self._forgotten(store, host, now)]

    def _forgotten(self, store: Store, host: Route, now: float) -> list[Attachment]:
        attachments = store.attachments()  # before the runtime is asked
        opened = self._runtime()
        if opened is None:
            return []
        found = []
        with opened as runtime:
            missed = self._misses.count(attachments, runtime.sandboxes(), now)
            if not missed or not runtime.is_in_sight():
                return []  # no hostPID: which namespaces have processes is not to be seen
            for each in missed:
                # Live now: by id, and in the kernel.
                if runtime.knows(each.key.container_id) or not is_alive(each) or is_inhabited(each.identity):
                    continue
                if _release(store, host, each):
                    self._note(each, "unknown to the runtime")
                    found.append(each)
        return found

    def _note(self, attachment: Attachment, reason: str) -> None:
        pod = attachment.details.get("pod", {})
        fields = {"container": attachment.key.container_id, "pod": pod.get("name", ""), "reason": reason}
        _log.warning("reclaimed what a dead pod left", extra={"fields": fields})
        self._told(reason)
        rails = ", ".join(str(rail["name"]) for rail in attachment.details.get("rails", []))
        message = f"{rails}: taken back with their addresses, nobody had deleted them ({reason})"
        self._notice(Notice(pod, RECLAIMED, warning=False, message=message))


def _release(store: Store, host: Route, attachment: Attachment) -> bool:
    with suppress(Busy), hold(store.lock_path, lock_names(attachment.key), 0):
        fresh = store.get(attachment.id)
        return fresh is not None and not release(store, fresh, host)
    return False
