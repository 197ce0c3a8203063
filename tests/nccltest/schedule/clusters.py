"""Clusters to plan for."""

from __future__ import annotations

from nccltest.locate.cabling import Cabling
from nccltest.schedule import Timing


def names(count: int) -> list[str]:
    return [f"n{number:04}" for number in range(count)]


def cabling(count: int, rails: int = 2, under_a_leaf: int = 4) -> Cabling:
    """Rail-optimised: each rail has leaves of its own."""
    rail_names = tuple(f"rail{rail}" for rail in range(rails))
    leaf = {
        (node, rail): f"leaf-{rail}-{place // under_a_leaf}"
        for place, node in enumerate(names(count))
        for rail in rail_names
    }
    return Cabling(leaf, rails=rail_names)


def timing(seconds: float = 10.0, repeats: int = 1) -> Timing:
    """Rounds of about ``seconds``."""
    return Timing((1 << 20,), repeats, 1, 1, 50.0, 2, seconds, 600.0, 8)
