"""The three ways to give a pod N macvlan rails with address, sysctls, routing table and rule.

Each is started the way its user starts it: the plugin and the reference plugins as libcni executes them (one process
each, environment and stdin), ``ip -batch`` as a script would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from cni import install
from tests.netns.agents import Agent
from tests.world import CNI_PLUGINS, Host, Ns

_GROUP = "4711"


class Contender(Protocol):
    """Attaches and detaches a pod; both give seconds."""

    name: str

    def add(self, pod: Ns, container: str = "bench") -> float:
        """Attach."""
        ...

    def delete(self, pod: Ns, container: str = "bench") -> float:
        """Detach."""
        ...


def execute(words: Sequence[str], stdin: str, env: dict[str, str] | None = None) -> str:
    """Run a process that must succeed; its stdout."""
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, env=env, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{words[0]}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _cni_env(command: str, pod: Ns, ifname: str, container: str = "bench") -> dict[str, str]:
    return {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": container,
        "CNI_NETNS": pod.path,
        "CNI_IFNAME": ifname,
        "CNI_PATH": str(CNI_PLUGINS),
        "PATH": os.environ["PATH"],
    }


class Roceway:
    """``roceway-cni`` as `install` puts it on a node, working by itself."""

    name = "roceway-cni alone"

    def __init__(self, host: Host, rails: int, subnet_bits: int = 24) -> None:
        self.program = installed(host.world.folder / "bin")
        self.conf: dict[str, Any] = {**host.conf(rails), "agent": False}
        for number, rail in enumerate(self.conf["rails"]):
            rail["ipam"] = {"ranges": [{"subnet": f"{10 + number}.200.0.0/{subnet_bits}"}]}

    def call(self, command: str, pod: Ns, container: str = "bench", *more: str) -> tuple[float, str]:
        """One process for all rails: seconds, and what it said on stderr."""
        stdin, env = json.dumps(self.conf), _cni_env(command, pod, "eth0", container)
        start = time.perf_counter()
        done = subprocess.run([self.program, *more], input=stdin, capture_output=True, text=True, env=env, timeout=60)
        spent = time.perf_counter() - start
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
        return spent, done.stderr

    def add(self, pod: Ns, container: str = "bench") -> float:
        """Attach."""
        return self.call("ADD", pod, container)[0]

    def delete(self, pod: Ns, container: str = "bench") -> float:
        """Detach."""
        return self.call("DEL", pod, container)[0]


class ByAgent(Roceway):
    """The same program where an agent runs."""

    name = "roceway-cni, agent"

    def __init__(self, agent: Agent, host: Host, rails: int, subnet_bits: int = 24) -> None:
        super().__init__(host, rails, subnet_bits)
        self.conf["agent"] = str(agent.socket)


def installed(folder: Path) -> Path:
    """The plugin in ``folder``, put there as `roceway-cni install` does."""
    program = install.compiled()
    if program is None:
        print("bench: no C compiler: this measures the launcher for the host's Python", file=sys.stderr)
    install.apply(install.plan_plugin(folder, program))
    return folder / "roceway-cni"


class ReferenceChain:
    """N × (macvlan + host-local, tuning, sbr) from containernetworking/plugins."""

    name = "reference chain"

    def __init__(self, folder: Path, rails: int, subnet_bits: int = 24) -> None:
        self.folder = folder
        self.rails = rails
        self.subnet_bits = subnet_bits
        self.results: dict[str, list[Any]] = {}

    def _confs(self, rail: int) -> list[dict[str, Any]]:
        data_dir = str(self.folder / "host-local")
        ranges = [[{"subnet": f"{10 + rail}.200.0.0/{self.subnet_bits}"}]]
        ipam = {"type": "host-local", "dataDir": data_dir, "ranges": ranges}
        sysctl = {f"net.ipv4.conf.rail{rail}.{key}": value for key, value in _SYSCTLS}
        common = {"cniVersion": "0.4.0", "name": f"net{rail}"}
        return [
            {**common, "type": "macvlan", "master": f"nic{rail}", "mode": "bridge", "mtu": 9000, "ipam": ipam},
            {**common, "type": "tuning", "sysctl": sysctl, "dataDir": str(self.folder / "tuning")},
            {**common, "type": "sbr"},
        ]

    def add(self, pod: Ns, container: str = "bench") -> float:
        """Each rail's chain forwards, each result handed to the next plugin."""
        start = time.perf_counter()
        results = self.results[container] = []
        for rail in range(self.rails):
            result = None
            for conf in self._confs(rail):
                result = self._plugin(conf, _cni_env("ADD", pod, f"rail{rail}", container), result)
            results.append(result)
        return time.perf_counter() - start

    def delete(self, pod: Ns, container: str = "bench") -> float:
        """Each rail's chain backwards, with the final result."""
        start = time.perf_counter()
        for rail in reversed(range(self.rails)):
            for conf in reversed(self._confs(rail)):
                env = _cni_env("DEL", pod, f"rail{rail}", container)
                self._plugin(conf, env, self.results[container][rail])
        return time.perf_counter() - start

    def _plugin(self, conf: dict[str, Any], env: dict[str, str], previous: Any) -> Any:
        stdin = json.dumps({**conf, "prevResult": previous} if previous else conf)
        out = execute([str(CNI_PLUGINS / conf["type"])], stdin, env)
        return json.loads(out) if out.strip() else None


_SYSCTLS = (("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "2"), ("arp_notify", "1"))


class IpBatch:
    """The floor: the same kernel work from two ``ip -batch`` scripts that know every value in advance.

    It allocates nothing, remembers nothing, checks nothing and writes no sysctl.
    """

    name = "ip -batch (floor)"

    def __init__(self, rails: int) -> None:
        self.rails = range(rails)

    def add(self, pod: Ns, container: str = "bench") -> float:
        """Create in the pod's namespace, then configure there."""
        create = "\n".join(
            f"link add link nic{i} name rail{i} netns {pod.name} mtu 9000 group {_GROUP} type macvlan mode bridge"
            for i in self.rails
        )
        configure = "\n".join(
            f"addr add {10 + i}.200.0.2/24 dev rail{i}\nlink set rail{i} up\n"
            f"route add {10 + i}.200.0.0/24 dev rail{i} table {1000 + i}\n"
            f"rule add from {10 + i}.200.0.2 table {1000 + i} priority {1000 + i}"
            for i in self.rails
        )
        start = time.perf_counter()
        execute(["ip", "-batch", "-"], create)
        execute(["ip", "-n", pod.name, "-batch", "-"], configure)
        return time.perf_counter() - start

    def delete(self, pod: Ns, container: str = "bench") -> float:
        """Rules one by one, links as a group."""
        script = "\n".join(f"rule del from {10 + i}.200.0.2 table {1000 + i} priority {1000 + i}" for i in self.rails)
        start = time.perf_counter()
        execute(["ip", "-n", pod.name, "-batch", "-"], f"{script}\nlink del group {_GROUP}\n")
        return time.perf_counter() - start
