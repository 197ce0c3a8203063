"""``lint``: what the linter needs to know beyond the fabric, and which findings are accepted, why, and until when."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from conf.base import Block, Whole
from conf.names import Form

__all__ = ["Lint", "Suppression"]


def _parse_date(value: Any) -> date:
    try:
        return value if isinstance(value, date) else date.fromisoformat(value if len(value) == 10 else "")
    except (TypeError, ValueError):
        raise ValueError(f"{value} is not a date; write it as 2030-12-31") from None


class Suppression(Block):
    """A finding that is known and accepted for a time."""

    rule: Annotated[str, Form(r"^[HXLSTR][0-9]{2}$", "the id of a rule, such as S06")]
    """The rule's id, such as S06."""
    where: str | None = Field(default=None, min_length=1)
    """Only where the finding's place matches this pattern ("leaf-r0*"); everywhere if left out."""
    reason: str = Field(min_length=1)
    """Why it is accepted: the next reader will ask."""
    expires: Annotated[date, BeforeValidator(_parse_date)]
    """The last day on which it is accepted, as 2030-12-31."""


class Lint(Block):
    """Settings of `roceway-tune lint`."""

    incast: Whole = Field(default=1, ge=1, le=65_536)
    """Senders into one port at a time that thresholds are judged for (S07)."""
    suppressions: tuple[Suppression, ...] = ()
    """Findings that are accepted."""
