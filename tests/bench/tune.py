"""How fast the tuner is, after start-up: reading eight NICs, judging them, and judging recorded hosts by the thousand.

This machine has no NIC with DCB, so reading is measured on eight veth ends (every door is asked, most answer "none"),
judging on eight recorded ConnectX. Own time is CPU time: it does not depend on who else uses the machine.
``python -m tests.bench.tune`` prints it; ``make bench`` too.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from conf.fabric import Fabric, parse
from host.netns import Netns, inside
from tests.tuner.nics import host, mlx5
from tests.world import ROOT, Ns
from tuner.desired import desired, fitted
from tuner.drift import diff
from tuner.gather import Doors, gather
from tuner.nic import Counters, Gid, HostQos
from tuner.plan import plan
from tuner.table import text

__all__ = ["main"]

_ROUNDS = 30
_HOSTS = 2000
_NICS = 8
_RAILS = {f"rail{number}": f"eth{number}" for number in range(_NICS)}


def main() -> int:
    """Measure and print."""
    if os.geteuid() != 0:
        print("bench: needs root (network namespaces)", file=sys.stderr)
        return 3
    seen = _recorded()
    read, judged, shown = _reading(), _median(lambda: _judge(seen)), _median(lambda: text(seen))
    print(f"tuner, {_NICS} NICs, own time after start-up (medians of {_ROUNDS}; wanted: under 150 ms):")
    print(f"  show:   {1e3 * (read + shown):5.1f} ms  (reading {1e3 * read:.1f}, table {1e3 * shown:.1f})")
    print(f"  verify: {1e3 * (read + judged):5.1f} ms  (reading {1e3 * read:.1f}, judging {1e3 * judged:.1f})")
    wall, own = _offline(seen)
    print(f"`verify --host FOLDER` itself, {_HOSTS:,} recorded hosts that all drift (wanted: > 10,000 a minute):")
    print(f"  {60 * _HOSTS / wall:,.0f} a minute by the clock, {60 * _HOSTS / own:,.0f} by processor time, one core")
    return 0


def _median(action: Callable[[], object]) -> float:
    times = []
    for _ in range(_ROUNDS):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return median(times)


def _reading() -> float:
    """Seconds to open the doors and read eight NICs, other namespaces included."""
    ns = Ns(f"rwbench{os.getpid()}")
    try:
        for number in range(_NICS):
            ns.ip("link", "add", f"nic{number}", "type", "veth", "peer", "name", f"far{number}")
        here = Netns.open(ns.path)
        try:
            with inside(here):
                return _median(_read)
        finally:
            here.close()
    finally:
        ns.delete()


def _read() -> HostQos:
    with Doors() as doors:
        return gather(doors, [f"nic{number}" for number in range(_NICS)])


def _recorded() -> HostQos:
    """Eight NICs with every table as full as a ConnectX's."""
    eight = tuple(range(8))
    counted = Counters(rx_bytes=eight, tx_bytes=eight, rx_pause=eight, tx_pause=eight, rx_pause_us=eight)
    gids = tuple(Gid(index=index, type="RoCE v2", address=f"10.200.0.{index}", netdev="eth2") for index in range(16))
    nics = [mlx5(f"eth{number}", counters=counted, gids=gids, mtu=9000) for number in range(_NICS)]
    return host(*nics)


@cache
def _fabric() -> Fabric:
    return parse(json.dumps(_document()))


def _document() -> dict[str, Any]:
    kind = {"speed": "400G", "mode": "host-device", "cable": "3m", "rails": _RAILS}
    return {
        "apiVersion": "roceway/v1",
        "kind": "Fabric",
        "metadata": {"name": "bench"},
        "rails": [{"name": rail, "subnet": f"10.{200 + n}.0.0/16", "nodeBlock": 30} for n, rail in enumerate(_RAILS)],
        "nodeTypes": {"hgx": kind},
        "nodes": [{"match": f"n[0-{_HOSTS - 1}]", "type": "hgx"}],
    }


def _judge(seen: HostQos) -> str:
    wanted = fitted(desired(_fabric(), "n0", _RAILS), _fabric().qos, seen)
    plan(wanted, seen, in_use=True)
    return diff(wanted, seen)


def _offline(seen: HostQos) -> tuple[float, float]:
    """Wall and processor seconds of the command on a folder of recorded hosts, start-up included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fabric.yaml").write_text(json.dumps(_document()))
        states = folder / "states"
        states.mkdir()
        for number in range(_HOSTS):
            (states / f"n{number}.json").write_text(json.dumps(replace(seen, node=f"n{number}").to_json(), indent=2))
        words = ["-f", str(folder / "fabric.yaml"), "--host", str(states), "--json"]
        before, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "tuner", "verify", *words], capture_output=True, check=False, cwd=ROOT
        )
        wall, after = time.perf_counter() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    hosts = json.loads(done.stdout)["hosts"]
    assert len(hosts) == _HOSTS
    assert all(each["drift"] for each in hosts)
    return wall, after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
