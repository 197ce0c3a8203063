"""The plugin as a runtime calls it, in the lab's own namespace, on NICs with PCI addresses and RDMA devices."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Imported once, so that no child has to.
import cni.binding
import cni.commands.add
import cni.commands.check
import cni.commands.delete
import cni.rdma
import cni.vf  # noqa: F401 - the last of them
from cni import cli
from cni.skel import dispatch
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


def environment(verb: str, pod: str, container: str, arguments: str = "") -> dict[str, str]:
    """What a runtime sets; without ``pod`` there is no namespace. ``arguments``: CNI_ARGS."""
    found = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": container,
        "CNI_NETNS": f"/run/netns/{pod}",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": "/opt/cni/bin",
        "PATH": os.environ["PATH"],
        **({"CNI_ARGS": arguments} if arguments else {}),
    }
    if not pod:
        del found["CNI_NETNS"]
    return found


def call(
    verb: str, configuration: dict[str, Any], pod: str = "", container: str = "c1", arguments: str = ""
) -> tuple[int, Any]:
    """One call in a forked child, which spares the guest an interpreter's start: error code (0: none) and answer."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 70
        try:
            code, out = dispatch(environment(verb, pod, container, arguments), json.dumps(configuration))
            with open(writing, "w") as file:
                file.write(out)
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading) as file:
        out = file.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status), f"{verb} ended with status {status}"
    return _answer(os.WEXITSTATUS(status), out, "see the captured stderr")


def call_process(
    verb: str, configuration: dict[str, Any], pod: str = "", container: str = "c1", *, before: Sequence[str] = ()
) -> tuple[int, Any]:
    """The same as a process of its own, as a runtime does it; ``before``: words ahead of its command line."""
    done = subprocess.run(
        [*before, sys.executable, "-I", "-m", "cni"],
        input=json.dumps(configuration),
        capture_output=True,
        text=True,
        env=environment(verb, pod, container),
        timeout=120,
    )
    return _answer(done.returncode, done.stdout, done.stderr)


def _answer(code: int, out: str, told: str) -> tuple[int, Any]:
    body: Any = json.loads(out) if out.strip() else None
    assert code == 0 or body is not None, told
    return (body["code"] if code else 0), body


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
    with contextlib.redirect_stdout(io.StringIO()) as out:
        cli.run(["explain", container, "--state-dir", STATE, "--json"])
    return json.loads(out.getvalue())


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
