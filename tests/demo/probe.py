"""The real probe on the demo's pods: roceway-probe run, then its verdict on what it measured."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.demo.allreduce import environment
from tests.demo.caller import Pod
from tests.demo.lab import MANAGEMENT
from tests.demo.process import CommandError, Signals, run

_TIMEOUT = 240.0
_PROBE = """\
probe:
  launcher: mpirun
  benchmark: mpi
  agent: [{agent}]
  interface: {management}
  sizes: [{size}]
  rails: one-by-one
  purposes: [random]
  rounds: 3
  repeats: 1
  warmups: 1
  iterations: 2
  timeout: 60s
  budget: {{gpuSecondsPerDay: 80000}}
"""


class Told(NamedTuple):
    """What the probe says."""

    measured: int
    """Groups."""
    suspects: tuple[str, ...]
    """``nic host2/rail1``: those of which it is sure."""
    text: str
    """As it prints it."""


class Probe:
    """roceway-probe on the login node; hosts are the pods that run on them."""

    def __init__(self, login: str, example: Path, pods: dict[str, Pod], folder: Path, signals: Signals) -> None:
        self._login = login
        self._folder = folder
        self._signals = signals
        agent = folder / "agent"
        for host, pod in pods.items():
            (folder / "pods" / host).write_text("\n".join(pod.enter) + "\n")
        self._fabric = folder / "fabric.yaml"
        self._example = example.read_text()
        self._agent = agent

    def tell(self, size: str, rails: Sequence[str]) -> Told:
        """Measure pairs of hosts on these rails, and conclude. CommandError where it cannot."""
        self._write(size, rails)
        measured = self._folder / "measured.jsonl"
        common = ("-f", str(self._fabric))
        state = ("--state", str(self._folder / "state"), "--history", str(self._folder / "history.db"))
        self._call("run", *common, *state, "--no-confirm", "--output", str(measured))
        document = json.loads(self._call("locate", str(measured), *common, "--json"))
        text = self._call("locate", str(measured), *common)
        return Told(len(measured.read_text().splitlines()), _sure(document), text.rstrip())

    def _write(self, size: str, rails: Sequence[str]) -> None:
        """The example's fabric.yaml with the demo's probe block, and of its rails only those asked for."""
        text = re.sub(
            r"^probe:.*\n",
            _PROBE.format(agent=self._agent, management=MANAGEMENT, size=size),
            self._example,
            flags=re.M,
        )
        dropped = set(re.findall(r"- \{name: (rail\d+),", text)) - set(rails)
        for rail in dropped:
            text = re.sub(rf"^  - \{{name: {rail},.*\n", "", text, flags=re.M)
            text = re.sub(rf",? {rail}: nic\d+", "", text)
        self._fabric.write_text(text)

    def _call(self, *words: str) -> str:
        done = run(
            ["nsenter", f"--net={self._login}", "--", sys.executable, "-m", "nccltest", *words],
            timeout=_TIMEOUT,
            signals=self._signals,
            env=environment(self._folder / "sessions"),
        )
        if done.code not in (0, 1):
            raise CommandError(f"roceway-probe {words[0]}: exit {done.code}\n{done.stdout}{done.stderr}".rstrip())
        return done.stdout


def _sure(document: Any) -> tuple[str, ...]:
    return tuple(f"{each['kind']} {each['id']}" for each in document["suspects"] if each["confidence"] > 0.9)
