"""What several rules about switches ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tuner.lint.rule import Hit, Missing, Severity
from tuner.lint.subjects import PortAt
from tuner.switch.model import UNBOUND, Port, PriorityGroup, QosMap, Queue

__all__ = [
    "NO_CABLE",
    "NO_GROUPS",
    "NO_PFC",
    "NO_QUEUES",
    "NO_SPEED",
    "group_of",
    "guards",
    "hit",
    "lossless_group",
    "lossless_queues",
    "pfc_now",
    "queue_of",
    "share",
]

NO_PFC = Missing("which priorities of the port have PFC")
NO_GROUPS = Missing("priority groups of the port")
NO_QUEUES = Missing("queues of the port")
NO_SPEED = Missing("speed of the port")
NO_CABLE = Missing("cable length of the port")


def hit(
    at: PortAt, attribute: str, evidence: str, fix: str | Callable[[], str], severity: Severity | None = None
) -> Hit:
    """A hit where the source has a field of the port."""
    return Hit(at.at(attribute), evidence, fix, severity, at.switch.platform)


def pfc_now(port: Port) -> frozenset[int] | None:
    """Priorities with PFC as far as known: what runs where DCBX decides it, else what is configured."""
    return port.pfc_oper if port.pfc_mode == "auto" else port.pfc


def group_of(port: Port, priority: int) -> int | None:
    """The priority group that sends pause for a priority; without a map it has the same number."""
    return _through(port.pfc_to_pg, priority)


def queue_of(port: Port, priority: int) -> int | None:
    """The queue that stops when a pause for a priority arrives; None for unknown."""
    if port.pfc_to_queue is None and port.tc_to_queue is not None:
        return _through(port.tc_to_queue, priority)  # platforms without the separate map
    return _through(port.pfc_to_queue, priority)


def _through(mapping: QosMap | None, number: int) -> int | None:
    return number if mapping is None or mapping is UNBOUND else mapping.get(number)


def guards(port: Port, tc: int) -> frozenset[int] | None:
    """The PFC priorities that protect a traffic class: those whose group the class is in. None for unknown."""
    pfc, group = pfc_now(port), _through(port.tc_to_pg, tc)
    if pfc is None or group is None:
        return None
    return frozenset(priority for priority in pfc if group_of(port, priority) == group)


def lossless_queues(at: PortAt) -> Iterator[tuple[int, int, Queue] | Missing]:
    """(priority, number, queue) of every priority with PFC, or what is missing to tell."""
    pfc = pfc_now(at.port)
    if pfc is None:
        yield NO_PFC
        return
    for priority in sorted(pfc):
        number = queue_of(at.port, priority)
        queue = None if number is None else at.port.queue(number)
        if number is None or queue is None:
            yield NO_QUEUES
        else:
            yield priority, number, queue


def lossless_group(at: PortAt, priority: int) -> PriorityGroup | None:
    """The priority group of a PFC priority, where the source has it."""
    number = group_of(at.port, priority)
    return None if at.port.groups is None or number is None else at.port.groups.get(number)


def share(port: Port, number: int) -> float | None:
    """A queue's part of the weights of the port's weighted queues, 0 to 1; 1 for a strict one. None for unknown."""
    queue = port.queue(number)
    scheduler = queue.scheduler if queue else None
    if scheduler is None or scheduler.kind is None:
        return None
    if scheduler.kind == "strict":
        return 1.0
    if scheduler.weight is None or port.queues is None:
        return None
    weights = [each.scheduler.weight or 0 for each in port.queues.values() if each.scheduler]
    return scheduler.weight / sum(weights) if sum(weights) else None
