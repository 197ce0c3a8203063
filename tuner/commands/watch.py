"""``watch``: stays, and says what happens to the rails' QoS."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from conf.errors import ConfigError, Finding
from host.errors import HostError
from host.events import Events
from tuner.cli import fabric_options, json_option
from tuner.enforce import Enforcer
from tuner.exits import DONE, FOUND
from tuner.gather import Doors
from tuner.machine import now
from tuner.metrics import Metrics
from tuner.plan import plan
from tuner.record import encode
from tuner.session import Look, look, need_root, read, state_option, stored
from tuner.verdict import Verdict, of_plans, write
from tuner.watching import Event, Limits, Rates, changed, drift_of, rates, traffic

if TYPE_CHECKING:
    from conf.fabric import Fabric

_ABOUT = """
Notifications about DCB, links and addresses say when to look; what is then read counts. One line per event, as JSON
with --json. Changes nothing unless --enforce, which puts drift right as `apply` does, and gives up for an hour after
three times in ten minutes: then something else sets it, and must be found. Exit 1 if anything happened.

  roceway-tune watch -f fabric.yaml --metrics /var/lib/node_exporter/roceway.prom
"""
_SETTLE = 0.2
"""Seconds after a notification: a driver's changes come in bursts."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    fabric_options(parser)
    parser.add_argument(
        "--interval", type=_seconds, default=5.0, metavar="S", help="look at least this often (%(default)s)"
    )
    parser.add_argument("--for", dest="duration", type=_seconds, metavar="S", help="end after that long")
    parser.add_argument("--paused", type=_share, default=0.1, metavar="SHARE", help="a pause storm is (%(default)s)")
    parser.add_argument("--enforce", action="store_true", help="put drift right (needs root)")
    parser.add_argument("--metrics", metavar="FILE", help="write Prometheus text there")
    state_option(parser)
    json_option(parser)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 1e7:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 10000000 seconds")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share between 0 and 1")
    return value


def run(options: argparse.Namespace) -> int:
    """Watch until told to stop."""
    if options.enforce:
        need_root("enforce on")
    _replaceable(options.metrics)
    signal.signal(signal.SIGTERM, _stop)
    fabric = read(options)
    heard = Events()
    told = Teller(options)
    try:
        with Doors() as doors:
            Watcher(options, fabric, doors, told).until(heard)
    except KeyboardInterrupt:
        pass
    finally:
        heard.close()
    return FOUND if told.count else DONE


def _replaceable(path: str | None) -> None:
    """ConfigError where the metrics, a file that is replaced again and again, would replace something else."""
    if path and os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError("watch", [Finding("--metrics", f"{path} is no file: it would be replaced")])


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class Teller:
    """Says events: a line each, and a count in the metrics."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._json = options.json
        self.metrics = Metrics(options.metrics) if options.metrics else None
        self.count = 0

    def __call__(self, found: Iterable[Event]) -> None:
        for event in found:
            self.count += 1
            line = json.dumps({"at": now(), **encode(event)}) if self._json else f"{now()} {event}"
            print(line, flush=True)
            if self.metrics is not None:
                self.metrics.event(event)


class Watcher:
    """The last readings: one of settings, after every notification; one of counters, at every interval."""

    def __init__(self, options: argparse.Namespace, fabric: Fabric, doors: Doors, tell: Teller) -> None:
        self.options, self.fabric, self.doors, self.tell = options, fabric, doors, tell
        self.store = stored(options)
        self.enforcer = Enforcer(self.store, doors, self._look) if options.enforce else None
        self._edited = _edited(options.fabric)
        self._last = self._base = self._look()
        self._based = time.monotonic()
        self._verdict: Verdict | None = None
        tell(_already(self._last))
        self._judge()
        self._publish({})

    def _look(self, *, in_use: bool = False) -> Look:
        return look(self.fabric, self.options.node, self.doors, self.store, in_use=in_use)

    def until(self, heard: Events) -> None:
        """Look after every notification and at every interval, for as long as the options say."""
        end = None if self.options.duration is None else time.monotonic() + self.options.duration
        while end is None or time.monotonic() < end:
            if self.enforcer is not None and _drifted(self._last):
                self.enforcer.mend()
            due = self._based + self.options.interval
            if heard.wait(min(due, due if end is None else end) - time.monotonic()):
                time.sleep(_SETTLE)
                _drain(heard)
            self._again()

    def _again(self) -> None:
        self._reread()
        try:
            here = self._look()
        except HostError as error:  # a NIC that is just going away: the next look tells
            print(f"roceway-tune: {error}", file=sys.stderr)
            time.sleep(_SETTLE)
            return
        before, self._last = self._last.seen, here
        self._judge()  # first: whoever hears of it may look at the verdict
        self.tell(changed(here.wanted, before, here.seen))
        seconds = time.monotonic() - self._based
        if seconds >= self.options.interval:
            limits = Limits(paused=self.options.paused)
            self.tell(traffic(here.wanted, self._base.seen, here.seen, seconds, limits))
            self._publish(_rates(self._base, here, seconds))
            self._base, self._based = here, time.monotonic()

    def _reread(self) -> None:
        """A changed fabric.yaml counts from the next look; one with mistakes is told once, and the last one stays."""
        edited = _edited(self.options.fabric)
        if edited == self._edited:
            return
        self._edited = edited
        try:
            self.fabric = read(self.options)
        except ConfigError as error:
            print(f"roceway-tune: {error}", file=sys.stderr, flush=True)

    def _judge(self) -> None:
        """The agent is told at once when a rail's health changes: no pod must be given a NIC that is not tuned."""
        here = self._last
        verdict = of_plans(plan(here.wanted, here.seen, in_use=True), here.seen)
        if self._verdict is not None and self._verdict.nics == verdict.nics:
            return
        with suppress(HostError):  # not root: nobody asked for a verdict
            write(self.options.state_dir, verdict)
            self._verdict = verdict

    def _publish(self, found: Mapping[str, Rates]) -> None:
        if self.tell.metrics is None:
            return
        here = self._last
        for one in here.wanted.nics:
            nic = here.seen.nic(one.rail)
            if nic is not None:
                self.tell.metrics.nic(one.rail, nic, not drift_of(one, nic), found.get(one.rail))
        self.tell.metrics.write()


def _already(here: Look) -> Iterator[Event]:
    """What is wrong from the start is said once."""
    for one in here.wanted.nics:
        nic = here.seen.nic(one.rail)
        for sentence in drift_of(one, nic) if nic is not None else ():
            yield Event(rail=one.rail, nic=nic.name if nic else one.nic, kind="drift", text=sentence, values={})


def _rates(before: Look, after: Look, seconds: float) -> dict[str, Rates]:
    found = {}
    for one in after.wanted.nics:
        then, this = before.seen.nic(one.rail), after.seen.nic(one.rail)
        if then is not None and this is not None:
            found[one.rail] = rates(then, this, seconds, one.lossless or 0)
    return found


def _edited(path: Path) -> int:
    """When the file was changed, ns; 0 where it is gone for the moment (a ConfigMap being replaced)."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _drifted(here: Look) -> bool:
    nics = ((one, here.seen.nic(one.rail)) for one in here.wanted.nics)
    return any(nic is not None and drift_of(one, nic) for one, nic in nics)


def _drain(heard: Events) -> None:
    """Everything that came meanwhile belongs to the same look."""
    for _ in range(1000):
        if not heard.wait(0):
            return
