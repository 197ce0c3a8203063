"""S06, S08-S11, S16: marking, watchdog and weights of lossless queues."""

from __future__ import annotations

from collections.abc import Iterator

from conf.qos import Ecn as Wanted
from tuner.lint import remedy
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.switch_words import NO_PFC, hit, lossless_queues, pfc_now, share
from tuner.lint.rules.words import numbers
from tuner.lint.subjects import PortAt
from tuner.switch.model import Ecn, Queue

__all__ = ["RULES"]

_RETRY_BUDGET_MS = 470
"""7 retries of 4.096 µs × 2^14: the defaults of perftest, of rdma_cm users and of NCCL before 2.14."""
_SKEW = 2
_LEAST_SHARE = 0.1
_ROUNDING = 0.05
"""Platforms keep thresholds in cells, segments or kilobytes (of 1000 or of 1024 bytes): less is no difference."""


@rule(
    "S06",
    Severity.HIGH,
    Scope.PORT,
    title="Lossless queue without ECN, or with Kmin above Kmax",
    why="Without marks nothing slows senders down but PFC, which stops whole ports, then whole switches. With Kmin"
    " above Kmax the hardware refuses the profile, or marks all or nothing.",
    source="DCQCN (SIGCOMM 2015); SONiC WRED_PROFILE (sonic-wred-profile.yang)",
    fix="A WRED profile with ecn_all on the lossless queue.",
)
def no_ecn(at: PortAt) -> Verdict:
    if at.qos and not at.qos.ecn.enabled:
        return  # off by intent: congestion control is the receivers'
    bare: list[int] = []
    for found in _marked_queues(at):
        if isinstance(found, Missing):
            yield found
        elif found[2].ecn is None or found[2].ecn.enabled is None:
            yield Missing("ECN of a lossless queue")
        elif not found[2].ecn.enabled:
            bare.append(found[1])
        elif _reversed(found[2].ecn):
            evidence = f"Kmin {found[2].ecn.kmin} B is above Kmax {found[2].ecn.kmax} B"
            fix = _marking(at, found[1])
            yield Hit(_profile(at, found[2].ecn), evidence, fix, platform=at.switch.platform)
    if bare:
        kind = "lossless" if at.qos is None or at.qos.lossless.pfc else "RoCE's"
        yield hit(at, "queues", f"{kind} queue {numbers(bare)} has no ECN", lambda: _marking(at, bare[0]))


def _marked_queues(at: PortAt) -> Iterator[tuple[int, int, Queue] | Missing]:
    """The lossless queues, or RoCE's where it is to run without PFC."""
    if at.qos is None or at.qos.lossless.pfc:
        yield from lossless_queues(at)
    elif at.facing:
        tc = at.port.tc_of(at.qos.lossless.dscp)
        number = None if tc is None else at.port.queue_of(tc)
        queue = None if number is None else at.port.queue(number)
        if number is None or queue is None:
            yield Missing("RoCE's queue on the switch port")
        else:
            yield at.qos.lossless.priority, number, queue


def _reversed(ecn: Ecn) -> bool:
    return ecn.kmin is not None and ecn.kmax is not None and ecn.kmin > ecn.kmax


def _profile(at: PortAt, ecn: Ecn) -> str:
    return f"{at.switch.name} {ecn.place or at.port.place('queues')}"


def _marking(at: PortAt, queue: int) -> str:
    ecn = at.qos.ecn if at.qos else None
    low, high, most = (ecn.kmin, ecn.kmax, ecn.pmax) if ecn else (1 << 20, 1 << 21, 5.0)
    return remedy.ecn(at.switch, at.port, queue, low, high, most)


@rule(
    "S08",
    Severity.INFO,
    Scope.PORT,
    title="Kmin equals Kmax",
    why="Marking is a step: no packet, then every packet. DCTCP wants that; DCQCN's senders then slow down all at"
    " once.",
    source="Alizadeh et al., DCTCP (SIGCOMM 2010); DCQCN (SIGCOMM 2015)",
    fix="Kmax above Kmin, unless the step is meant.",
)
def step_marking(at: PortAt) -> Verdict:
    for found in lossless_queues(at):
        if isinstance(found, Missing):
            yield found
        elif found[2].ecn is None:
            yield Missing("ECN of a lossless queue")
        elif found[2].ecn.enabled and found[2].ecn.kmin is not None and found[2].ecn.kmin == found[2].ecn.kmax:
            evidence = f"Kmin and Kmax are both {found[2].ecn.kmin} B"
            yield Hit(_profile(at, found[2].ecn), evidence, _marking(at, found[1]), platform=at.switch.platform)


@rule(
    "S09",
    Severity.HIGH,
    Scope.PORT,
    title="No PFC watchdog, or one that looks less often than it should notice",
    why="One NIC that pauses for ever stops its switch port, the ports that feed it, and in the end the fabric. The"
    " watchdog is what ends this; with a detection time below the poll interval it acts late or at random.",
    source="Guo et al., RDMA over Commodity Ethernet at Scale (SIGCOMM 2016), 4.3; SONiC PFC_WD (sonic-pfcwd.yang)",
    fix="A watchdog on every port with PFC, detection at least the poll interval.",
)
def watchdog(at: PortAt) -> Verdict:
    pfc, dog = pfc_now(at.port), at.port.watchdog
    if pfc is None:
        yield NO_PFC
    elif pfc and (dog is None or dog.enabled is None):
        if _whole(at):
            evidence = "PFC is on, and the configuration has no watchdog (no PFC_WD)"
            yield hit(at, "watchdog", evidence, lambda: remedy.watchdog(at.switch, at.port))
        else:
            yield Missing("PFC watchdog of the port")
    elif pfc and dog and not dog.enabled:
        yield hit(at, "watchdog", "PFC is on, the port has no watchdog", lambda: remedy.watchdog(at.switch, at.port))
    elif pfc and dog:
        yield from _polls(at)
        if dog.priorities is not None and not dog.priorities & pfc:
            evidence = f"the watchdog looks at priority {numbers(dog.priorities)}, PFC is on {numbers(pfc)}"
            yield hit(at, "watchdog", evidence, lambda: remedy.watchdog(at.switch, at.port))


def _whole(at: PortAt) -> bool:
    """All of a SONiC configuration, ports included: what is not in it is not set. A part of one leaves it open."""
    return at.switch.platform == "sonic" and at.port.speed is not None and not at.switch.partial


def _polls(at: PortAt) -> Verdict:
    dog, poll = at.port.watchdog, at.switch.watchdog_poll
    if dog and dog.detection is not None and poll is not None and dog.detection < poll:
        evidence = f"detection time {dog.detection:g} ms is below the poll interval of {poll} ms"
        yield hit(at, "watchdog", evidence, lambda: remedy.watchdog(at.switch, at.port, detection=2 * poll))


@rule(
    "S10",
    Severity.MEDIUM,
    Scope.PORT,
    title="Watchdog detects later than RoCE connections give up",
    why="A queue pair that gets no answer is retried and then torn down. If that happens before the watchdog acts,"
    " it saves the fabric and not the job.",
    source="InfiniBand Architecture Specification, local ACK timeout: timeout 14 and 7 retries are 470 ms; NCCL"
    " since 2.14 waits longer",
    fix="A detection time of 200 to 400 ms, or a larger NCCL_IB_TIMEOUT.",
)
def late_watchdog(at: PortAt) -> Verdict:
    pfc, dog = pfc_now(at.port), at.port.watchdog
    if pfc is None:
        yield NO_PFC
    elif pfc and (dog is None or (dog.enabled and dog.detection is None)):
        yield Missing("detection time of the PFC watchdog")
    elif pfc and dog and dog.enabled and dog.detection is not None and dog.detection > _RETRY_BUDGET_MS:
        evidence = (
            f"detection time is {dog.detection:g} ms; a connection with default timeouts lasts {_RETRY_BUDGET_MS} ms"
        )
        yield hit(at, "watchdog", evidence, lambda: remedy.watchdog(at.switch, at.port))


@rule(
    "S11",
    Severity.MEDIUM,
    Scope.PORT,
    title="Weights of lossless queues are skewed",
    why="Two lossless classes with different weights get different bandwidth under load: jobs that are alike run"
    " unlike. A lossless queue with next to no weight pauses its senders whenever the others are busy.",
    source="SONiC SCHEDULER (sonic-scheduler.yang); DWRR shares the link by weight",
    fix="Equal weights for lossless queues, and at least a tenth of all.",
)
def skewed_weights(at: PortAt) -> Verdict:
    weights: dict[int, int] = {}
    for found in lossless_queues(at):
        if isinstance(found, Missing):
            yield found
            continue
        _, number, queue = found
        if queue.scheduler is None or queue.scheduler.kind is None:
            yield Missing("scheduler of a lossless queue")
        elif queue.scheduler.kind != "strict" and queue.scheduler.weight is not None:
            weights[number] = queue.scheduler.weight
    if weights and max(weights.values()) >= _SKEW * min(weights.values()):
        evidence = "lossless queues have weights " + ", ".join(
            f"{queue}: {each}" for queue, each in sorted(weights.items())
        )
        lightest = min(weights, key=weights.__getitem__)
        yield hit(at, "queues", evidence, lambda: remedy.weight(at.switch, at.port, lightest, max(weights.values())))
        return
    for number in weights:
        part = share(at.port, number)
        if part is not None and part < _LEAST_SHARE:
            evidence = f"lossless queue {number} has {part:.0%} of the weights"
            yield hit(at, "queues", evidence, _heavier(at, number))


def _heavier(at: PortAt, number: int) -> str:
    return remedy.weight(at.switch, at.port, number, at.qos.lossless.bandwidth if at.qos else 50)


@rule(
    "S16",
    Severity.MEDIUM,
    Scope.PORT,
    title="ECN marking is not what fabric.yaml says",
    why="DCQCN's parameters on the hosts and the pause thresholds on the switches were chosen for these Kmin, Kmax and"
    " Pmax: marking earlier costs throughput, later lets PFC come first. Where fabric.yaml wants no ECN, senders say"
    " that they cannot be marked, and WRED drops their packets instead.",
    source="DCQCN (SIGCOMM 2015), 4; RFC 3168, 7: what is not ECN-capable is dropped where other packets are marked",
    fix="The WRED profile that `roceway-tune render` writes, or the thresholds that are meant in qos.ecn.",
)
def other_marking(at: PortAt) -> Verdict:
    if at.marking is None:
        yield Missing("ECN that is wanted (fabric.yaml)")
        return
    for found in _marked_queues(at) if at.facing else ():
        if isinstance(found, Missing):
            yield found
        elif found[2].ecn is None or found[2].ecn.enabled is None:
            yield Missing("ECN of a lossless queue")
        elif found[2].ecn.enabled:  # S06 has the opposite
            yield from _unlike(at, found[1], found[2].ecn, at.marking)


def _unlike(at: PortAt, queue: int, ecn: Ecn, wanted: Wanted) -> Verdict:
    if wanted.enabled and (ecn.kmin, ecn.kmax, ecn.pmax) == (wanted.kmin, wanted.kmax, wanted.pmax):
        return  # nearly always: a fabric has 40,000 ports
    if not wanted.enabled:
        evidence = "the queue is marked by WRED, fabric.yaml wants no ECN: packets are dropped there instead of marked"
        fix = f"no WRED profile on queue {queue}, or qos.ecn.enabled: true"
        yield Hit(_profile(at, ecn), evidence, fix, Severity.HIGH, at.switch.platform)
        return
    values = {"Kmin": (ecn.kmin, wanted.kmin), "Kmax": (ecn.kmax, wanted.kmax), "Pmax": (ecn.pmax, wanted.pmax)}
    told = {name: (seen, want) for name, (seen, want) in values.items() if seen is not None}
    if len(told) < len(values):
        yield Missing(f"{', '.join(name for name in values if name not in told)} of a lossless queue")
    unlike = [
        f"{name} is {_plain(seen)}, wanted {_plain(want)} {'%' if name == 'Pmax' else 'B'}"
        for name, (seen, want) in told.items()
        if abs(seen - want) > _ROUNDING * max(seen, want)
    ]
    if unlike:
        yield Hit(_profile(at, ecn), "; ".join(unlike), lambda: _marking(at, queue), platform=at.switch.platform)


def _plain(value: float) -> str:
    return format(value, "g") if isinstance(value, float) else str(value)


RULES: tuple[Rule, ...] = (no_ecn, step_marking, watchdog, late_watchdog, skewed_weights, other_marking)
