"""A cluster: the control plane on the first node, two nodes or one, a fabric of rails between them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Self

import yaml

from tests.cluster import control, keys
from tests.cluster.binaries import Binaries
from tests.cluster.control import API, DNS, SERVICES
from tests.cluster.node import Node, until, wipe
from tests.world import World, sh

__all__ = ["Cluster"]

_MANAGEMENT = "192.168.77"


class Cluster:
    """Made from nothing in a quarter of a minute, removed without a trace."""

    def __init__(self, nodes: int = 1, rails: int = 4) -> None:
        self.binaries = Binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="roceway-cluster-"))
        self.world = World(rails)
        self.nodes: list[Node] = []
        try:
            self.world.fabric.ip("link", "add", "management", "type", "bridge")
            self.world.fabric.ip("link", "set", "management", "up")
            for number in range(nodes):
                self.nodes.append(self._node(number))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Everything ends and is removed, also what was half made."""
        for node in reversed(self.nodes):
            with contextlib.suppress(Exception):
                node.shut()
        self.world.close()
        wipe(self.folder)

    def _node(self, number: int) -> Node:
        host = self.world.host()
        node = Node(host, self.binaries, self.folder / f"host{number}", f"{_MANAGEMENT}.{10 + number}")
        port = f"m{number}"
        host.ns.ip("link", "add", "eth0", "type", "veth", "peer", "name", port)
        host.ns.ip("link", "set", port, "netns", self.world.fabric.name)
        self.world.fabric.ip("link", "set", port, "master", "management", "up")
        host.ns.ip("address", "add", f"{node.address}/24", "dev", "eth0")
        host.ns.ip("link", "set", "eth0", "up")
        host.ns.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        if number:
            host.ns.ip("route", "add", SERVICES, "via", f"{_MANAGEMENT}.10")
        else:
            for address in (API, DNS):
                host.ns.ip("address", "add", f"{address}/32", "dev", "lo")
            host.ns.ip("route", "add", "default", "dev", "lo")  # the API server wants one to know its address
        for other in self.nodes:
            host.ns.ip("route", "add", f"{other.pods}.0/24", "via", other.address)
            other.host.ns.ip("route", "add", f"{node.pods}.0/24", "via", node.address)
        return node

    # from nothing to ready

    def start(self) -> None:
        """Control plane and nodes; returns when every node is ready."""
        for node in self.nodes:
            node.boot()
        self._control_plane()
        for node in self.nodes:
            self.start_node(node)
        self.wait_ready()

    def start_node(self, node: Node) -> None:
        """containerd, the primary network, the kubelet, on a node that has booted for the first time."""
        node.start_containerd()
        for name in ("pause", "roceway"):
            node.load(self.binaries.images / f"{name}.tar")
        node.primary_network()
        self.start_kubelet(node)

    def start_kubelet(self, node: Node) -> None:
        """Also the next one after it has ended."""
        node.start_kubelet(self._kubeconfig(node.name, f"system:node:{node.name}"), self.keys.ca)

    def reboot(self, node: Node) -> None:
        """Cut the power of a node that has no control plane; returns when it is ready again."""
        node.shut()
        until(f"{node.name} is missed", lambda: not self.is_ready(node.name), 90)
        node.boot()
        node.start_containerd()
        self.start_kubelet(node)
        until(f"{node.name} is ready", lambda: self.is_ready(node.name), 60)

    def wait_ready(self) -> None:
        """Every node says that it is, and no program has ended. AssertionError with the log of one that has."""
        for node in self.nodes:
            until(f"{node.name} is ready", partial(self.is_ready, node.name), 60)
            node.check_programs()

    def is_ready(self, node: str) -> bool:
        """Whether the API server thinks so."""
        found = self.get("node", node) or {}
        return any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in found.get("status", {}).get("conditions", ())
        )

    def _control_plane(self) -> None:
        first, folder = self.nodes[0], self.folder / "control"
        names = ["IP:127.0.0.1", "DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default.svc"]
        self.keys = keys.make(folder / "keys", [f"IP:{API}", *names])
        users = {"admin": "system:masters", **{f"system:node:{node.name}": "system:nodes" for node in self.nodes}}
        control.write_files(folder, users)
        self.kubeconfig = self._kubeconfig("admin", "admin")
        for name, words in control.programs(folder, self.keys, self.kubeconfig, first.address).items():
            first.start(name, [self.binaries[name], *words])
            if name == "kube-apiserver":
                until(
                    "the API server is ready", lambda: "ok" in self.kubectl("get", "--raw", "/readyz", check=False), 60
                )

    def audit(self) -> list[dict[str, Any]]:
        """Every request of roceway's service accounts."""
        path = self.folder / "control/audit.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _kubeconfig(self, name: str, user: str) -> Path:
        path = self.folder / f"{name}.kubeconfig"
        here = {"server": f"https://{API}", "certificate-authority": str(self.keys.ca)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": here}],
            "users": [{"name": "me", "user": {"token": f"token-{user}"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        }
        path.write_text(yaml.safe_dump(document))
        path.chmod(0o600)
        return path

    # asking

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """As the cluster's administrator; stdout."""
        return sh(*self._kubectl(*words), stdin=stdin, check=check)

    def _kubectl(self, *words: str) -> list[str]:
        place = f"--net={self.nodes[0].host.ns.path}"
        return ["nsenter", place, "--", self.binaries["kubectl"], f"--kubeconfig={self.kubeconfig}", *words]

    def tried(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """The same, with exit code and stderr."""
        return subprocess.run(
            self._kubectl(*words), input=stdin, capture_output=True, text=True, timeout=120, check=False
        )

    def get(self, *words: str) -> Any:
        """``kubectl get … -o json``; None where there is no such thing."""
        text = self.kubectl("get", *words, "-o", "json", "--ignore-not-found", check=False)
        return json.loads(text) if text.strip() else None

    def apply(self, *documents: Any) -> None:
        """Documents, as ``kubectl apply`` takes them."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
