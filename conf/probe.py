"""``probe``: when all-reduce rounds run, how, and what they may cost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conf.base import Block, Whole
from conf.cron import Cron
from conf.units import Bytes, Duration, Percent, parse_bytes, parse_duration, parse_percent

__all__ = ["Budget", "Launcher", "Probe"]

Launcher = Literal["mpirun", "srun", "torchrun", "kubernetes"]


class Budget(Block):
    """What probing may cost."""

    gpu_seconds_per_day: Whole = Field(default=86, ge=1, le=86_400)
    """Seconds that each GPU spends on probes in a day; 86 is a thousandth of it."""


class Probe(Block):
    """The all-reduce probe's policy. The defaults are a routine run."""

    schedule: Cron = "0 4 * * *"
    """When a run starts: minute, hour, day of month, month, day of week."""
    sizes: tuple[Bytes, ...] = Field(
        default=(parse_bytes("1GiB"), parse_bytes("4GiB"), parse_bytes("8GiB")), min_length=1, max_length=32
    )
    """Message sizes; from 1GiB up the network decides, and a lossless class that is not one shows at 4GiB."""
    launcher: Launcher = "mpirun"
    """What starts the ranks."""
    budget: Budget = Budget()
    """What probing may cost."""
    rounds: Whole = Field(default=2, ge=1, le=64)
    """Random matchings of the nodes in one run: two find a slow NIC or node, four are safer for an uplink."""
    repeats: Whole = Field(default=3, ge=1, le=100)
    """Times that a round is measured; the median counts."""
    warmups: Whole = Field(default=5, ge=0, le=1000)
    """Iterations before the clock starts."""
    iterations: Whole = Field(default=20, ge=1, le=10_000)
    """Iterations that are timed."""
    threshold: Percent = parse_percent("4%")
    """Smallest loss of bus bandwidth that is called a regression."""
    timeout: Duration = parse_duration("10min")
    """Longest that a round may take; then it is stopped and counts as hung."""
