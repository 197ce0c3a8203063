"""What the host commands share: the fabric, the rails' NICs, a look at the host, who may change it.

fabric.yaml's model is imported by the functions that need it: pydantic costs a tenth of a second of processor time,
which `show`, `rollback` and every `--help` do without.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING

from conf.errors import ConfigError, Finding
from host.errors import HostError
from tuner.exits import to_nowhere
from tuner.gather import Doors, gather
from tuner.nic import HostQos, HostWanted
from tuner.store import STATE, Store

if TYPE_CHECKING:
    from conf.fabric import Fabric

__all__ = [
    "Look",
    "Tell",
    "look",
    "need_root",
    "offline",
    "read",
    "seconds",
    "state_option",
    "stored",
    "teller",
    "terminable",
]

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One host, as fabric.yaml wants it and as it is."""

    fabric: Fabric
    wanted: HostWanted
    seen: HostQos


def state_option(parser: argparse.ArgumentParser) -> None:
    """``--state-dir``."""
    parser.add_argument("--state-dir", default=STATE, metavar="DIR", help="(default: %(default)s)")


def seconds(text: str) -> float:
    """The value of an option that takes a time in seconds, for argparse: from 0 to a day."""
    value = float(text)
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400 seconds")
    return value


def stored(options: argparse.Namespace) -> Store:
    """The host's state."""
    return Store(options.state_dir)


def need_root(what: str) -> None:
    """HostError where we may not change the host."""
    if os.geteuid() != 0:
        raise HostError(what, "this host", 1, "it needs root")


def look(fabric: Fabric, hostname: str, doors: Doors, store: Store, *, in_use: bool = True) -> Look:
    """Read the host's rails. ConfigError where fabric.yaml does not know the host or not which NIC is whose."""
    from conf.node import node
    from tuner.desired import desired, fitted, nics_of

    automatic = any(rail.nic == "auto" for rail in node(fabric, hostname).rails)
    every = [nic.name for nic in gather(doors, in_use=False).nics] if automatic else []
    nics = nics_of(fabric, hostname, every)
    rails = {nic: rail for rail, nic in nics.items()}
    seen = gather(doors, list(nics.values()), rails, in_use=in_use, absent=True)
    seen = replace(seen, node=hostname, applied=store.applied())
    return Look(fabric=fabric, wanted=fitted(desired(fabric, hostname, nics), fabric.qos, seen), seen=seen)


def offline(fabric: Fabric, hostname: str, seen: HostQos) -> Look:
    """As :func:`look`, for a recorded host. ConfigError where a rail's NIC is not in the record."""
    from tuner.desired import desired, fitted, nics_of

    nics = nics_of(fabric, hostname, [nic.name for nic in seen.nics])
    rails = {}
    for rail, name in nics.items():
        found = seen.nic(name) or seen.nic(rail)
        if found is None:
            raise ConfigError(f"record of {seen.node}", [Finding("nics", f"{name} of {rail} is not in it")])
        rails[found.name] = rail
    named = replace(seen, nics=tuple(replace(nic, rail=rails.get(nic.name)) for nic in seen.nics))
    return Look(fabric=fabric, wanted=fitted(desired(fabric, hostname, nics), fabric.qos, named), seen=named)


def teller(options: argparse.Namespace) -> Tell:
    """Where progress goes: stdout, or stderr beside machine output. It never fails: a run that changes a host must not
    stop halfway since nobody reads on (``| head``) or a disk is full."""

    def tell(line: str) -> None:
        stream = sys.stderr if options.json else sys.stdout
        try:
            print(line, file=stream, flush=True)
        except OSError:
            to_nowhere(stream)

    return tell


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP (a stopped unit, a closed terminal) interrupt the block as Ctrl-C does: what was begun is put
    back, not left for the next run. A signal that is ignored (``nohup``) stays so."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    caught = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, before[number])


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def read(options: argparse.Namespace) -> Fabric:
    """The fabric that ``-f`` names."""
    from conf.fabric import load

    return load(options.fabric)
