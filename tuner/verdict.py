"""What the tuner last found of each rail, in a small file that the agent reads for its device health. Root only.

``verdict.json`` in the state directory: ``{"at", "boot_id", "rails": [{"rail", "nic", "healthy", "reasons"}]}``,
replaced whole. One of another boot says nothing about this one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass

from host.errors import HostError
from tuner.machine import now, text
from tuner.plan import NicPlan
from tuner.record import decode, encode
from tuner.store import STATE

__all__ = ["Health", "Verdict", "of_plans", "read", "write"]

_MOST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One rail."""

    rail: str
    nic: str
    """Netdev, or PCI address where a pod has it."""
    healthy: bool
    reasons: tuple[str, ...] = ()
    """Why not: each step that is still to be done, each reason that blocks it, each event of ``watch``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One look at a host."""

    at: str
    """ISO 8601, UTC."""
    boot_id: str
    rails: tuple[Health, ...]

    def of(self, rail: str) -> Health | None:
        """One rail's, by its name or its NIC's."""
        return next((each for each in self.rails if rail in (each.rail, each.nic)), None)


def of_plans(plans: Iterable[NicPlan], root: str = "/") -> Verdict:
    """A rail is healthy when nothing is to be done to it and nothing blocks it."""
    rails = [
        Health(
            rail=plan.rail,
            nic=plan.nic,
            healthy=not plan.steps and not plan.blocked,
            reasons=(*plan.blocked, *(str(step) for step in plan.steps)),
        )
        for plan in plans
    ]
    return Verdict(at=now(), boot_id=text(root, "proc/sys/kernel/random/boot_id") or "", rails=tuple(rails))


def write(folder: str, verdict: Verdict) -> None:
    """Replace the file. HostError where it cannot be written."""
    path = os.path.join(folder, "verdict.json")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(encode(verdict), file)
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise HostError("write", path, error.errno or 0) from error


def read(folder: str = STATE, root: str = "/") -> Verdict | None:
    """What was last found in this boot; None where nothing was, or the file cannot be understood."""
    try:
        with open(os.path.join(folder, "verdict.json")) as file:
            verdict = decode(Verdict, json.loads(file.read(_MOST)), "verdict")
    except (OSError, ValueError):
        return None
    boot = text(root, "proc/sys/kernel/random/boot_id")
    return verdict if not verdict.boot_id or verdict.boot_id == boot else None
