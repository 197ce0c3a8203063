"""The command line of ``roceway-cni`` when no runtime calls it."""

from __future__ import annotations


def run(arguments: list[str]) -> int:
    """Run a subcommand; the exit code."""
    return 2
