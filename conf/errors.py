"""Bad input, told once and completely."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ConfigError", "Finding"]


class Finding(NamedTuple):
    """One mistake in what the operator wrote."""

    path: str
    """Where, as a path into the document: ``rails[2].subnet``. Empty for the document as a whole."""
    message: str
    """What is wrong and what would be right, one sentence without a full stop."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(Exception):
    """The input is wrong: the person who wrote it must act. Carries every finding, never just the first."""

    def __init__(self, source: str, findings: tuple[Finding, ...] | list[Finding]) -> None:
        self.source = source
        self.findings = tuple(findings)
        super().__init__(source, self.findings)

    def __str__(self) -> str:
        count = len(self.findings)
        head = f"{self.source}: {count} {'mistake' if count == 1 else 'mistakes'}"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])
