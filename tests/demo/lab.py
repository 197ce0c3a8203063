"""The hosts of a fabric.yaml as network namespaces: a bridge per rail, tbf on every NIC, a management network."""

from __future__ import annotations

import os
import shutil
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from conf.fabric import Fabric
from conf.node import Node, node, node_names
from tests.demo.process import CommandError, run
from tests.world import Host, Ns, World, sh

MANAGEMENT = IPv4Network("10.199.0.0/16")
"""Where mpirun talks to its daemons, and the pods' eth0; the third byte is the host's."""
_LOGIN = MANAGEMENT[-2]
_TIMEOUT = 10.0

# A queue of 200 kB at 400 Mb/s: data and the ACKs of the neighbour's data share it, and a longer one makes TCP wait for
# its ACKs (8 MB all-reduce: 95 % of line rate with these two, 74 % with 32kb and 25ms).
_BURST, _LATENCY = "128kb", "4ms"


class Machine:
    """One host of the fabric."""

    def __init__(self, host: Host, described: Node, speed: int) -> None:
        self.host = host
        self.ns: Ns = host.ns
        self.name = described.name
        self.node = described
        self.speed = speed
        """Line rate of a NIC in Mb/s."""
        self.pod = f"pod{host.number}"
        for rail in described.rails:
            self.shape(rail.nic, speed)

    def shape(self, nic: str, speed: int) -> None:
        """Let a NIC send at ``speed`` Mb/s."""
        options = ("rate", f"{speed}mbit", "burst", _BURST, "latency", _LATENCY)
        sh("tc", "-n", self.ns.name, "qdisc", "replace", "dev", nic, "root", "tbf", *options)

    def addresses(self) -> tuple[IPv4Address, IPv4Address]:
        """First and last address that this host gives to a pod's eth0."""
        base = MANAGEMENT[256 * self.host.number]
        return base + 10, base + 250


class Lab(World):
    """The world of one demo. Closing it removes everything, whatever state it was left in."""

    def __init__(self, fabric: Fabric) -> None:
        self.machines: list[Machine] = []
        try:
            super().__init__(rails=len(fabric.rails))
            self._management()
            self.machines += [self._machine(fabric, name) for name in node_names(fabric)]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove everything. The sweep by name finds also what a signal cut off in the making."""
        for mount in mounts_below(self.folder):
            run(["umount", "--lazy", mount], timeout=_TIMEOUT)
        super().close()
        for entry in Path("/run/netns").glob(f"{self.tag}-*"):
            run(["ip", "netns", "del", entry.name], timeout=_TIMEOUT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _management(self) -> None:
        self.fabric.ip("link", "add", "br-mgmt", "type", "bridge")
        self.fabric.ip("addr", "add", f"{_LOGIN}/{MANAGEMENT.prefixlen}", "dev", "br-mgmt")
        self.fabric.ip("link", "set", "br-mgmt", "up")

    def _machine(self, fabric: Fabric, name: str) -> Machine:
        described = node(fabric, name)
        host = self.host()
        missing = {rail.nic for rail in described.rails} - {f"nic{number}" for number in range(self.rails)}
        if missing:
            raise CommandError(f"{name}: the demo's NICs are nic0, nic1, …; there is no {', '.join(sorted(missing))}")
        self._plug(host)
        return Machine(host, described, fabric.node_types[described.type].speed)

    def _plug(self, host: Host) -> None:
        """The bridge that the primary CNI plugin will find, with an uplink to the management network."""
        port, mac = f"h{host.number}mgmt", f"02:00:00:00:00:{host.number + 1:02x}"
        # A bridge without an address of its own would change it with its ports, and every comparison with it.
        host.ns.ip("link", "add", "cni0", "address", mac, "type", "bridge")
        host.ns.ip("link", "add", "mgmt", "type", "veth", "peer", "name", port)
        host.ns.ip("link", "set", port, "netns", self.fabric.name)
        self.fabric.ip("link", "set", port, "master", "br-mgmt", "up")
        host.ns.ip("link", "set", "mgmt", "master", "cni0", "up")
        host.ns.ip("link", "set", "cni0", "up")


def mounts_below(folder: Path) -> list[str]:
    """Mount points under ``folder``, innermost first."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [line.split()[4] for line in file]
    return sorted((point for point in points if point.startswith(f"{folder}{os.sep}")), key=len, reverse=True)
