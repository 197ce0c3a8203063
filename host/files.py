"""Small files and folders of /proc and /sys, read for what they are worth: what is missing or refuses is empty."""

from __future__ import annotations

import os

__all__ = ["names", "text"]


def names(*parts: str) -> list[str]:
    """What a folder holds; empty where it is missing, or refuses."""
    try:
        return os.listdir(os.path.join(*parts))
    except OSError:
        return []


def text(*parts: str) -> str:
    """A file's text, stripped; empty where it is missing, or refuses (a device that is going away)."""
    try:
        with open(os.path.join(*parts), errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
