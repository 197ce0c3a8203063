"""Tells pods' drift and its repair to Kubernetes as Events: what `kubectl describe pod` shows.

A part that may fail in any way without anybody noticing but the reader of events: who has something to tell leaves it
in a bounded ledger and goes on; a thread of its own sends it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from cni.agent.kubeapi import Answer, ApiServer
from cni.agent.looper import Looper
from cni.agent.parts import OFF
from cni.agent.podevents import Job, Ledger, Notice
from host.errors import HostError

__all__ = ["Events"]

_BACK_OFF, _BACK_OFF_MAX = 2.0, 300.0
_RETRY_AFTER_MAX = 600.0
_DONE, _MALFORMED = (200, 201, 202), (400, 413, 422)
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409

_log = logging.getLogger("roceway-agent")


def _uncounted(_outcome: str, _number: int) -> None:
    """For who has no metrics."""


class Events(Looper):
    """The part of the agent that tells."""

    name = "events"

    def __init__(
        self, server: ApiServer | None, node: str, why_not: str = "", counted: Callable[[str, int], None] = _uncounted
    ) -> None:
        super().__init__()
        self._counted = counted
        """Called with ``told``, ``refused``, ``failed`` (tried again later) or ``dropped``, and how many."""
        self._server = server
        self._why_not = why_not
        self._ledger = Ledger(node)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._delay = 0.0

    def tell(self, notice: Notice) -> None:
        """Leave a notice; never waits, never fails. Without an API server it goes nowhere."""
        if self._server is None:
            return
        with self._lock:
            is_news = self._ledger.note(notice, time.time())
        if is_news:
            self._wake.set()

    def start(self) -> None:
        """Begin; outside Kubernetes say so once and do nothing."""
        if self._server is None:
            _log.info("no events on pods: %s", self._why_not)
        else:
            super().start()

    def stop(self) -> None:
        """End; what has not been told is forgotten, and told again if it is still so when the agent is back."""
        self.stopping.set()
        self._wake.set()
        super().stop()

    def problem(self) -> str:
        """Why events do not arrive; begins with OFF where none are wanted."""
        return f"{OFF}{self._why_not}" if self._server is None else self.account

    def loop(self) -> None:
        """Send what is due, one after another."""
        while not self.stopping.is_set():
            self._wake.clear()
            with self._lock:
                job, wait = self._ledger.next(time.time())
            if job is None:
                self._wake.wait(min(wait, threading.TIMEOUT_MAX))
                continue
            self.stopping.wait(self._send(job))

    def _send(self, job: Job) -> float:
        """One request; the seconds to leave the API server alone after it."""
        assert self._server is not None  # noqa: S101 - there is no thread without
        with self._lock:
            self._ledger.spend(job, time.time())
        path = f"/api/v1/namespaces/{job.namespace}/events"
        try:
            if job.new:
                answer = self._server.send("POST", path, job.body)
            else:
                answer = self._server.send("PATCH", f"{path}/{job.name}", job.body)
        except HostError as error:
            return self._later(str(error))
        said = f"the API server says {answer.status}: {answer.message}"
        if not self._settle(job, answer):
            return self._later(said, answer.retry_after)
        if answer.status in _MALFORMED:
            _log.warning("an event was refused: %s", said)
        return self._well()

    def _settle(self, job: Job, answer: Answer) -> bool:
        """Note an answer; False where it is to be tried again: overload, no permission yet, somebody else's words."""
        now = time.time()
        with self._lock:
            if answer.status in _DONE or (job.new and answer.status == _CONFLICT):
                self._ledger.done(job, now)
                self._counted("told", 1)
            elif answer.status == _NOT_FOUND and not job.new:
                self._ledger.gone(job)
            elif answer.status in _MALFORMED or _is_ended(job, answer):
                self._ledger.refused(job, now)
                self._counted("refused", 1)
            else:
                return False
        return True

    def _well(self) -> float:
        with self._lock:
            dropped, self._ledger.dropped = self._ledger.dropped, 0
        if self.account:
            _log.info("events are told again")
        if dropped:
            self._counted("dropped", dropped)
            _log.warning("events were dropped, too many were waiting: %d", dropped)
        self.account, self._delay = "", 0.0
        return 0.0

    def _later(self, account: str, seconds: float | None = None) -> float:
        """Note a failure, once while it is the same; longer each time, and at least as long as the server asks."""
        self._counted("failed", 1)
        if account != self.account:
            _log.warning("events on pods cannot be told: %s", account)
        self.account = account
        self._delay = min(max(_BACK_OFF, 2 * self._delay), _BACK_OFF_MAX)
        return max(self._delay, min(seconds or 0.0, _RETRY_AFTER_MAX))


def _is_ended(job: Job, answer: Answer) -> bool:
    """Whether the pod's namespace is gone or going: no fault of ours."""
    return (answer.status == _NOT_FOUND and job.new) or (
        answer.status == _FORBIDDEN and "NamespaceTerminating" in answer.causes
    )
