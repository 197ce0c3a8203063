"""Many pods at once: how long each waits, how many a second, and whether anything fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from rich.table import Table

from tests.bench.contenders import Contender
from tests.world import Ns, World

PODS = 32


class Wave(NamedTuple):
    """All pods through one verb."""

    waits: list[float]
    """Seconds of each pod."""
    wall: float
    """Seconds from the first start to the last end."""
    errors: list[str]


def crowd(contenders: Sequence[Contender], world: World, rounds: int) -> Table:
    """PODS pods of 8 rails attached at once and detached at once, contenders in turns."""
    waves: dict[str, dict[str, list[Wave]]] = {each.name: {"ADD": [], "DEL": []} for each in contenders}
    for _ in range(rounds):
        for contender in contenders:
            pods = [world.ns(f"crowd{number}") for number in range(PODS)]
            try:
                waves[contender.name]["ADD"].append(_wave(contender.add, pods))
                time.sleep(0.3)
                waves[contender.name]["DEL"].append(_wave(contender.delete, pods))
            finally:
                for pod in pods:
                    pod.delete()
            time.sleep(0.5)  # the kernel takes 32 namespaces down
    return _table(waves)


def _wave(act: Callable[[Ns, str], float], pods: Sequence[Ns]) -> Wave:
    ready = threading.Barrier(len(pods) + 1)

    def one(number: int) -> float | str:
        ready.wait()
        try:
            return act(pods[number], f"c{number}")
        except (RuntimeError, OSError) as error:
            return str(error)

    with ThreadPoolExecutor(len(pods)) as pool:
        futures = [pool.submit(one, number) for number in range(len(pods))]
        ready.wait()
        start = time.perf_counter()
        results = [future.result() for future in futures]
        wall = time.perf_counter() - start
    waits = [each for each in results if isinstance(each, float)]
    return Wave(waits, wall, [each for each in results if isinstance(each, str)])


def _table(waves: dict[str, dict[str, list[Wave]]]) -> Table:
    table = Table(title=f"{PODS} pods × 8 rails at once", title_justify="left", box=None)
    for column in ("", "verb", "p50 ms", "p99 ms", "pods/s", "errors"):
        table.add_column(column, justify="left" if column in ("", "verb") else "right")
    for name, verbs in waves.items():
        for verb, rounds in verbs.items():
            waits = sorted(wait for wave in rounds for wait in wave.waits)
            count = sum(len(wave.waits) for wave in rounds)
            table.add_row(
                name,
                verb,
                f"{1e3 * waits[len(waits) // 2]:.0f}",
                f"{1e3 * waits[min(len(waits) - 1, int(0.99 * len(waits)))]:.0f}",
                f"{count / sum(wave.wall for wave in rounds):.1f}",
                str(sum(len(wave.errors) for wave in rounds)),
            )
    return table
