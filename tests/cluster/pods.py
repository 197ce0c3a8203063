"""Pods of the tests, and what is seen of them from the node."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.node import Node, until

__all__ = ["addresses", "attached", "gone", "pod", "running", "state"]

IMAGE = "roceway:0.1.0"


def pod(name: str, node: Node, *, rails: int = 0, annotation: str = "", **spec: Any) -> dict[str, Any]:
    """A pod that sleeps, with so many of ``roceway.io/rail``, or with the annotation ``roceway.io/rails``."""
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if annotation:
        metadata["annotations"] = {"roceway.io/rails": annotation}
    resources = {"resources": {"limits": {"roceway.io/rail": rails}}} if rails else {}
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"],
        **resources,
    }
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"nodeName": node.name, "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }  # fmt: skip


def running(cluster: Cluster, *names: str, seconds: float = 60.0) -> None:
    """Wait until they run."""
    for name in names:
        until(f"pod {name} runs", partial(_runs, cluster, name), seconds)


def _runs(cluster: Cluster, name: str) -> bool:
    return phase(cluster, name) == "Running"


def _is_gone(cluster: Cluster, name: str) -> bool:
    return cluster.get("pod", name) is None


def phase(cluster: Cluster, name: str) -> str:
    """``Pending``, ``Running`` and so on; empty where there is none."""
    found = cluster.get("pod", name)
    return str(found["status"].get("phase", "")) if found else ""


def gone(cluster: Cluster, *names: str, seconds: float = 60.0) -> None:
    """Delete pods and wait until nothing of them is left."""
    cluster.kubectl("delete", "pod", *names, "--ignore-not-found", "--wait=false")
    for name in names:
        until(f"pod {name} is gone", partial(_is_gone, cluster, name), seconds)


def addresses(cluster: Cluster, name: str) -> dict[str, str]:
    """Interface -> IPv4 address inside a pod, without loopback."""
    told = json.loads(cluster.kubectl("exec", name, "--", "ip", "-j", "-4", "address"))
    return {each["ifname"]: each["addr_info"][0]["local"] for each in told if each["ifname"] != "lo"}


def state(node: Node) -> dict[str, Any]:
    """``roceway-cni state --json`` on the node."""
    found: dict[str, Any] = json.loads(node.roceway("roceway-cni", "state", "--json"))
    return found


def attached(node: Node) -> dict[str, list[str]]:
    """Pod -> its rails, as the node's database has them."""
    return {each["pod"]: sorted(each["rails"]) for each in state(node)["attachments"]}
