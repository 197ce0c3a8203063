"""Small texts that several operating systems write alike: lists of numbers, lengths, MAC addresses. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from tuner.switch.text import number

__all__ = ["mac_or_name", "metres", "numbers"]

_LENGTH = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) ?m")
_MAC = re.compile(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}|([0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}")


@lru_cache(maxsize=4096)
def numbers(text: str, most: int) -> tuple[int, ...] | None:
    """``"3"``, ``"3-4"`` or ``"0,3-4"`` → the numbers, each at most ``most``; None where it is nothing of the kind."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        first = number(low, 0, most)
        last = number(high, 0, most) if dash else first
        if first is None or last is None or last < first:
            return None
        found += range(first, last + 1)
    return tuple(found)


def metres(value: object) -> float | None:
    """``"5m"`` → 5.0; None for anything else."""
    match = _LENGTH.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match[1]) if match else None


def mac_or_name(text: str | None) -> str | None:
    """A MAC address in lower case with colons, however it was written; any other text as it is."""
    if text is None or not _MAC.fullmatch(text):
        return text
    digits = re.sub(r"[^0-9a-f]", "", text.lower())
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))
