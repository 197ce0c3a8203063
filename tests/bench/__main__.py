"""The side-by-side table: ``make bench``. Contenders take turns within every round, so that all see the same noise."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from cni.lifecycle import open_store
from cni.store import Key, LeaseRow
from host.netns import Identity, Netns, inside
from tests.bench.contenders import Contender, IpBatch, ReferenceChain, Roceway, execute
from tests.world import ROOT, Host, Ns, World

Times = dict[str, dict[str, list[float]]]
"""Contender to verb to seconds."""

_PAUSE = 0.3
"""Seconds between ADD and DEL: a pod lives longer than the kernel's deferred work of its creation."""


def main() -> int:
    """Run everything and print it."""
    options = _options()
    if os.geteuid() != 0:
        print("bench: needs root (network namespaces)", file=sys.stderr)
        return 3
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(
        f"{options.rounds} rounds, contenders alternating; {os.cpu_count()} cores, Linux {os.uname().release}"
    )
    with World(rails=32) as world, Progress(console=Console(stderr=True), transient=True) as progress:
        host = world.host()
        here = Netns.open(host.ns.path)
        with inside(here):
            _eight(host, options.rounds, console, progress)
            _breakdown(host, console)
            _scaling(host, max(3, options.rounds // 4), console, progress)
            _held(host, max(5, options.rounds // 2), console, progress)
        here.close()
    return 0 if options.no_micro else _micro()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of the 8-rail comparison (%(default)s)")
    parser.add_argument("--no-micro", action="store_true", help="leave the pytest-benchmark part out")
    return parser.parse_args()


def _micro() -> int:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/bench", "-m", "bench"]
    return subprocess.run([*words, "--benchmark-only", "--benchmark-columns=median,iqr,ops"], cwd=ROOT).returncode


def alternate(contenders: Sequence[Contender], world: World, rounds: int, tick: object = None) -> Times:
    """Each contender in turn, ``rounds`` times, each on a fresh pod; a first round is thrown away."""
    times: Times = {each.name: {"ADD": [], "DEL": []} for each in contenders}
    for number in range(rounds + 1):
        for contender in contenders:
            pod = Ns(f"{world.tag}-bench")
            try:
                added = contender.add(pod)
                time.sleep(_PAUSE)
                deleted = contender.delete(pod)
            finally:
                pod.delete()
            if number:
                times[contender.name]["ADD"].append(added)
                times[contender.name]["DEL"].append(deleted)
        if callable(tick):
            tick()
    return times


def _ms(values: Sequence[float], quantile: float | None = None) -> float:
    ordered = sorted(values)
    if quantile is not None:
        return 1e3 * ordered[min(len(ordered) - 1, round(quantile * (len(ordered) - 1)))]
    return 1e3 * statistics.median(ordered)


def _contenders(host: Host, rails: int) -> list[Contender]:
    return [Roceway(host, rails), ReferenceChain(host.world.folder, rails), IpBatch(rails)]


def _eight(host: Host, rounds: int, console: Console, progress: Progress) -> None:
    contenders = _contenders(host, 8)
    task = progress.add_task("8 rails", total=rounds + 1)
    times = alternate(contenders, host.world, rounds, lambda: progress.advance(task))
    chain, ours = times[contenders[1].name], times[contenders[0].name]
    table = Table(title="8 macvlan rails (ms)", title_justify="left", box=None)
    for column in ("", "ADD median", "ADD p95", "DEL median", "DEL p95", "ADD ÷ chain", "chain ÷ DEL"):
        table.add_column(column, justify="left" if not column else "right")
    for name, verbs in times.items():
        add, delete = _ms(verbs["ADD"]), _ms(verbs["DEL"])
        table.add_row(
            name,
            f"{add:.1f}",
            f"{_ms(verbs['ADD'], 0.95):.1f}",
            f"{delete:.1f}",
            f"{_ms(verbs['DEL'], 0.95):.1f}",
            f"{add / _ms(chain['ADD']):.2f}",
            f"{_ms(chain['DEL']) / delete:.1f}",
        )
    console.print(table)
    ratio_add, ratio_del = _ms(ours["ADD"]) / _ms(chain["ADD"]), _ms(chain["DEL"]) / _ms(ours["DEL"])
    console.print(f"targets: ADD at most 2.00 × the chain's time: {_verdict(ratio_add <= 2, f'{ratio_add:.2f} ×')}")
    console.print(f"         DEL at least 5.0 × faster:           {_verdict(ratio_del >= 5, f'{ratio_del:.1f} ×')}\n")


def _verdict(good: bool, text: str) -> str:
    return f"{text} ({'met' if good else 'missed'})"


def _breakdown(host: Host, console: Console, rounds: int = 9) -> None:
    """Medians of the parts of a call, beside the whole as its caller sees it."""
    ours = Roceway(host, 8)
    words = [sys.executable, "-IS", str(Path(__file__).with_name("breakdown.py")), str(ROOT)]
    bare = [_timed([sys.executable, "-IS", "-c", "pass"], "", None) for _ in range(rounds)]
    table = Table(title="Where a call's time goes (ms, medians)", title_justify="left", box=None)
    parts = ("imports", "state", "netlink", "rest")
    for column in ("verb", "interpreter", *parts):
        table.add_column(column, justify="right")
    seen: dict[str, dict[str, list[float]]] = {verb: {part: [] for part in parts} for verb in ("ADD", "DEL")}
    for _ in range(rounds):
        pod = Ns(f"{host.world.tag}-bench")
        try:
            for verb in ("ADD", "DEL"):
                for part, value in _parts(words, verb, pod, ours).items():
                    seen[verb][part].append(value)
                time.sleep(_PAUSE)
        finally:
            pod.delete()
    for verb, values in seen.items():
        table.add_row(verb, f"{_ms(bare):.1f}", *(f"{statistics.median(values[part]):.1f}" for part in parts))
    console.print(table)
    console.print()


def _timed(words: Sequence[str], stdin: str, env: dict[str, str] | None) -> float:
    start = time.perf_counter()
    execute(words, stdin, env)
    return time.perf_counter() - start


def _parts(words: Sequence[str], verb: str, pod: Ns, ours: Roceway) -> dict[str, float]:
    from tests.bench.contenders import _cni_env

    done = subprocess.run(
        words, input=json.dumps(ours.conf), capture_output=True, text=True, env=_cni_env(verb, pod, "eth0"), timeout=60
    )
    if done.returncode:
        raise RuntimeError(f"{verb}: {done.stdout}{done.stderr}")
    fields = done.stderr.split()
    return {name: float(value) for name, value in zip(fields[::2], fields[1::2], strict=True)}


def _scaling(host: Host, rounds: int, console: Console, progress: Progress) -> None:
    table = Table(title="By number of rails (ms, medians)", title_justify="left", box=None)
    for column in ("rails", "ADD ours", "ADD chain", "ADD floor", "DEL ours", "DEL chain", "DEL floor"):
        table.add_column(column, justify="right")
    sizes = (1, 4, 8, 16, 32)
    task = progress.add_task("scaling", total=len(sizes) * (rounds + 1))
    for rails in sizes:
        contenders = _contenders(host, rails)
        times = alternate(contenders, host.world, rounds, lambda: progress.advance(task))
        cells = [f"{_ms(times[each.name][verb]):.1f}" for verb in ("ADD", "DEL") for each in contenders]
        table.add_row(str(rails), *cells)
    console.print(table)
    console.print()


def _held(host: Host, rounds: int, console: Console, progress: Progress, leases: int = 10_000) -> None:
    """The same 8 rails with 10 000 addresses of rail 0 in use: a database for us, a folder of files for host-local."""
    ours, chain = Roceway(host, 8, subnet_bits=16), ReferenceChain(host.world.folder, 8, subnet_bits=16)
    task = progress.add_task("10 000 leases", total=2 * (rounds + 1))
    table = Table(title="8 rails, addresses of rail 0 already leased (ms, medians)", title_justify="left", box=None)
    for column in ("leases", "ADD ours", "ADD chain", "DEL ours", "DEL chain"):
        table.add_column(column, justify="right")
    for count in (0, leases):
        if count:
            _fill(host, chain.folder, count)
        times = alternate([ours, chain], host.world, rounds, lambda: progress.advance(task))
        cells = [f"{_ms(times[each.name][verb]):.1f}" for verb in ("ADD", "DEL") for each in (ours, chain)]
        table.add_row(f"{count:,}", *cells)
    console.print(table)


def _fill(host: Host, folder: Path, count: int) -> None:
    """10.200.0.2 and what follows, as if other pods of this node had them: 8 rails each, live namespaces."""
    store = open_store(str(host.state), create=True)
    assert store is not None
    here = os.stat(host.ns.path)
    first = (10 << 24) + (200 << 16) + 2
    with store, store.transaction():
        for number in range(0, count, 8):
            key = Key("others", f"held{number}", "eth0")
            row = store.insert(key, host.ns.path, Identity(here.st_dev, here.st_ino), 1, (), {})
            for address in range(first + number, first + min(number + 8, count)):
                store.lease(LeaseRow("rail0", 4, f"{address}/16", "10.200.0.0/16", "", row), address)
    place = folder / "host-local" / "net0"
    place.mkdir(parents=True, exist_ok=True)
    for address in range(first, first + count):
        dotted = ".".join(str(byte) for byte in address.to_bytes(4, "big"))
        (place / dotted).write_text("held\neth0")
    (place / "last_reserved_ip.0").write_text(".".join(str(byte) for byte in (first + count - 1).to_bytes(4, "big")))


if __name__ == "__main__":
    sys.exit(main())
