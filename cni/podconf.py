"""The netconf's words on GPUs, policy and NCCL as values, with every mistake found. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from conf.errors import Finding

__all__ = ["DISTANCES", "Nccl", "Policy", "parse_nccl", "parse_policy"]

DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Names of cni.topology.Distance from 1, whose import only pods with GPUs should pay for; a test holds them equal."""

_VERDICTS = ("refuse", "warn", "ignore")
_UNKNOWN = ("refuse", "ignore")
_TRAFFIC_CLASS_MAX = 255


class Policy(NamedTuple):
    """What to do about a pod whose GPUs do not all get rails of their own: ``refuse``, ``warn`` or ``ignore``."""

    missing: str = "refuse"
    """A GPU of the pod has no rail, or the pod does not take it."""
    foreign: str = "warn"
    """The pod takes a rail that belongs to a GPU of others."""
    far: str = "warn"
    """A rail's NIC is farther from its GPU than ``farthest``, or than another usable NIC of the node."""
    farthest: int = DISTANCES.index("NODE") + 1
    """A cni.topology.Distance."""
    unknown: str = "refuse"
    """``refuse`` or ``ignore``: what to do where nobody can say which GPUs the pod was given."""


class Nccl(NamedTuple):
    """What the fabric file says for a pod's nccl.conf."""

    traffic_class: int | None = None
    """NCCL_IB_TC: DSCP and ECN bits, 0 to 255; None leaves it to NCCL."""
    cross_nic: int = 0
    """NCCL_CROSS_NIC."""
    socket_interface: str = "eth0"
    """NCCL_SOCKET_IFNAME."""


def parse_policy(raw: object) -> tuple[Policy, list[Finding]]:
    """``{"missing": "refuse", …}``; what is left out has its default."""
    default = Policy()
    if not isinstance(raw, Mapping):
        return default, [Finding("policy", "must be an object such as {missing: refuse}")]
    findings = _unknown(raw, Policy._fields, "policy")

    def choice(key: str, allowed: Sequence[str], fallback: str) -> str:
        return _choice(raw, key, allowed, fallback, findings, "policy")

    policy = Policy(
        missing=choice("missing", _VERDICTS, default.missing),
        foreign=choice("foreign", _VERDICTS, default.foreign),
        far=choice("far", _VERDICTS, default.far),
        farthest=DISTANCES.index(choice("farthest", DISTANCES, DISTANCES[default.farthest - 1])) + 1,
        unknown=choice("unknown", _UNKNOWN, default.unknown),
    )
    return policy, findings


def parse_nccl(raw: object) -> tuple[Nccl, list[Finding]]:
    """``{"trafficClass": 106, "crossNic": 0, "socketInterface": "eth0"}``; each may be left out."""
    default = Nccl()
    if not isinstance(raw, Mapping):
        return default, [Finding("nccl", "must be an object such as {trafficClass: 106}")]
    findings = _unknown(raw, ("trafficClass", "crossNic", "socketInterface"), "nccl")
    interface = raw.get("socketInterface", default.socket_interface)
    if not isinstance(interface, str) or not interface or not interface.isprintable() or " " in interface:
        findings.append(Finding("nccl.socketInterface", f"{interface!r} is no interface's name"))
        interface = default.socket_interface
    traffic_class = _number(raw, "trafficClass", _TRAFFIC_CLASS_MAX, None, findings)
    cross_nic = _number(raw, "crossNic", 2, default.cross_nic, findings)
    return Nccl(traffic_class, cross_nic or 0, interface), findings


def _unknown(raw: Mapping[str, Any], known: Sequence[str], path: str) -> list[Finding]:
    return [Finding(f"{path}.{key}", f"unknown key (value {raw[key]!r})") for key in raw if key not in known]


def _choice(
    raw: Mapping[str, Any], key: str, allowed: Sequence[str], fallback: str, findings: list[Finding], path: str
) -> str:
    value = raw.get(key, fallback)
    if value in allowed:
        return str(value)
    findings.append(Finding(f"{path}.{key}", f"{value!r} is none of {', '.join(allowed)}"))
    return fallback


def _number(raw: Mapping[str, Any], key: str, most: int, fallback: int | None, findings: list[Finding]) -> int | None:
    value = raw.get(key, fallback)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most):
        return value
    findings.append(Finding(f"nccl.{key}", f"{value!r} is no number from 0 to {most}"))
    return fallback
