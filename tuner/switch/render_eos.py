"""The class of fabric.yaml as Arista EOS configuration lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.switch.intended import Intended

__all__ = ["render"]

_MTU = 9214  # the most that EOS does on every platform; it counts the IP packet
_PROFILE = "ROCE"


def render(wanted: Intended) -> str:
    """Lines for a configure session."""
    return "\n".join([*_maps(wanted), *_watchdog(wanted), *_profile(wanted), *_interfaces(wanted), "end"]) + "\n"


def _maps(wanted: Intended) -> Iterator[str]:
    targets: dict[int, list[int]] = {}
    for dscp, tc in wanted.dscp_to_tc.items():
        targets.setdefault(tc, []).append(dscp)
    for tc, dscps in sorted(targets.items()):
        yield f"qos map dscp {' '.join(str(dscp) for dscp in dscps)} to traffic-class {tc}"
    for queue in sorted({*wanted.weights, *wanted.strict}):
        yield f"qos map traffic-class {queue} to tx-queue {queue}"


def _watchdog(wanted: Intended) -> Iterator[str]:
    if wanted.lossless:
        start = "priority-flow-control pause watchdog"
        yield from (f"{start} default timeout 0.2", f"{start} default recovery-time 0.2")
        yield from (f"{start} default polling-interval 0.1", f"{start} action drop")


def _profile(wanted: Intended) -> Iterator[str]:
    yield from ("!", f"qos profile {_PROFILE}")
    if wanted.lossless:
        yield "   priority-flow-control on"
        yield from (f"   priority-flow-control priority {each} no-drop" for each in sorted(wanted.lossless))
    ecn = wanted.qos.ecn
    for queue in sorted({*wanted.weights, *wanted.strict}):
        yield from ("   !", f"   tx-queue {queue}")
        if queue in wanted.strict:
            yield "      priority strict"
        else:
            yield from ("      no priority", f"      bandwidth percent {wanted.weights[queue]}")
        if ecn.enabled and queue in wanted.roce:
            thresholds = f"minimum-threshold {ecn.kmin} bytes maximum-threshold {ecn.kmax} bytes"
            yield f"      random-detect ecn {thresholds} max-mark-probability {max(1, round(ecn.pmax))} weight 0"


def _interfaces(wanted: Intended) -> Iterator[str]:
    for port in wanted.ports:
        yield from ("!", f"interface {port.name}", f"   description {port.other}", f"   mtu {_MTU}")
        yield from ("   no switchport", "   qos trust dscp", f"   service-profile {_PROFILE}")
