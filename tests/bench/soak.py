"""Thousands of ADD and DEL through one agent: what grows?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from tests.bench.contenders import ByAgent
from tests.netns.agents import Agent
from tests.world import Host, Ns

WARM = 100
"""Cycles before the first look: allocators and caches fill."""


class Look(NamedTuple):
    """The agent and its state at one moment."""

    cycles: int
    descriptors: int
    """Of all its processes."""
    serving: int
    """KiB of main process and workers: the sum of what is their share (PSS)."""
    background: int
    """KiB of the background process."""
    database: int
    """Bytes of the database and its log."""
    links: int
    """Of the host's namespace."""


def look(agent: Agent, host: Host, cycles: int) -> Look:
    """Now."""
    background, *workers = agent.children()
    pids = [agent.pid, background, *workers]
    files = [path for path in host.state.iterdir() if path.name.startswith("state.db")]
    return Look(
        cycles,
        sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        sum(pss(pid) for pid in (agent.pid, *workers)),
        pss(background),
        sum(path.stat().st_size for path in files),
        len(host.ns.json("link")),
    )


def pss(pid: int) -> int:
    """KiB of a process, what it shares divided by those it shares it with."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def soak(agent: Agent, host: Host, pod: Ns, cycles: int, tick: Callable[[], None]) -> tuple[Table, bool]:
    """The table, and whether nothing grew."""
    ours = ByAgent(agent, host, 8)
    looks = []
    start = time.perf_counter()
    for number in range(cycles + WARM + 1):
        if number >= WARM and (number - WARM) % max(1, cycles // 5) == 0:
            time.sleep(0.2)  # deletions under way hold descriptors for 20 ms
            looks.append(look(agent, host, number - WARM))
        ours.add(pod)
        ours.delete(pod)
        tick()
    spent = time.perf_counter() - start
    table = Table(
        title=f"{cycles:,} cycles of 8 rails, {1e3 * spent / cycles:.1f} ms each", title_justify="left", box=None
    )
    for column in ("cycles", "descriptors", "serving KiB", "background KiB", "database bytes", "host links"):
        table.add_column(column, justify="right")
    for each in looks:
        table.add_row(*(f"{value:,}" for value in each))
    return table, _is_steady(looks)


def _is_steady(looks: Sequence[Look]) -> bool:
    """Whether the end is no more than the first half was at its most: garbage makes a saw, a leak makes a slope."""
    half = Look(*(max(values) for values in zip(*looks[: len(looks) // 2], strict=True)))
    end = looks[-1]
    exact = end.descriptors <= half.descriptors and end.links <= half.links
    return exact and all(
        getattr(end, name) <= getattr(half, name) * 1.05 + slack
        for name, slack in (("serving", 1024), ("background", 1024), ("database", 1 << 20))
    )
