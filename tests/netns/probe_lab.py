"""A cluster for the probe: hosts are namespaces, a leaf is a bridge, an uplink a veth between two, tbf sets rates.

The login node is the fabric's own namespace. Its remote shell is an agent that enters a host's namespace, where others
would log in with ssh.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nccltest.model import Measurement, read_measurements
from tests.world import ROOT, Ns, World, sh

_AGENT = """\
#!/bin/sh
# agent HOST COMMAND...: a line of shell on a host, under its own name.
host=$1; shift
[ -e {hosts}/$host.down ] && {{ echo "agent: connect to host $host: No route to host" >&2; exit 255; }}
exec nsenter --net=/run/netns/{tag}-$host unshare --uts --mount sh -c "mount -t sysfs none /sys; hostname $host; $*"
"""
_FABRIC = """\
apiVersion: roceway/v1
kind: Fabric
metadata: {{name: lab}}
rails:
{rails}
nodeTypes:
  lab: {{speed: {speed}M, mode: macvlan, rails: {{{nics}}}}}
nodes:
  - {{match: "{hosts}", type: lab}}
{switches}
probe:
  launcher: mpirun
  benchmark: mpi
  agent: [{agent}]
  interface: 10.199.0.0/16
  sizes: [{size}]
  repeats: {repeats}
  warmups: 1
  iterations: 3
  rounds: {matchings}
  rails: {mode}
  purposes: [{purposes}]
  startup: 2s
  timeout: {timeout}
  budget: {{gpuSecondsPerDay: 80000}}
"""
_NICE = -15
BURST, LATENCY = "32kb", "40ms"
"""With a queue of 250 kB at 50 Mb/s nothing is dropped; the machine may be busy, so rates are low."""


class ProbeLab(World):
    """Hosts n0, n1, … on ``rails`` rails; ``leaves`` leaves a rail, hosts in equal parts below them."""

    def __init__(self, hosts: int, rails: int = 2, leaves: int = 1, speed: int = 50) -> None:
        super().__init__(rails)
        self.speed = speed
        self.leaves = leaves
        self.names = [f"n{number}" for number in range(hosts)]
        self.spaces: dict[str, Ns] = {}
        try:
            self._management()
            for rail in range(rails):
                self._leaves(rail)
            for number, name in enumerate(self.names):
                self._plug(number, name)
            self.agent = self.folder / "agent"
            self.agent.write_text(_AGENT.format(hosts=self.folder, tag=self.tag))
            self.agent.chmod(0o755)
        except BaseException:
            self.close()
            raise

    def _management(self) -> None:
        self.fabric.ip("link", "add", "br-mgmt", "type", "bridge")
        self.fabric.ip("addr", "add", "10.199.255.254/16", "dev", "br-mgmt")
        self.fabric.ip("link", "set", "br-mgmt", "up")

    def _leaves(self, rail: int) -> None:
        """Leaf 0 is the world's own bridge; the others hang on a spine."""
        for leaf in range(1, self.leaves):
            self.fabric.ip("link", "add", f"br{rail}l{leaf}", "mtu", "9000", "type", "bridge")
            self.fabric.ip("link", "set", f"br{rail}l{leaf}", "up")
        if self.leaves > 1:
            self.fabric.ip("link", "add", f"sp{rail}", "mtu", "9000", "type", "bridge")
            self.fabric.ip("link", "set", f"sp{rail}", "up")
            for leaf in range(self.leaves):
                down, up = f"dn{rail}l{leaf}", f"up{rail}l{leaf}"
                self.fabric.ip("link", "add", up, "mtu", "9000", "type", "veth", "peer", "name", down, "mtu", "9000")
                self.fabric.ip("link", "set", up, "master", self._bridge(rail, leaf), "up")
                self.fabric.ip("link", "set", down, "master", f"sp{rail}", "up")

    def _bridge(self, rail: int, leaf: int) -> str:
        return f"br{rail}" if leaf == 0 else f"br{rail}l{leaf}"

    def leaf_of(self, number: int) -> int:
        """The leaf of host ``number``, on every rail."""
        return number * self.leaves // len(self.names)

    def _plug(self, number: int, name: str) -> None:
        space = self.spaces[name] = self.ns(name)
        space.ip("link", "add", "mgmt", "type", "veth", "peer", "name", f"m{number}")
        space.ip("link", "set", f"m{number}", "netns", self.fabric.name)
        self.fabric.ip("link", "set", f"m{number}", "master", "br-mgmt", "up")
        space.ip("addr", "add", f"10.199.0.{number + 1}/16", "dev", "mgmt")
        space.ip("link", "set", "mgmt", "up")
        for rail in range(self.rails):
            port = f"h{number}r{rail}"
            space.ip("link", "add", f"nic{rail}", "type", "veth", "peer", "name", port)
            space.ip("link", "set", port, "netns", self.fabric.name)
            self.fabric.ip("link", "set", port, "master", self._bridge(rail, self.leaf_of(number)), "up")
            space.ip("addr", "add", f"10.{200 + rail}.0.{number + 10}/24", "dev", f"nic{rail}")
            space.ip("link", "set", f"nic{rail}", "up")
            self.shape(name, rail, 1.0)

    def shape(self, name: str, rail: int, share: float) -> None:
        """Let a NIC send at a share of line rate."""
        self._tbf(self.spaces[name], f"nic{rail}", share * self.speed)

    def shape_uplink(self, rail: int, leaf: int, rate: float) -> None:
        """Let a leaf's uplink carry ``rate`` Mb/s each way."""
        self._tbf(self.fabric, f"up{rail}l{leaf}", rate)
        self._tbf(self.fabric, f"dn{rail}l{leaf}", rate)

    def _tbf(self, space: Ns, device: str, rate: float) -> None:
        options = ("rate", f"{rate * 1000:.0f}kbit", "burst", BURST, "latency", LATENCY)
        sh("tc", "-n", space.name, "qdisc", "replace", "dev", device, "root", "tbf", *options)

    def die(self, name: str) -> None:
        """The host is gone: no management, no rails, no remote shell."""
        for device in ("mgmt", *(f"nic{rail}" for rail in range(self.rails))):
            self.spaces[name].ip("link", "set", device, "down")
        (self.folder / f"{name}.down").touch()

    def write_fabric(self, **changes: Any) -> Path:
        """fabric.yaml of this cluster."""
        values = {
            "size": "1MiB",
            "repeats": 2,
            "matchings": 2,
            "mode": "one-by-one",
            "purposes": "random",
            "timeout": "60s",
        }
        values |= changes
        rails = "\n".join(
            f"  - {{name: rail{rail}, subnet: 10.{200 + rail}.0.0/24, nodeBlock: 28}}" for rail in range(self.rails)
        )
        text = _FABRIC.format(
            **values,
            rails=rails,
            speed=self.speed,
            nics=", ".join(f"rail{rail}: nic{rail}" for rail in range(self.rails)),
            hosts=f"n[0-{len(self.names) - 1}]",
            agent=self.agent,
            switches=self._switches(),
        )
        path = self.folder / "fabric.yaml"
        path.write_text(text)
        return path

    def _switches(self) -> str:
        if self.leaves == 1:
            return ""
        lines = ["switches:"]
        links = ["links:"]
        for rail in range(self.rails):
            for leaf in range(self.leaves):
                below = [number for number in range(len(self.names)) if self.leaf_of(number) == leaf]
                ports = f'"p[0-{len(below) - 1}]": "n[{below[0]}-{below[-1]}]/rail{rail}"'
                lines.append(f"  - {{name: leaf-{rail}-{leaf}, platform: sonic, role: leaf, ports: {{{ports}}}}}")
                links.append(f'  - {{from: "leaf-{rail}-{leaf}:up", to: "spine-{rail}:p{leaf}"}}')
            lines.append(f"  - {{name: spine-{rail}, platform: sonic, role: spine}}")
        return "\n".join([*lines, *links])

    def probe(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """``roceway-probe`` on the login node."""
        return subprocess.run(
            self.words(*words), capture_output=True, text=True, cwd=ROOT, timeout=timeout, env=environment()
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The same, not waited for."""
        return subprocess.Popen(
            self.words(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
        )

    def words(self, *words: str) -> Sequence[str]:
        """What starts it: exec, so that signals reach the probe itself.

        First in the queue for a core, as its ranks are then: a busy machine would measure itself, not the rails.
        """
        inside = ["nsenter", f"--net={self.fabric.path}", "--", "nice", "-n", str(_NICE)]
        return [*inside, sys.executable, "-m", "nccltest", *words]

    def run(self, *words: str, **changes: Any) -> tuple[subprocess.CompletedProcess[str], list[Measurement]]:
        """``run`` with this cluster's fabric.yaml; what it measured."""
        path = self.write_fabric(**changes)
        done = self.probe("run", *self.files(path), "--json", *words)
        measured = json.loads(done.stdout)["measurements"] if done.stdout else []
        return done, list(read_measurements("".join(json.dumps(each) + "\n" for each in measured), "run"))

    def files(self, fabric: Path) -> list[str]:
        """The options that keep a run in the lab's own folder."""
        return ["-f", str(fabric), "--state", str(self.folder / "state"), "--history", str(self.folder / "history.db")]

    def recorded(self) -> list[Measurement]:
        """What the state folder holds."""
        return [
            each
            for path in sorted((self.folder / "state").glob("*.jsonl"))
            for each in read_measurements(path.read_text(), "x")
        ]

    def processes(self) -> list[int]:
        """Everything that runs in a host's namespace."""
        inodes = {os.stat(space.path).st_ino for space in self.spaces.values()}
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{entry}/ns/net").st_ino in inodes:
                    found.append(int(entry))
            except OSError:
                continue
        return found


def environment() -> dict[str, str]:
    """Without the operator's own MPI settings."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "PRTE_", "NCCL_"))
    }
