"""A place in the document, as the operator would point at it: ``rails[0].subnet``."""

from __future__ import annotations

import re

__all__ = ["Path", "show"]

Path = tuple[str | int, ...]
"""Keys and list positions, from the document's root."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def show(path: Path) -> str:
    """``("rails", 0, "subnet")`` as ``rails[0].subnet``; a key that is no plain word is quoted in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step if len(step) <= 60 else step[:57] + "…"}"]'
    return text
