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

from cni import install
from cni.lifecycle import open_store
from cni.store import Key, LeaseRow
from host.netns import Identity, Netns, inside
from tests.bench.contenders import ByAgent, Contender, IpBatch, ReferenceChain, Roceway, _cni_env, execute, installed
from tests.bench.crowd import crowd
from tests.bench.parsing import parsing
from tests.bench.soak import pss, soak
from tests.bench.tune import main as tuning
from tests.netns.agents import Agent, running
from tests.tuner.lint.big import curve as linting
from tests.world import CNI_PLUGINS, ROOT, Host, Ns, World

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
        with inside(here), running(host) as agent:
            if options.soak:
                return _soak(agent, host, options.soak, console, progress)
            _eight(agent, host, options.rounds, console, progress)
            _starts(host, console)
            _breakdown(host, console)
            _trace(agent, host, console)
            console.print(crowd(_contenders(agent, host, 8)[:3], world, 3))
            console.print()
            _scaling(agent, host, max(3, options.rounds // 4), console, progress)
            _held(agent, host, max(5, options.rounds // 2), console, progress)
            _memory(agent, console)
        here.close()
    parsing(console)
    linting()
    tuning()
    return 0 if options.no_micro else _micro()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of the 8-rail comparison (%(default)s)")
    parser.add_argument("--no-micro", action="store_true", help="leave the pytest-benchmark part out")
    parser.add_argument("--soak", type=int, nargs="?", const=10_000, metavar="CYCLES", help="only this: what grows?")
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


def _contenders(agent: Agent, host: Host, rails: int) -> list[Contender]:
    return [
        ByAgent(agent, host, rails),
        Roceway(host, rails),
        ReferenceChain(host.world.folder, rails),
        IpBatch(rails),
    ]


def _eight(agent: Agent, host: Host, rounds: int, console: Console, progress: Progress) -> None:
    contenders = _contenders(agent, host, 8)
    task = progress.add_task("8 rails", total=rounds + 1)
    times = alternate(contenders, host.world, rounds, lambda: progress.advance(task))
    ours, alone, chain, floor = (times[each.name] for each in contenders)
    table = Table(title="8 macvlan rails (ms)", title_justify="left", box=None)
    for column in ("", "ADD median", "ADD p95", "DEL median", "DEL p95", "chain ÷ ADD", "chain ÷ DEL"):
        table.add_column(column, justify="left" if not column else "right")
    for name, verbs in times.items():
        cells = [f"{_ms(verbs[verb], quantile):.1f}" for verb in ("ADD", "DEL") for quantile in (None, 0.95)]
        table.add_row(name, *cells, *(f"{_ms(chain[verb]) / _ms(verbs[verb]):.1f}" for verb in ("ADD", "DEL")))
    console.print(table)
    for who, verb, other, limit in (
        ("agent", "ADD", chain, 5.0),
        ("agent", "DEL", chain, 8.0),
        ("agent", "ADD", floor, 1 / 3),
        ("agent", "DEL", floor, 1 / 2),
        ("alone", "ADD", chain, 0.5),
        ("alone", "DEL", chain, 5.0),
    ):
        ratio = _ms(other[verb]) / _ms((ours if who == "agent" else alone)[verb])
        against = "the chain" if other is chain else "ip -batch"
        console.print(f"target: {who}, {verb}: {against}'s time ÷ ours at least {limit:.2f}: {_verdict(ratio, limit)}")
    console.print()


def _verdict(ratio: float, limit: float) -> str:
    return f"{ratio:.1f} ({'met' if ratio >= limit else 'missed'})"


def _starts(host: Host, console: Console, rounds: int = 21) -> None:
    """Starting alone: a verb that needs neither kernel nor state."""
    program = installed(host.world.folder / "bin")
    launcher = host.world.folder / "launcher"
    launcher.write_text(install.launcher())
    launcher.chmod(0o755)
    version, env = json.dumps({"cniVersion": "1.0.0"}), {"CNI_COMMAND": "VERSION"}
    starts = {
        "/bin/true": (["/bin/true"], env),
        "the compiled plugin itself (no verb)": ([str(program)], {}),
        "installed plugin, its own part (VERSION)": ([str(program)], env),
        "launcher for the host's Python (VERSION)": ([str(launcher)], env),
        "a reference plugin (VERSION)": ([str(CNI_PLUGINS / "macvlan")], env),
    }
    spent: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(rounds):
        for name, (words, variables) in starts.items():
            start = time.perf_counter()
            subprocess.run(words, input=version, env=variables, capture_output=True, text=True, check=False)
            spent[name].append(time.perf_counter() - start)
    table = Table(title="Starting (ms, medians)", title_justify="left", box=None)
    table.add_column("")
    table.add_column("", justify="right")
    for name, values in spent.items():
        table.add_row(name, f"{_ms(values):.2f}")
    console.print(table)
    console.print()


def _trace(agent: Agent, host: Host, console: Console, rounds: int = 15) -> None:
    """What the agent says of its own milliseconds (``--trace``), and what the plugin waits besides."""
    ours = ByAgent(agent, host, 8)
    table = Table(title="Where a call's time goes by the agent (ms, medians)", title_justify="left", box=None)
    parts = ("plugin", "queued", "state", "dumps", "netlink", "rest")
    for column in ("verb", *parts):
        table.add_column(column, justify="right")
    seen: dict[str, dict[str, list[float]]] = {verb: {part: [] for part in parts} for verb in ("ADD", "DEL")}
    for _ in range(rounds):
        pod = Ns(f"{host.world.tag}-bench")
        try:
            for verb in ("ADD", "DEL"):
                spent, said = ours.call(verb, pod, "bench", "--trace")
                found = _traced(said)
                found["plugin"] = 1e3 * spent - found.pop("ms")
                for part in parts:
                    seen[verb][part].append(found.get(part, 0.0))
                time.sleep(_PAUSE)
        finally:
            pod.delete()
    for verb, values in seen.items():
        table.add_row(verb, *(f"{statistics.median(values[part]):.2f}" for part in parts))
    console.print(table)
    console.print("plugin: starting it, sending, printing; queued: from the socket to a worker\n")


def _traced(said: str) -> dict[str, float]:
    line = next(line for line in said.splitlines() if line.startswith("roceway-agent: "))
    words = line.split()[1:]
    return {name: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def _memory(agent: Agent, console: Console) -> None:
    sizes = {pid: pss(pid) / 1024 for pid in (agent.pid, *agent.children())}
    console.print(f"the agent, idle: {len(sizes)} processes, {sum(sizes.values()):.1f} MiB in all (PSS)")


def _soak(agent: Agent, host: Host, cycles: int, console: Console, progress: Progress) -> int:
    task = progress.add_task("soak", total=cycles)
    pod = Ns(f"{host.world.tag}-bench")
    try:
        table, steady = soak(agent, host, pod, cycles, lambda: progress.advance(task))
    finally:
        pod.delete()
    console.print(table)
    console.print("nothing grows" if steady else "something grows")
    _memory(agent, console)
    return 0 if steady else 1


def _breakdown(host: Host, console: Console, rounds: int = 9) -> None:
    """Medians of the parts of a call, beside the whole as its caller sees it."""
    ours = Roceway(host, 8)
    words = [sys.executable, "-IS", str(Path(__file__).with_name("breakdown.py")), str(ROOT)]
    bare = [_timed([sys.executable, "-IS", "-c", "pass"], "", None) for _ in range(rounds)]
    table = Table(title="Where a call alone spends its time (ms, medians)", title_justify="left", box=None)
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
    done = subprocess.run(
        words, input=json.dumps(ours.conf), capture_output=True, text=True, env=_cni_env(verb, pod, "eth0"), timeout=60
    )
    if done.returncode:
        raise RuntimeError(f"{verb}: {done.stdout}{done.stderr}")
    fields = done.stderr.split()
    return {name: float(value) for name, value in zip(fields[::2], fields[1::2], strict=True)}


def _scaling(agent: Agent, host: Host, rounds: int, console: Console, progress: Progress) -> None:
    table = Table(title="By number of rails (ms, medians)", title_justify="left", box=None)
    names = ("agent", "alone", "chain", "floor")
    for column in ("rails", *(f"{verb} {name}" for verb in ("ADD", "DEL") for name in names)):
        table.add_column(column, justify="right")
    sizes = (1, 4, 8, 16, 32)
    task = progress.add_task("scaling", total=len(sizes) * (rounds + 1))
    for rails in sizes:
        contenders = _contenders(agent, host, rails)
        times = alternate(contenders, host.world, rounds, lambda: progress.advance(task))
        cells = [f"{_ms(times[each.name][verb]):.1f}" for verb in ("ADD", "DEL") for each in contenders]
        table.add_row(str(rails), *cells)
    console.print(table)
    console.print()


def _held(agent: Agent, host: Host, rounds: int, console: Console, progress: Progress, leases: int = 10_000) -> None:
    """The same 8 rails with 10 000 addresses of rail 0 in use: a database for us, a folder of files for host-local."""
    ours, chain = ByAgent(agent, host, 8, subnet_bits=16), ReferenceChain(host.world.folder, 8, subnet_bits=16)
    task = progress.add_task("10 000 leases", total=2 * (rounds + 1))
    table = Table(title="8 rails, addresses of rail 0 already leased (ms, medians)", title_justify="left", box=None)
    for column in ("leases", "ADD agent", "ADD chain", "DEL agent", "DEL chain"):
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
