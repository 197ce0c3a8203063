"""Where a switch differs from what fabric.yaml calls for, setting by setting. Pure.

Compared is what a setting *does* (DSCP 26 goes to queue 3, that queue is marked from 1 MiB on), not what it is called:
a map named AZURE that does the same as ours is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from conf.units import format_bytes, format_length, format_speed
from tuner.switch.intended import Intended
from tuner.switch.model import Port, Switch

__all__ = ["Difference", "compare"]

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting, with all the ports on which it differs in the same way."""

    setting: str
    saved: str
    wanted: str
    ports: tuple[str, ...]
    place: str
    """Where the first of the ports has it."""


def compare(saved: Switch, wanted: Intended, rendered: Switch) -> tuple[Difference, ...]:
    """What differs on the ports that fabric.yaml has cables for; ``rendered`` is the wanted configuration read back."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for name, want in rendered.ports.items():
        have = saved.ports.get(name)
        if have is None:
            found.setdefault(("port", "not there", "there"), []).append((name, ""))
            continue
        for setting, field, one, other in _settings(have, want, wanted):
            if one != other:
                found.setdefault((setting, one, other), []).append((name, have.place(field)))
    return tuple(
        Difference(setting, one, other, tuple(name for name, _ in ports), ports[0][1])
        for (setting, one, other), ports in found.items()
    )


def _settings(have: Port, want: Port, wanted: Intended) -> Iterator[tuple[str, str, str, str]]:
    """Setting, field of the port, as saved, as wanted; only what the intent says something about."""
    for setting, field, tell in _SIMPLE:
        other = tell(want)
        if other != _UNKNOWN:
            yield setting, field, tell(have), other
    for dscp in _dscps(have, want, wanted):
        yield f"DSCP {dscp}", "dscp_to_tc", _way(have, dscp), _way(want, dscp)
    for priority in (*wanted.roce, wanted.qos.cnp.priority):
        yield from _queue(have, want, priority)


def _dscps(have: Port, want: Port, wanted: Intended) -> list[int]:
    """The classes' code points, and others that are or would be in a lossless class."""
    lossless = {*wanted.lossless} | {*(have.pfc or ())}
    own = [wanted.qos.lossless.dscp, *(each.dscp for each in wanted.qos.also), wanted.qos.cnp.dscp]
    astray = [dscp for dscp in range(64) if dscp not in own and {have.tc_of(dscp), want.tc_of(dscp)} & lossless]
    return [*own, *astray]


def _way(port: Port, dscp: int) -> str:
    """``class 3, queue 3, lossless``."""
    tc = port.tc_of(dscp)
    if tc is None:
        return _UNKNOWN
    queue = port.queue_of(tc)
    kind = "" if port.pfc is None else ", lossless" if tc in port.pfc else ", lossy"
    return f"class {tc}, queue {_UNKNOWN if queue is None else queue}{kind}"


def _queue(have: Port, want: Port, priority: int) -> Iterator[tuple[str, str, str, str]]:
    """Scheduling and marking of the queue that a class is in, be its number what it may."""
    number = want.queue_of(priority)
    other = None if number is None else want.queue(number)
    mine = have.queue_of(priority)
    one = None if mine is None else have.queue(mine)
    if other is None:
        return
    for what, tell in (("scheduling", _scheduling), ("ECN", _marking)):
        yield f"{what} of class {priority}", "queues", tell(one), tell(other)


def _scheduling(queue: object) -> str:
    scheduler = getattr(queue, "scheduler", None)
    if scheduler is None or scheduler.kind is None:
        return _UNKNOWN
    return "strict" if scheduler.kind == "strict" else f"weight {scheduler.weight}"


def _marking(queue: object) -> str:
    ecn = getattr(queue, "ecn", None)
    if ecn is None or ecn.enabled is None:
        return _UNKNOWN
    if not ecn.enabled:
        return "off"
    low, high = (_UNKNOWN if each is None else format_bytes(each) for each in (ecn.kmin, ecn.kmax))
    return f"{low} to {high}, {_UNKNOWN if ecn.pmax is None else f'{ecn.pmax:g}%'}"


def _trust(port: Port) -> str:
    if port.trust is None:
        return _UNKNOWN
    return " and ".join(sorted(port.trust)) or "nothing"


def _pfc(port: Port) -> str:
    if port.pfc is None:
        return _UNKNOWN
    return ",".join(str(priority) for priority in sorted(port.pfc)) or "off"


def _watchdog(port: Port) -> str:
    dog = port.watchdog
    if dog is None or dog.enabled is None:
        return _UNKNOWN
    if not dog.enabled:
        return "off"
    return f"after {_UNKNOWN if dog.detection is None else f'{dog.detection:g} ms'}"


_SIMPLE = (
    ("speed", "speed", lambda port: _UNKNOWN if port.speed is None else format_speed(port.speed)),
    ("MTU", "mtu", lambda port: _UNKNOWN if port.mtu is None else str(port.mtu)),
    ("cable", "cable", lambda port: _UNKNOWN if port.cable is None else format_length(port.cable)),
    ("trust", "trust", _trust),
    ("PFC", "pfc", _pfc),
    ("watchdog", "watchdog", _watchdog),
)
