"""The class of fabric.yaml as Cisco NX-OS configuration lines, for the eight-queue model. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.switch.intended import MTU, Intended

__all__ = ["render"]


def render(wanted: Intended) -> str:
    """Lines for configuration mode."""
    parts = (_classes(wanted), _classify(wanted), _queuing(wanted), _network(wanted), _system(), _interfaces(wanted))
    return "\n".join(line for part in parts for line in part) + "\n"


def _by_class(wanted: Intended) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for dscp, tc in wanted.dscp_to_tc.items():
        if tc:
            found.setdefault(tc, []).append(dscp)
    return dict(sorted(found.items()))


def _classes(wanted: Intended) -> Iterator[str]:
    for tc, dscps in _by_class(wanted).items():
        yield from (f"class-map type qos match-any ROCE-{tc}", f"  match dscp {','.join(str(each) for each in dscps)}")


def _classify(wanted: Intended) -> Iterator[str]:
    yield "policy-map type qos ROCE-IN"
    for tc in _by_class(wanted):
        yield from (f"  class ROCE-{tc}", f"    set qos-group {tc}")


def _name(queue: int) -> str:
    return f"c-out-8q-q{queue}" if queue else "c-out-8q-q-default"


def _queuing(wanted: Intended) -> Iterator[str]:
    yield "policy-map type queuing ROCE-OUT"
    ecn = wanted.qos.ecn
    for queue in sorted({*wanted.weights, *wanted.strict}, reverse=True):
        yield f"  class type queuing {_name(queue)}"
        if queue in wanted.strict:
            yield "    priority level 1"
        else:
            yield f"    bandwidth remaining percent {wanted.weights[queue]}"
        if ecn.enabled and queue in wanted.roce:
            thresholds = f"minimum-threshold {ecn.kmin} bytes maximum-threshold {ecn.kmax} bytes"
            yield f"    random-detect {thresholds} drop-probability {max(1, round(ecn.pmax))} weight 0 ecn"


def _network(wanted: Intended) -> Iterator[str]:
    yield "policy-map type network-qos ROCE-NETWORK"
    for priority in sorted(wanted.lossless):
        yield from (f"  class type network-qos c-8q-nq{priority}", f"    mtu {MTU}", f"    pause pfc-cos {priority}")
    yield from ("  class type network-qos c-8q-nq-default", f"    mtu {MTU}")


def _system() -> Iterator[str]:
    yield "system qos"
    yield "  service-policy type network-qos ROCE-NETWORK"
    yield "  service-policy type queuing output ROCE-OUT"


def _interfaces(wanted: Intended) -> Iterator[str]:
    if wanted.lossless:
        yield "priority-flow-control watch-dog-interval value 100"
        yield "priority-flow-control watch-dog shutdown-multiplier 2"
        yield "priority-flow-control watch-dog auto-restore multiplier 2"
    for port in wanted.ports:
        yield f"interface {port.name}"
        yield f"  description {port.other}"
        yield f"  priority-flow-control mode {'on' if wanted.lossless else 'off'}"
        if wanted.lossless:
            yield "  priority-flow-control watch-dog-interval on"
        if port.speed:
            yield f"  speed {port.speed}"
        yield from (f"  mtu {MTU}", "  service-policy type qos input ROCE-IN")
