"""What is told about a pod to Kubernetes, how often, and in which words. No I/O.

One Event object for one thing on one pod. What lasts or comes again is the same object counted up, at most every ten
minutes: often enough that it outlives the API server's hour, seldom enough that many broken nodes do not hurt.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

__all__ = ["AGAIN", "DRIFTED", "RECLAIMED", "RECOVERED", "REPAIRED", "Job", "Ledger", "Notice", "describe", "unheard"]

DRIFTED, REPAIRED, RECOVERED, RECLAIMED = "RailDrifted", "RailRepaired", "RailRecovered", "RailReclaimed"

AGAIN = 600.0
"""Seconds between two updates of an object. An API server forgets it an hour after the last (--event-ttl)."""
_NODE_CAP, _POD_CAP, _SPAN = 60, 20, 60.0
"""Requests in a minute for the node, and for one pod: eight rails that drift and are mended at once are 16."""
_REMEMBERED = 1024
_MESSAGE = 1023  # bytes: what the API allows the note of an event; kubectl shows one line
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_UID = re.compile(r"[-A-Za-z0-9_.:]{0,128}")
_NAME_ROOM = 253 - 17  # of a DNS subdomain, for the pod's part of an event's name


class Notice(NamedTuple):
    """Something that happened to a pod's rail."""

    pod: Mapping[str, str]
    """namespace, name and uid as the runtime gave them in CNI_ARGS; any may be missing."""
    reason: str
    warning: bool
    message: str
    lasts: bool = False
    """It was told before and is still so: no new occurrence."""


def unheard(_: Notice) -> None:
    """For those who have nobody to tell."""


class Job(NamedTuple):
    """One request for the API server."""

    key: tuple[str, ...]
    namespace: str
    name: str
    """Of the Event object."""
    new: bool
    """Create it; else patch it."""
    body: dict[str, Any]


def describe(rail: str, lines: Iterable[str], done: str) -> str:
    """One sentence of what is wrong with a rail and what was done; at most 1023 bytes."""
    wrong = "; ".join(line.removeprefix(f"{rail}: ") for line in lines)
    tail = f" ({done})" if done else ""
    room = _MESSAGE - len(tail.encode())
    return _cut(f"{rail}: {wrong}", room) + tail


def _cut(text: str, room: int) -> str:
    data = text.encode()
    return text if len(data) <= room else data[: room - 3].decode(errors="ignore") + "…"


class _Entry:
    """An Event object as it should be, and as far as we know is."""

    def __init__(self, notice: Notice, now: float) -> None:
        self.notice = notice
        self.name = _event_name(notice.pod["name"])
        self.first = self.last = now
        self.count = 1
        self.told: float | None = None
        self.exists = False
        self.pending = True

    def again(self, notice: Notice, now: float) -> None:
        if notice.lasts and not self.is_due(now):
            return
        self.count += 1
        self.last = now
        self.pending = True

    def is_due(self, now: float) -> bool:
        """Whether it may be told now. A clock that was set back holds nothing up."""
        return self.told is None or not 0 <= now - self.told < AGAIN


def _event_name(pod: str) -> str:
    """Ours alone, so that a repeated POST is found to be there already."""
    return f"{pod[:_NAME_ROOM].rstrip('-.')}.{secrets.token_hex(8)}"


class _Cap:
    """At most so many in a span."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._at: deque[float] = deque()

    def wait(self, now: float) -> float:
        """Seconds until the next is allowed; 0 for now."""
        while self._at and not 0 <= now - self._at[0] < _SPAN:
            self._at.popleft()
        return 0.0 if len(self._at) < self._most else _SPAN - (now - self._at[0])

    def is_idle(self, now: float) -> bool:
        """Whether nothing of the last span counts any more."""
        return not self.wait(now) and not self._at

    def take(self, now: float) -> None:
        """One more."""
        self._at.append(now)


class Ledger:
    """Which objects there are and which are due. Bounded: what was longest without news is forgotten first."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._entries: OrderedDict[tuple[str, ...], _Entry] = OrderedDict()
        self._node_cap = _Cap(_NODE_CAP)
        self._pod_caps: dict[tuple[str, ...], _Cap] = {}
        self.dropped = 0
        """Notices that were forgotten before they were told."""

    def note(self, notice: Notice, now: float) -> bool:
        """Take note; whether something is to be sent for it.

        Nothing is where the runtime named no pod, or not as Kubernetes names them.
        """
        if not _is_pod(notice.pod):
            return False
        key = (notice.pod["namespace"], notice.pod["name"], notice.pod.get("uid", ""), notice.reason, notice.message)
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = _Entry(notice, now)
        else:
            entry.again(notice, now)
            self._entries.move_to_end(key)
        while len(self._entries) > _REMEMBERED:
            _, oldest = self._entries.popitem(last=False)
            self.dropped += oldest.pending
        return self._entries[key].pending

    def next(self, now: float) -> tuple[Job | None, float]:
        """The request to make now, or the seconds to wait for one (infinite where nothing is pending)."""
        soonest = float("inf")
        for key, entry in self._entries.items():
            if not entry.pending:
                continue
            wait = self._wait(key, entry, now)
            if not wait:
                return _job(key, entry, self._node), 0.0
            soonest = min(soonest, wait)
        return None, soonest

    def _wait(self, key: tuple[str, ...], entry: _Entry, now: float) -> float:
        own = 0.0 if entry.told is None or entry.is_due(now) else AGAIN - (now - entry.told)
        pod = self._pod_caps.get(key[:3])
        return max(own, self._node_cap.wait(now), pod.wait(now) if pod else 0.0)

    def spend(self, job: Job, now: float) -> None:
        """A request is made: it counts whatever comes of it."""
        self._pod_caps = {key: cap for key, cap in self._pod_caps.items() if not cap.is_idle(now)}
        self._node_cap.take(now)
        self._pod_caps.setdefault(job.key[:3], _Cap(_POD_CAP)).take(now)

    def done(self, job: Job, now: float) -> None:
        """The API server has it. What came meanwhile stays pending."""
        entry = self._entries.get(job.key)
        if entry is not None:
            entry.exists, entry.told = True, now
            entry.pending = entry.count != job.body["count"]

    def gone(self, job: Job) -> None:
        """The API server has forgotten the object: it is made anew, under a new name."""
        entry = self._entries.get(job.key)
        if entry is not None:
            entry.exists, entry.told, entry.name = False, None, _event_name(entry.notice.pod["name"])

    def refused(self, job: Job, now: float) -> None:
        """It is not taken: not tried again before it is due anew."""
        self.gone(job)
        entry = self._entries.get(job.key)
        if entry is not None:
            entry.told, entry.pending = now, False


def _is_pod(pod: Mapping[str, str]) -> bool:
    names = (pod.get("namespace", ""), pod.get("name", ""))
    return all(_NAME.fullmatch(name) for name in names) and bool(_UID.fullmatch(pod.get("uid", "")))


def _job(key: tuple[str, ...], entry: _Entry, node: str) -> Job:
    news = {"count": entry.count, "lastTimestamp": _time(entry.last)}
    namespace = entry.notice.pod["namespace"]
    body = news if entry.exists else {**_event(entry, node), **news}
    return Job(key, namespace, entry.name, not entry.exists, body)


def _event(entry: _Entry, node: str) -> dict[str, Any]:
    """A core/v1 Event without count and lastTimestamp. These and firstTimestamp are what `kubectl describe` prints."""
    pod = entry.notice.pod
    involved = {"apiVersion": "v1", "kind": "Pod", "namespace": pod["namespace"], "name": pod["name"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": entry.name, "namespace": pod["namespace"]},
        "involvedObject": involved | ({"uid": pod["uid"]} if pod.get("uid") else {}),
        "reason": entry.notice.reason,
        "message": _cut(entry.notice.message, _MESSAGE),
        "type": "Warning" if entry.notice.warning else "Normal",
        "source": {"component": "roceway-agent"} | ({"host": node} if node else {}),
        "reportingComponent": "roceway-agent",
        "reportingInstance": node,
        "firstTimestamp": _time(entry.first),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
