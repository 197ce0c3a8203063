"""What several rules about hosts ask and say."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.lint.subjects import NicAt

__all__ = ["apply", "mlx5", "numbers"]


def apply(at: NicAt, what: str) -> str:
    """The step of the tuner that mends it, and what it comes to."""
    return f"on {at.host.node}: roceway-tune apply -f fabric.yaml ({what})"


def numbers(values: Iterable[int]) -> str:
    """``3`` or ``3,4``; ``none``."""
    return ",".join(str(value) for value in sorted(values)) or "none"


def mlx5(at: NicAt) -> bool:
    """A ConnectX or BlueField."""
    return at.nic.driver == "mlx5_core"
