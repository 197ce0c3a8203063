"""``python -m tests.demo``: see the package. Exit 0: all of it true; 1: a check failed; 3: this machine refused."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from rich.table import Table
from rich.text import Text

import tests.demo
from conf.errors import ConfigError
from conf.fabric import Fabric, load
from conf.node import node_names
from tests.demo import cnitool, podman, proof
from tests.demo.allreduce import Launcher, Load, Measured
from tests.demo.caller import Maker, Pod
from tests.demo.probe import Probe
from tests.demo.process import CommandError, SignalledError, Signals
from tests.demo.screen import Screen
from tests.demo.stage import Stage, Stand, seconds
from tests.demo.table import Line, comparison, dropped, rate, table
from tests.world import ROOT

EXAMPLE = ROOT / "conf" / "examples" / "lab-4-hosts.yaml"
CALLERS: dict[str, tuple[Maker, Callable[[], str]]] = {
    "podman": (podman.Podman, podman.problem),
    "cnitool": (cnitool.Cnitool, cnitool.problem),
}

FULL, QUICK = Load("8M", iterations=2, warmups=1), Load("4M", iterations=2, warmups=1)
QUICK_RAILS = 2

SLOW_HOST, SLOW_RAIL = 2, 1
THROTTLE = 0.6
"""What is left of the slow NIC's rate."""

FAILED, REFUSED, BY_SIGNAL = 1, 3, 128
"""Exit codes; the last with the signal's number added."""


class Demo:
    """One run on a stage."""

    def __init__(self, stage: Stage, fabric: Fabric, load: Load, rails: int, screen: Screen, signals: Signals) -> None:
        self.stage = stage
        self.load = load
        self.rails = fabric.rails[:rails]
        self.screen = screen
        self.signals = signals
        self.failures: list[str] = []

    def run(self) -> list[str]:
        """All of it; what failed, as sentences."""
        before = self.stage.snapshot()
        pods = [self._attach(stand) for stand in self.stage.stands]
        during = self.stage.snapshot()
        launcher = Launcher(self.stage.lab.fabric.path, pods, self.stage.lab.folder / "mpi", self.signals)
        healthy = self._round(launcher)
        title = f"All-reduce of {self.load.size}iB over {len(pods)} pods, one rail after the other"
        self._show(table(title, self._lines(), healthy, plain=self.screen.plain))
        slow = self._throttle()
        throttled = self._confirmed(launcher, healthy, self._round(launcher))
        title = f"The same with {slow} at {THROTTLE:.0%}"
        self._show(comparison(title, self._lines(), healthy, throttled, plain=self.screen.plain))
        self._ask_the_probe(pods)
        for stand in self.stage.stands:
            self._detach(stand)
        self._compare(before, during)
        return self.failures

    def _doing(self, what: str) -> None:
        self.signals.check()
        self.screen.doing(what)

    def _attach(self, stand: Stand) -> Pod:
        machine = stand.machine
        self._doing(f"starting {machine.pod} on {machine.name}")
        start = time.monotonic()
        pod = self.stage.attach(stand)
        took = time.monotonic() - start
        rails = f"{machine.node.rails[0].name}…{machine.node.rails[-1].name}"
        add = seconds(stand, "ADD") * 1e3
        self.screen.done(
            f"{machine.name}: {pod.name} runs with {rails} after {took:.2f} s (roceway-cni ADD {add:.0f} ms)"
        )
        return pod

    def _detach(self, stand: Stand) -> None:
        self._doing(f"ending {stand.machine.pod} on {stand.machine.name}")
        self.stage.detach(stand)
        took = seconds(stand, "DEL") * 1e3
        self.screen.done(f"{stand.machine.name}: {stand.machine.pod} ended (roceway-cni DEL {took:.0f} ms)")

    def _round(self, launcher: Launcher) -> list[Measured]:
        measured = []
        for rail in self.rails:
            self._doing(f"all-reduce on {rail.name}")
            each = launcher.measure(rail.name, str(rail.networks[0]), self.load)
            self.screen.done(f"{rail.name}: {rate(each.busbw)}")
            measured.append(each)
        self._refuse_wrong(measured)
        return measured

    def _confirmed(self, launcher: Launcher, before: Sequence[Measured], after: Sequence[Measured]) -> list[Measured]:
        """The better of two measurements of whatever dropped: this machine may have been busy with something else."""
        confirmed = {each.rail: each for each in after}
        for rail in (rail for rail in self.rails if rail.name in dropped(before, after)):
            self._doing(f"all-reduce on {rail.name} once more")
            again = launcher.measure(rail.name, str(rail.networks[0]), self.load)
            self.screen.say(f"         {rail.name} once more: {rate(again.busbw)}")
            confirmed[rail.name] = max(confirmed[rail.name], again, key=lambda each: each.busbw)
            self._refuse_wrong([again])
        return list(confirmed.values())

    def _refuse_wrong(self, measured: Sequence[Measured]) -> None:
        self.failures += [f"{each.rail}: {each.wrong} wrong elements" for each in measured if each.wrong]

    def _show(self, made: Table) -> None:
        self.screen.say()
        self.screen.say(made)
        self.screen.say()

    def _lines(self) -> dict[str, Line]:
        """What each rail should be; every host has the same NIC on a rail."""
        machine = self.stage.lab.machines[0]
        nics = {rail.name: rail.nic for rail in machine.node.rails}
        return {rail.name: Line(str(rail.networks[0]), nics[rail.name], machine.speed * 1e6 / 8) for rail in self.rails}

    def _throttle(self) -> str:
        machine = self.stage.lab.machines[SLOW_HOST]
        nic = machine.node.rails[SLOW_RAIL].nic
        self._doing(f"throttling {nic} of {machine.name}")
        machine.shape(nic, round(machine.speed * THROTTLE))
        self.screen.done(f"{machine.name}: {nic} throttled from {machine.speed} to {machine.speed * THROTTLE:.0f} Mb/s")
        return f"{nic} of {machine.name}"

    def _ask_the_probe(self, pods: Sequence[Pod]) -> None:
        """A rail's number is of all its NICs; roceway-probe measures pairs and names the one."""
        self._doing("roceway-probe: pairs of hosts, rail by rail")
        by_host = {stand.machine.name: pod for stand, pod in zip(self.stage.stands, pods, strict=True)}
        folder = self.stage.lab.folder / "mpi"
        probe = Probe(self.stage.lab.fabric.path, EXAMPLE, by_host, folder, self.signals)
        told = probe.tell(self.load.size + "iB", [rail.name for rail in self.rails])
        self.screen.done(f"roceway-probe measured {told.measured} pairs; roceway-probe locate says:")
        self.screen.say()
        self.screen.say(told.text)
        self.screen.say()
        self.screen.say(Text(f"Verdict: {', '.join(told.suspects) or 'nobody is blamed'}.", style="bold"))
        self.screen.say()
        machine = self.stage.lab.machines[SLOW_HOST]
        wanted = (f"nic {machine.name}/{self.rails[SLOW_RAIL].name}",)
        if told.suspects != wanted:
            self.failures.append(f"throttled was {wanted[0]}, the probe blames {', '.join(told.suspects) or 'nobody'}")

    def _compare(self, before: Sequence[str], during: Sequence[str]) -> None:
        self._doing("looking for what is left")
        left = proof.difference(before, self.stage.snapshot())
        seen = len(proof.difference(before, during))
        if left:
            self.failures.append("something is left:\n" + "\n".join(left))
        elif not seen:
            self.failures.append("the proof is blind: with the pods running it saw nothing either")
        else:
            self.screen.done("nothing left: the same text before the first pod and after the last")
            for what in (f"{proof.lines(before)} lines; the pods had changed {seen}; compared were", *proof.COMPARED):
                self.screen.say(f"         {what}")
            self.screen.say()


def main(arguments: Sequence[str]) -> int:
    """The whole demo; the exit code."""
    options = _arguments(arguments)
    caller, problem = CALLERS[options.caller]
    start = time.monotonic()
    with Signals() as signals:
        try:
            reason = problem() or _missing()
            if reason:
                raise CommandError(f"{reason}\nas root, `make demo` installs what it needs and runs it")
            failures = _play(options.quick, caller, signals)
        except (SignalledError, CommandError, AssertionError, ConfigError) as error:
            # A signal reaches the small commands that are under way, too: what they then say is of no interest.
            if signals.received:
                print(f"demo: {signals.name}: everything was removed", file=sys.stderr)
                return BY_SIGNAL + signals.received
            print(f"demo: {error}", file=sys.stderr)
            return REFUSED
    for failure in failures:
        print(f"demo: FAILED: {failure}", file=sys.stderr)
    if not failures:
        print(f"all checks passed in {time.monotonic() - start:.0f} s, everything was removed")
    return FAILED if failures else 0


def _missing() -> str:
    tools = [tool for tool in ("ip", "tc", "nsenter", "bash", "mpirun") if shutil.which(tool) is None]
    tools += ["mpi4py"] if importlib.util.find_spec("mpi4py") is None else []
    return f"not installed: {', '.join(tools)}" if tools else ""


def _play(quick: bool, caller: Maker, signals: Signals) -> list[str]:
    fabric = load(EXAMPLE)
    rails = QUICK_RAILS if quick else len(fabric.rails)
    hosts = len(node_names(fabric))
    with ExitStack() as stack:
        screen = stack.enter_context(Screen(1 + hosts + 2 * rails + 2 + hosts + 1))
        stage = Stage(caller)
        stack.callback(stage.close)
        stack.callback(signals.ignore)  # runs first: clean-up is not to be interrupted
        screen.doing("building the lab")
        stage.build(EXAMPLE, fabric)
        screen.done(f"{hosts} hosts with {len(fabric.rails)} rails each, from {EXAMPLE.relative_to(ROOT)}")
        return Demo(stage, fabric, QUICK if quick else FULL, rails, screen, signals).run()


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=tests.demo.__doc__)
    parser.add_argument("--caller", choices=sorted(CALLERS), default="podman", help="who calls the CNI (%(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RAILS} rails, smaller messages")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
