"""S04, S05, S07, L08, L09: headroom, cable lengths, and whether marking starts before pausing."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from conf.units import format_length, format_speed
from tuner import headroom
from tuner.lint import remedy
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.switch_words import (
    NO_CABLE,
    NO_GROUPS,
    NO_PFC,
    NO_SPEED,
    hit,
    lossless_group,
    lossless_queues,
    pfc_now,
)
from tuner.lint.subjects import PortAt, SwitchAt
from tuner.switch.model import BufferPool, PriorityGroup

__all__ = ["RULES"]

_STANDARD = (5.0, 40.0, 300.0)
"""Metres; the lengths that SONiC's lookup tables have rows for. A cable counts as the next longer one."""
_GENEROUS = 1.5  # a told length beyond this many times the cable's, and 5 m more, is not rounding
_NO_POOL = Missing("size of the buffer pool (the buffer manager works it out)")


@rule(
    "S04",
    Severity.CRITICAL,
    Scope.PORT,
    title="Headroom is too small for speed and cable",
    why="After the pause is sent, one round trip of the cable, the neighbour's reaction time and the packets already"
    " begun still arrive. What does not fit is dropped, in the class that promised not to drop.",
    source="SONiC pg_profile_lookup.ini; reproduces the 39 rows of the MSN4700 and MSN3700 tables",
    fix="A lossless profile with the xoff that `roceway-tune headroom --model sonic-static` says.",
)
def too_little_headroom(at: PortAt) -> Verdict:
    pfc = pfc_now(at.port)
    if pfc is None:
        yield NO_PFC
        return
    if pfc and at.port.groups is None:
        yield NO_GROUPS
        return
    for priority in sorted(pfc):
        group = lossless_group(at, priority)
        if group and group.profile and group.profile.xoff is not None:
            yield from _headroom(at, group)


def _headroom(at: PortAt, group: PriorityGroup) -> Verdict:
    xoff = group.profile.xoff if group.profile else None
    metres = max((each for each in (at.port.cable, at.cable) if each is not None), default=None)
    if at.speed is None:
        yield NO_SPEED
    elif not metres:
        yield NO_CABLE
    elif xoff is not None and xoff < (need := _need(at, at.speed, metres)):
        what = f"{format_speed(at.speed)} over {format_length(metres)}"
        evidence = f"xoff of {group.profile.name if group.profile else ''} is {xoff} B; {what} needs {need} B"
        profile = group.profile.name if group.profile else ""
        fix = remedy.sonic_patch((("BUFFER_PROFILE", profile, "xoff"), str(need)))
        yield hit(at, "groups", evidence, fix if at.switch.platform == "sonic" else f"headroom of at least {need} B")


def _need(at: PortAt, speed: int, metres: float) -> int:
    """The vendor's own row where there is one, else the model."""
    row = next((row for row in at.switch.lookup or () if (row.speed, row.cable) == (speed, metres)), None)
    return _static(speed, metres) if row is None else row.xoff


@cache
def _static(speed: int, metres: float) -> int:
    """The model reckons in exact fractions; a fabric has few pairs of speed and length."""
    return headroom.sonic_static(speed, metres)


@rule(
    "S05",
    Severity.MEDIUM,
    Scope.SWITCH,
    title="Shared headroom pool is too small",
    why="Headroom that ports share is reckoned on not all of them pausing at once. Below that reckoning the last"
    " ones to pause drop.",
    source="SONiC shared headroom pool: BUFFER_POOL.xoff, DEFAULT_LOSSLESS_BUFFER_PARAMETER.over_subscribe_ratio",
    fix="A larger BUFFER_POOL xoff, or a smaller over_subscribe_ratio.",
)
def shared_headroom(at: SwitchAt) -> Verdict:
    if at.switch.pools is None:
        yield Missing("buffer pools of the switch")
        return
    for pool in at.switch.pools.values():
        if pool.xoff is None or pool.type == "egress":
            continue
        sizes = [xoff for port in at.ports for xoff in _xoffs(port, pool)]
        if not sizes:
            yield Missing("headroom of the ports' lossless groups")
            continue
        ratio = at.switch.over_subscribe_ratio
        need = sum(sizes) // ratio if ratio else max(sizes)
        if pool.xoff < need:
            how = f"{sum(sizes)} B of {len(sizes)} groups at ratio {ratio}" if ratio else "the largest single group"
            evidence = f"shared headroom of {pool.name} is {pool.xoff} B; {how} needs {need} B"
            fix = remedy.sonic_patch((("BUFFER_POOL", pool.name, "xoff"), str(need)))
            yield Hit(at.at(pool.place), evidence, fix, platform=at.switch.platform)


def _xoffs(at: PortAt, pool: BufferPool) -> Iterator[int]:
    """Headroom that a port takes from a pool, one value for each priority with PFC."""
    for priority in pfc_now(at.port) or ():
        group = lossless_group(at, priority)
        profile = group.profile if group else None
        if profile and profile.xoff is not None and (profile.pool is None or profile.pool.name == pool.name):
            yield profile.xoff


class _Trigger(NamedTuple):
    """The fill level of a class at which the port sends a pause."""

    bytes: int
    how: str
    exact: bool
    """It does not depend on how many senders there are."""


@rule(
    "S07",
    Severity.HIGH,
    Scope.PORT,
    title="Marking starts only after pausing",
    why="ECN is to slow senders down before PFC has to stop them. With Kmin above the pause threshold, marks come"
    " late or never: congestion spreads hop by hop as pauses.",
    source="Zhu et al., DCQCN (SIGCOMM 2015), 4; with one dynamic pool T = αB/(1 + nα)",
    fix="Kmin below the threshold: a smaller green_min_threshold, or a larger dynamic_th.",
)
def kmin_above_trigger(at: PortAt) -> Verdict:
    for found in lossless_queues(at):
        if isinstance(found, Missing):
            yield found
            continue
        priority, number, queue = found
        if queue.ecn is None or (queue.ecn.enabled and queue.ecn.kmin is None):
            yield Missing("ECN thresholds of a lossless queue")
        elif queue.ecn.enabled and queue.ecn.kmin is not None:
            trigger = _trigger(at, priority)
            if isinstance(trigger, Missing):
                yield trigger
            elif queue.ecn.kmin > trigger.bytes:
                yield _late(at, number, queue.ecn.kmin, queue.ecn.place, trigger)


def _late(at: PortAt, number: int, kmin: int, place: str, trigger: _Trigger) -> Hit:
    evidence = f"Kmin is {kmin} B, the pause threshold is {trigger.bytes} B ({trigger.how})"
    severity = None if trigger.exact or at.incast > 1 else Severity.INFO
    low = trigger.bytes // 2
    name = place.partition("|")[2]
    fix = remedy.sonic_patch((("WRED_PROFILE", name, "green_min_threshold"), str(low)))
    text = fix if at.switch.platform == "sonic" else remedy.ecn(at.switch, at.port, number, low, 2 * low, 5)
    return Hit(f"{at.switch.name} {place or at.port.place('queues')}", evidence, text, severity, at.switch.platform)


def _trigger(at: PortAt, priority: int) -> _Trigger | Missing:
    if at.port.groups is None:
        return NO_GROUPS
    group = lossless_group(at, priority)
    if group is None:
        return Missing("lossless priority group of the port")
    profile = group.profile
    if profile and profile.static_th is not None:
        return _Trigger(profile.static_th, f"static_th of {profile.name}", True)
    exponent = profile.dynamic_th if profile else (at.switch.default_dynamic_th if group.automatic else None)
    if exponent is not None:
        return _dynamic(at, exponent, _pool(at, group))
    if profile and profile.size is not None and profile.xoff is not None and profile.size > profile.xoff:
        return _Trigger(profile.size - profile.xoff, f"size − xoff of {profile.name}", True)
    return Missing("pause threshold of the priority group")


def _pool(at: PortAt, group: PriorityGroup) -> BufferPool | None:
    if group.profile:
        return group.profile.pool
    pools = [pool for pool in (at.switch.pools or {}).values() if pool.type != "egress" and "lossless" in pool.name]
    return pools[0] if len(pools) == 1 else None


@cache
def _threshold(pool: int, exponent: int, incast: int) -> int:
    return headroom.trigger(pool, Fraction(2) ** exponent, incast)


def _dynamic(at: PortAt, exponent: int, pool: BufferPool | None) -> _Trigger | Missing:
    if pool is None or pool.size is None:
        return _NO_POOL
    threshold = _threshold(pool.size, exponent, at.incast)
    return _Trigger(threshold, f"αB/(1+nα) with α 2^{exponent}, B {pool.size} B, n {at.incast}", False)


@rule(
    "L08",
    Severity.HIGH,
    Scope.PORT,
    title="Cable length that the switch was told is wrong",
    why='Headroom follows from it: too short drops under pause. "0m" makes no lossless group at all, whatever PFC'
    " says.",
    source="SONiC CABLE_LENGTH; buffermgrd removes the lossless group of a port with 0m",
    fix="The cable's real length, or the next longer one that the platform has a row for.",
)
def cable_length(at: PortAt) -> Verdict:
    told, pfc = at.port.cable, pfc_now(at.port)
    if told is None:
        yield NO_CABLE
    elif pfc is None and not any(group.lossless for group in (at.port.groups or {}).values()):
        yield NO_PFC
    elif pfc != frozenset():
        yield from _told(at, told)


def _told(at: PortAt, told: float) -> Verdict:
    real = at.cable
    wanted = _next(at, real or _STANDARD[0])
    if told == 0:
        evidence = 'the cable length is "0m": no lossless priority group is made'
        yield hit(at, "cable", evidence, remedy.cable(at.switch, at.port, wanted))
    elif real is not None and told < real:
        evidence = f"the switch reckons with {format_length(told)}, the cable has {format_length(real)}"
        yield hit(at, "cable", evidence, remedy.cable(at.switch, at.port, wanted))
    elif real is not None and told > max(wanted, _GENEROUS * real + 5):
        evidence = (
            f"the switch reckons with {format_length(told)}, the cable has {format_length(real)}: buffer is wasted"
        )
        yield hit(at, "cable", evidence, remedy.cable(at.switch, at.port, wanted), Severity.MEDIUM)


def _next(at: PortAt, metres: float) -> float:
    """The shortest length that there is a row for and that is enough."""
    lengths = {row.cable for row in at.switch.lookup or () if row.speed == at.speed} or {*_STANDARD}
    return min((each for each in lengths if each >= metres), default=metres)


@rule(
    "L09",
    Severity.CRITICAL,
    Scope.PORT,
    title="No headroom row for this speed and cable",
    why="The buffer manager looks speed and cable up, finds nothing, logs one line and leaves the port without a"
    " lossless group: PFC is on and everything drops.",
    source="SONiC buffermgrd and pg_profile_lookup.ini: 5m, 40m and 300m in most of them",
    fix="A cable length that has a row, the next longer one; or a row for it.",
)
def no_row(at: PortAt) -> Verdict:
    pfc = pfc_now(at.port)
    if pfc is None:
        yield NO_PFC
        return
    looked_up = [priority for priority in sorted(pfc) if _looked_up(at, priority)]
    if not looked_up or at.switch.platform != "sonic" or at.switch.buffer_model == "dynamic" or at.port.cable == 0:
        return  # a group with a profile of its own needs no row, the dynamic model has no rows, 0m is L08
    if at.switch.lookup is None:
        yield Missing("pg_profile_lookup.ini")
    elif at.speed is None:
        yield NO_SPEED
    elif at.port.cable is None:
        yield NO_CABLE
    elif not any((row.speed, row.cable) == (at.speed, at.port.cable) for row in at.switch.lookup):
        evidence = f"there is no row for {format_speed(at.speed)} and {format_length(at.port.cable)}"
        yield hit(at, "cable", evidence, remedy.cable(at.switch, at.port, _next(at, at.port.cable)))


def _looked_up(at: PortAt, priority: int) -> bool:
    group = lossless_group(at, priority)
    return group is None or group.automatic


RULES: tuple[Rule, ...] = (too_little_headroom, shared_headroom, kmin_above_trigger, cable_length, no_row)
