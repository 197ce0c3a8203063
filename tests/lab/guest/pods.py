"""The plugin as a runtime calls it, in the lab's own namespace, on NICs with PCI addresses and RDMA devices."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.lab.guest.kit import attempt, namespace, read_json, sh, wait_until

STATE = "/run/lab-state"


def conf(*rails: dict[str, Any], version: str = "1.1.0", **more: Any) -> dict[str, Any]:
    """A configuration; each rail gets the subnet of its number."""
    return {
        "cniVersion": version,
        "name": "pods",
        "type": "roceway-cni",
        "attach": "always",
        "stateDir": STATE,
        "rails": [
            {"name": f"rail{number}", "ipam": {"ranges": [{"subnet": f"10.{200 + number}.0.0/24"}]}, **rail}
            for number, rail in enumerate(rails)
        ],
        **more,
    }


def call(verb: str, configuration: dict[str, Any], pod: str = "", container: str = "c1") -> tuple[int, Any]:
    """One call as a process: CNI error code (0: none) and what was on stdout."""
    environment = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": container,
        "CNI_NETNS": f"/run/netns/{pod}",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": "/opt/cni/bin",
        "PATH": os.environ["PATH"],
    }
    if not pod:
        del environment["CNI_NETNS"]
    done = subprocess.run(
        [sys.executable, "-I", "-m", "cni"],
        input=json.dumps(configuration),
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    body: Any = json.loads(done.stdout) if done.stdout.strip() else None
    assert done.returncode == 0 or body is not None, done.stderr
    return (body["code"] if done.returncode else 0), body


def added(configuration: dict[str, Any], pod: str, container: str = "c1") -> Any:
    """An ADD that must succeed; its result."""
    code, body = call("ADD", configuration, pod, container)
    assert code == 0, body
    return body


def deleted(configuration: dict[str, Any], pod: str = "", container: str = "c1") -> None:
    """A DEL that must succeed."""
    answer = call("DEL", configuration, pod, container)
    assert answer == (0, None), answer


def explained(container: str = "c1") -> Any:
    """``roceway-cni explain`` as values."""
    words = [sys.executable, "-I", "-m", "cni", "explain", container, "--state-dir", STATE, "--json"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, timeout=120).stdout)


@contextlib.contextmanager
def pod(stem: str = "pod") -> Iterator[str]:
    """A namespace for a pod; the plugin's memory starts empty."""
    for path in Path(STATE).glob("*"):
        path.unlink()
    with namespace(stem) as name:
        yield name


def rdma_devices(ns: str = "") -> dict[str, str]:
    """RDMA device to network device, as a namespace sees them."""
    words = ["ip", "netns", "exec", ns] if ns else []
    return {each["ifname"]: each.get("netdev", "") for each in read_json(*words, "rdma", "-j", "link")}


@contextlib.contextmanager
def exclusive_mode() -> Iterator[None]:
    """The kernel changes the mode only while there is one network namespace."""
    wait_until(lambda: attempt("rdma", "system", "set", "netns", "exclusive").returncode == 0)
    try:
        yield
    finally:
        wait_until(lambda: attempt("rdma", "system", "set", "netns", "shared").returncode == 0)


def up(*devices: str) -> None:
    """Bring network devices up."""
    for device in devices:
        sh("ip", "link", "set", device, "up")
