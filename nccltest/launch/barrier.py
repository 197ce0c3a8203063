"""Pods wait for each other: ``python -m nccltest.launch.barrier --seconds 300 PEER…`` in an init container.

A plain Job starts its pods whenever there is room, and a rank that waits alone holds its GPUs for nothing. Pod 0
listens; when the last peer has called, all go on together. Who never came is named, and everybody ends with 1.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import sys
import time
from collections.abc import Sequence

__all__ = ["follow", "lead", "main"]

_GO = b"go\n"
_AGAIN = 0.5
_LONGEST = 16


def main(arguments: Sequence[str]) -> int:
    """0: all are there. 1: not in time."""
    parser = argparse.ArgumentParser(prog="python -m nccltest.launch.barrier", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--port", type=int, default=29_399)
    parser.add_argument("--index", type=int, default=int(os.environ.get("JOB_COMPLETION_INDEX", "0")))
    parser.add_argument("peer", nargs="+", help="names of all pods, in the order of their indices")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    if options.index:
        return follow(options.index, options.peer[0], options.port, deadline)
    return lead(options.peer, options.port, deadline)


def lead(peers: Sequence[str], port: int, deadline: float) -> int:
    """Wait for every other index, then release them. ``deadline`` in seconds of time.monotonic."""
    missing = set(range(1, len(peers)))
    arrived: list[socket.socket] = []
    with socket.create_server(("", port), reuse_port=False) as server, selectors.DefaultSelector() as selector:
        server.setblocking(False)
        selector.register(server, selectors.EVENT_READ)
        while missing and time.monotonic() < deadline:
            for key, _ in selector.select(max(min(deadline - time.monotonic(), _AGAIN), 0)):
                if key.fileobj is server:
                    caller, _ = server.accept()
                    caller.setblocking(False)
                    selector.register(caller, selectors.EVENT_READ)
                    arrived.append(caller)
                else:
                    _hear(selector, key, missing)
        for caller in arrived:
            if not missing:
                _tell(caller)
            caller.close()
    if missing:
        names = ", ".join(peers[index] for index in sorted(missing))
        print(f"roceway-probe: barrier: these pods never came: {names}", file=sys.stderr)
        return 1
    return 0


def _hear(selector: selectors.BaseSelector, key: selectors.SelectorKey, missing: set[int]) -> None:
    """A caller says its index once; then it only waits."""
    caller = key.fileobj
    assert isinstance(caller, socket.socket)  # noqa: S101  # only sockets are registered
    try:
        said = caller.recv(_LONGEST).strip()
    except OSError:
        said = b""
    selector.unregister(caller)
    if said.isdigit():
        missing.discard(int(said))


def _tell(caller: socket.socket) -> None:
    try:
        caller.sendall(_GO)
    except OSError:
        return  # it went away: its own job tells


def follow(index: int, leader: str, port: int, deadline: float) -> int:
    """Call pod 0 until it answers, then wait for its word."""
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((leader, port), timeout=_AGAIN * 4) as connection:
                connection.sendall(b"%d\n" % index)
                connection.settimeout(max(deadline - time.monotonic(), 0.01))
                if connection.recv(len(_GO)) == _GO:
                    return 0
                break  # it gave up
        except OSError:
            time.sleep(_AGAIN)
    print(f"roceway-probe: barrier: {leader} did not let pod {index} go", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
