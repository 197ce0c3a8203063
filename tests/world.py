"""Hosts, NICs and pods made of network namespaces, for every test that needs a real kernel.

A :class:`World` is one fabric: a namespace with one bridge per rail, and hosts whose NICs are veth ends plugged into
those bridges. Names carry the process id, everything is removed on close, also after a failure or Ctrl-C.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).resolve().parent.parent
CNI_PLUGINS = Path("/usr/lib/cni")
_serial = itertools.count()


def sh(*words: str, stdin: str | None = None, check: bool = True, env: Mapping[str, str] | None = None) -> str:
    """Run a command; its stdout. With ``check`` a failure shows what it printed."""
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, env=env, timeout=120)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Answer(NamedTuple):
    """What a plugin call gave."""

    code: int
    """Exit code."""
    body: Any
    """stdout as JSON; None when empty."""
    stderr: str

    @property
    def error(self) -> int:
        """The CNI error code; 0 without an error."""
        return int(self.body["code"]) if self.code else 0


class Ns:
    """One network namespace under /run/netns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = f"/run/netns/{name}"
        sh("ip", "netns", "add", name)
        self.ip("link", "set", "lo", "up")

    def ip(self, *words: str) -> str:
        """``ip -n NAME …``."""
        return sh("ip", "-n", self.name, *words)

    def json(self, *words: str) -> Any:
        """``ip -j -n NAME …`` decoded."""
        return json.loads(sh("ip", "-j", "-d", "-n", self.name, *words) or "[]")

    def run(self, *words: str, check: bool = True) -> str:
        """A command inside, without ``ip netns exec``'s private mounts."""
        return sh("nsenter", f"--net={self.path}", "--", *words, check=check)

    def snapshot(self) -> str:
        """Links with names, MTU, MAC, altnames and group, addresses, rules and routes as sorted text."""
        lines = []
        for device in self.json("link", "show"):
            info = device.get("linkinfo", {}).get("info_kind", "")
            names = ",".join(sorted(device.get("altnames", [])))
            up = "UP" in device["flags"]
            lines.append(
                f"link {device['ifname']} {info} mtu {device['mtu']} mac {device.get('address', '')} "
                f"up {up} group {device.get('group', '')} altnames [{names}]"
            )
        for device in self.json("addr", "show"):
            for address in device.get("addr_info", []):
                if address.get("scope") != "link":
                    lines.append(f"addr {device['ifname']} {address['local']}/{address['prefixlen']}")
        for family in ("-4", "-6"):
            lines += [f"rule {family} {line.strip()}" for line in self.ip(family, "rule", "show").splitlines()]
            routes = self.ip(family, "route", "show", "table", "all").splitlines()
            lines += [
                f"route {family} {line.strip()}" for line in routes if "fe80::" not in line and "ff00::" not in line
            ]
        return "\n".join(sorted(lines))

    def delete(self) -> None:
        """Remove the name; the namespace dies with its last user."""
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)


class World:
    """A fabric of bridges and the hosts plugged into it."""

    def __init__(self, rails: int = 2) -> None:
        self.rails = rails
        self.tag = f"rw{os.getpid()}-{next(_serial)}"
        self.folder = Path(tempfile.mkdtemp(prefix="roceway-test-"))
        self._hosts = itertools.count()
        try:
            self.fabric = self.ns("fabric")
            for rail in range(rails):
                self.fabric.ip("link", "add", f"br{rail}", "mtu", "9000", "type", "bridge")
                self.fabric.ip("link", "set", f"br{rail}", "up")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything that carries this world's tag, also what was half made."""
        for path in Path("/run/netns").glob(f"{self.tag}-*"):
            subprocess.run(["ip", "netns", "del", path.name], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ns(self, name: str) -> Ns:
        """A namespace that goes with the world."""
        return Ns(f"{self.tag}-{name}")

    def host(self) -> Host:
        """A host with one NIC per rail: ``nic0``, ``nic1``, … at MTU 9000, up."""
        number = next(self._hosts)
        space = self.ns(f"host{number}")
        for rail in range(self.rails):
            port = f"h{number}r{rail}"
            space.ip("link", "add", f"nic{rail}", "mtu", "9000", "type", "veth", "peer", "name", port)
            space.ip("link", "set", port, "netns", self.fabric.name, "mtu", "9000")
            self.fabric.ip("link", "set", port, "mtu", "9000", "master", f"br{rail}", "up")
            space.ip("link", "set", f"nic{rail}", "up")
        return Host(self, space, number)


class Host:
    """One host: its namespace, its state folder, and the plugin as a runtime would call it there."""

    def __init__(self, world: World, space: Ns, number: int) -> None:
        self.world = world
        self.ns = space
        self.number = number
        self.state = world.folder / f"state{number}"

    def conf(
        self, rails: int | None = None, *, mode: str = "macvlan", version: str = "1.1.0", **extra: Any
    ) -> dict[str, Any]:
        """A network configuration: rail i is 10.(200+i).0.0/24, host h hands out .(32h+2) and above."""
        low = 32 * self.number
        return {
            "cniVersion": version,
            "name": "pods",
            "type": "roceway-cni",
            "attach": "always",
            "stateDir": str(self.state),
            "rails": [
                {
                    "name": f"rail{i}",
                    "netdev": f"nic{i}",
                    "mode": mode,
                    "mtu": 9000,
                    "ipam": {
                        "ranges": [
                            {
                                "subnet": f"10.{200 + i}.0.0/24",
                                "rangeStart": f"10.{200 + i}.0.{low + 2}",
                                "rangeEnd": f"10.{200 + i}.0.{low + 30}",
                                "gateway": f"10.{200 + i}.0.1",
                            }
                        ]
                    },
                }
                for i in range(self.world.rails if rails is None else rails)
            ],
            **extra,
        }

    def call(
        self,
        command: str,
        conf: Mapping[str, Any] | str,
        container: str = "c1",
        netns: Ns | str = "",
        *,
        ifname: str = "eth0",
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
    ) -> Answer:
        """One call of the plugin as a process in this host's namespace."""
        variables = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": container,
            "CNI_NETNS": netns.path if isinstance(netns, Ns) else netns,
            "CNI_IFNAME": ifname,
            "CNI_PATH": str(CNI_PLUGINS),
            "PATH": os.environ["PATH"],
            **(env or {}),
        }
        variables = {name: value for name, value in variables.items() if value != ""}
        done = subprocess.run(
            ["nsenter", f"--net={self.ns.path}", "--", *(program or PLUGIN)],
            input=conf if isinstance(conf, str) else json.dumps(conf),
            capture_output=True,
            text=True,
            env=variables,
            cwd=ROOT,
            timeout=120,
        )
        return Answer(done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr)


PLUGIN = (sys.executable, "-I", "-m", "cni")
"""The plugin as tests start it: in the venv, isolated from the environment as the installed one is."""
