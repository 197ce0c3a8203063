"""What a rule is: an id, words for people, and one small pure function from a subject to what is wrong with it.

A rule's function takes one subject (a NIC, a switch, a cable, …: see ``Scope``) and yields ``Hit`` for what is wrong
and ``Missing`` for what it would have to know. Yielding nothing says that the subject was looked at and is well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, NamedTuple, TypeVar

__all__ = ["Hit", "Missing", "Rule", "Scope", "Severity", "Verdict", "rule"]


class Severity(IntEnum):
    """How much it hurts. Ordered: ``Severity.HIGH > Severity.MEDIUM``."""

    INFO = 0
    MEDIUM = 1
    HIGH = 2
    CRITICAL = 3

    def __str__(self) -> str:
        return self.name.lower()


class Scope(Enum):
    """What a rule looks at, one at a time; the value says it in words. The types are in ``tuner.lint.subjects``."""

    NIC = "a rail's NIC on a host"
    HOST = "a host"
    RAIL = "the NICs of one rail"
    CABLE = "a NIC and the switch port it is plugged into"
    PORT = "a switch port"
    SWITCH = "a switch"
    TRUNK = "a cable between two switches"
    ROLE = "the switches of one role"
    SOURCE = "a file or address that was read"


class Hit(NamedTuple):
    """One thing that is wrong in one place."""

    where: str
    """The place: ``leaf-r0 PORT_QOS_MAP|Ethernet0``, ``gpu-001 rail0 (eth2)``."""
    evidence: str
    """What was seen, without naming the place: hits of one rule with the same evidence have one cause."""
    fix: str | Callable[[], str]
    """What to do about it, in the operator's own terms; a function where writing it out costs something."""
    severity: Severity | None = None
    """Where it differs from the rule's."""
    platform: str = ""
    """Of the switch: one cause on two operating systems has two fixes, so it is two findings."""


class Missing(NamedTuple):
    """Something that the source does not say, and without which the rule cannot be evaluated on this subject."""

    what: str


Verdict = Iterable[Hit | Missing]
Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, as it is declared."""

    id: str
    """H host, X host against host, L host against switch, S switch, T switch against switch, R at run time."""
    severity: Severity
    scopes: tuple[Scope, ...]
    """Mostly one; with two, ``check`` takes either."""
    title: str
    """What is wrong, in a few words."""
    why: str
    """Why it hurts, and how it shows."""
    source: str
    """Where the rule comes from."""
    fix: str
    """What to do, in general; a finding has the exact lines."""
    check: Callable[[Any], Verdict]  # of the scope's type; Any since a table of rules has all of them


def rule(
    id: str, severity: Severity, *scopes: Scope, title: str, why: str, source: str, fix: str
) -> Callable[[Callable[[Subject], Verdict]], Rule]:
    """Make a rule of the function below."""

    def declare(check: Callable[[Subject], Verdict]) -> Rule:
        return Rule(id, severity, scopes, title, why, source, fix, check)

    return declare
