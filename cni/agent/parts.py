"""What plugs into the agent, and where it runs.

The agent is a few processes, so that nothing of one kind can slow or kill another:

    main        accepts and reads requests, gives them to workers, feeds systemd's watchdog; single-threaded, light
     ├ worker…  one CNI request at a time each, warm; forked before anything heavy is imported
     └ background   the parts below: kubelet, metrics, drift, GC; may use threads, gRPC, pyroute2

A part lives in the background process. It hears of every finished request there, in order, after the runtime has its
answer. One that fails is logged and otherwise ignored: nothing optional may fail a pod.

Modules are named by dotted path and imported in the process that they run in, never before.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

__all__ = ["OFF", "PARTS", "Finished", "Part", "Setting", "resolve"]

PARTS: tuple[str, ...] = (
    "cni.agent.broker:part",
    "cni.agent.nodeparts:metrics",
    "cni.agent.nodeparts:device_plugin",
    "cni.agent.nodeparts:events",
    "cni.agent.nodeparts:drift",
    "cni.agent.nodeparts:reclaim",
)
"""``module:callable``, each ``(Setting) -> Part``; made in this order, stopped in reverse."""

OFF = "off: "
"""How a part's account begins that has nothing to do here: no problem, but said by ``status``."""


class Setting(NamedTuple):
    """What ``roceway-agent run`` was told."""

    socket: str
    state_dir: str
    fabric: str
    """Path of fabric.yaml; empty without one."""
    node: str
    options: dict[str, Any]
    """All options of the command line by their names, for parts that declare their own."""


class Finished(NamedTuple):
    """A request with its outcome. Plain values: it crosses a process boundary as JSON."""

    verb: str
    network: str
    container: str
    ifname: str
    netns: str
    args: dict[str, str]
    """CNI_ARGS, such as K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID."""
    state_dir: str
    code: int
    """The CNI error code; 0 for success."""
    message: str
    """The error's sentence; empty for success."""
    result: dict[str, Any] | None
    """What the runtime got; None for verbs that answer with silence."""
    seconds: float
    """From the request's arrival to its answer, waiting for a free worker included."""


class Part(Protocol):
    """A part of the background process."""

    name: str

    def start(self) -> None:
        """Begin, in threads of one's own; returns at once. An exception stops this part only and is logged."""

    def stop(self) -> None:
        """End, within two seconds."""

    def after(self, finished: Finished) -> None:
        """A request is answered. Called from one thread, in order; must not wait for anything."""

    def problem(self) -> str:
        """Why this part does not do its work now; empty while it does. Shown by ``roceway-agent status``.

        Begins with OFF where it has none to do.
        """


def resolve(name: str) -> Callable[..., Any]:
    """Import what a dotted name (``module:callable``) says."""
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found
