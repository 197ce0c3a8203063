"""What the tuner last found on this host's rails, in the small file that the agent's device health goes by. Root only.

``verify.json`` in the state directory, replaced whole: ``{"version": 1, "at": "…", "nics": [{"rail": "rail0", "pci":
"0000:18:00.0", "netdev": "eth2", "findings": ["PFC off delay 7 → 3 delay 3"]}]}``. A NIC with findings must be given to
no pod. ``verify``, ``apply`` and ``watch`` write it. A file from before the last boot says nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass

from host.errors import HostError
from tuner.machine import now
from tuner.nic import HostQos
from tuner.plan import NicPlan
from tuner.record import decode, encode

__all__ = ["FILE", "Health", "Verdict", "of_plans", "read", "write"]

FILE = "verify.json"
_VERSION = 1
_MOST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One rail's NIC."""

    rail: str
    pci: str
    """Empty where it has no PCI address, or fabric.yaml names a netdev that is not there."""
    netdev: str
    """Empty where a pod has it."""
    findings: tuple[str, ...] = ()
    """What is not as wanted, or who must act first; empty where all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One look at a host."""

    at: str
    """ISO 8601, UTC."""
    nics: tuple[Health, ...]
    version: int = _VERSION


def of_plans(plans: Iterable[NicPlan], seen: HostQos) -> Verdict:
    """A NIC is well when nothing is to be done to it and nothing blocks it."""
    return Verdict(at=now(), nics=tuple(_health(plan, seen) for plan in plans))


def _health(plan: NicPlan, seen: HostQos) -> Health:
    nic = seen.nic(plan.rail) or seen.nic(plan.nic)
    by_address = ":" in plan.nic
    pci = nic.pci.address if nic is not None and nic.pci is not None else plan.nic if by_address else ""
    findings = (*plan.blocked, *(step.change for step in plan.steps))
    return Health(rail=plan.rail, pci=pci, netdev="" if by_address else plan.nic, findings=findings)


def write(state: str, verdict: Verdict) -> None:
    """Replace the file. HostError where it cannot be written."""
    path = os.path.join(state, FILE)
    try:
        os.makedirs(state, mode=0o700, exist_ok=True)
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(encode(verdict), file)
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise HostError("write", path, error.errno or 0) from error


def read(state: str) -> Verdict | None:
    """What was last found; None where nothing was, or the file cannot be understood."""
    try:
        with open(os.path.join(state, FILE)) as file:
            return decode(Verdict, json.loads(file.read(_MOST)), "verdict")
    except (OSError, ValueError):
        return None
