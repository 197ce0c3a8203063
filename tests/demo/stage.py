"""The lab with a runtime on every host, and the pods that these run."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import NamedTuple

from conf.fabric import Fabric
from tests.demo import proof, render
from tests.demo.caller import Caller, Maker, Pod
from tests.demo.lab import MANAGEMENT, Lab, Machine


class Stand(NamedTuple):
    """One host with its runtime."""

    machine: Machine
    caller: Caller
    state: Path
    """roceway's state folder; each host has its own, since all share one disk."""
    calls: Path
    """A line for every call of roceway-cni."""


class Stage:
    """Everything that one demo makes. Closing removes it, in whatever state it is."""

    def __init__(self, caller: Maker) -> None:
        self._caller = caller
        self._lab: Lab | None = None
        self._namespaces: set[int] = set()
        self._ending = math.inf  # seconds since boot at which the first pod was told to end
        self.stands: list[Stand] = []

    @property
    def lab(self) -> Lab:
        """The namespaces."""
        assert self._lab is not None, "build() comes first"
        return self._lab

    def build(self, example: Path, fabric: Fabric) -> None:
        """Make the hosts of a fabric.yaml, each with a runtime and roceway-cni installed."""
        self._lab = Lab(fabric)
        for machine in self._lab.machines:
            self.stands.append(self._stand(machine, example, fabric.metadata.name))

    def _stand(self, machine: Machine, example: Path, network: str) -> Stand:
        folder = self.lab.folder / machine.name
        stand = Stand(
            machine,
            self._caller(f"{self.lab.tag}-{machine.name}", machine.ns.path, folder, [folder / "watch", folder / "bin"]),
            folder / "state",
            folder / "calls",
        )
        first, last = map(str, machine.addresses())
        before = render.primary(network, str(MANAGEMENT), first, last, folder / "host-local")
        stand.caller.configure(network, before)
        render.install(render.for_host(example, folder), machine.name, folder / "bin", stand.caller.net_d)
        render.stopwatch(folder / "watch", folder / "bin" / "roceway-cni", stand.calls)
        return stand

    def attach(self, stand: Stand) -> Pod:
        """Start the host's pod."""
        pod = stand.caller.start(stand.machine.pod)
        self._namespaces.add(pod.inode)
        return pod

    def detach(self, stand: Stand) -> None:
        """End the host's pods."""
        self._ending = min(self._ending, time.clock_gettime(time.CLOCK_BOOTTIME))
        for pod in list(stand.caller.pods):
            stand.caller.stop(pod)

    def snapshot(self) -> list[str]:
        """All that pods could leave behind, one text for each host."""
        namespaces = frozenset(self._namespaces)
        return [
            proof.snapshot(each.machine.name, each.machine.ns, each.state, each.caller, namespaces, self._ending)
            for each in self.stands
        ]

    def close(self) -> None:
        """Remove everything."""
        for stand in self.stands:
            stand.caller.close()
        if self._lab is not None:
            self._lab.close()


def seconds(stand: Stand, verb: str) -> float:
    """How long roceway-cni's last call of ``verb`` took on a host, from its start to its end as its caller saw it."""
    calls = [line.split() for line in stand.calls.read_text().splitlines()]
    return [int(microseconds) / 1e6 for name, _, microseconds in calls if name == verb][-1]
