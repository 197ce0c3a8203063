"""Answers for the kubelet: the plugin and the agent's workers ask here what a pod was given (cni.kubelet).

So that neither needs gRPC: importing it takes longer than an ADD, and in every worker it would cost 25 MB.
One line of JSON each way on a socket of root's alone, beside the agent's.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import socketserver
import struct
import threading
from typing import Any

from cni.agent.parts import Finished, Setting
from cni.agent.podresources import PodResources
from cni.kubelet import broker_path, dump
from host.errors import HostError

__all__ = ["Broker", "part"]

_LINE_MAX = 4096  # bytes: names of Kubernetes have at most 253
_PATIENCE = 5.0  # seconds that one who asks has for its line
_UCRED = struct.Struct("=iII")  # pid, uid, gid: unix(7), SO_PEERCRED

_log = logging.getLogger("roceway-agent")


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128
    client: PodResources
    owner: int
    account: list[str]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the library's signature
        """A client that vanishes is none of our business."""
        _log.debug("a client of the kubelet's broker went away", exc_info=True)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    timeout = _PATIENCE

    def handle(self) -> None:
        _, uid, _ = _UCRED.unpack(self.request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        if uid not in (0, self.server.owner):
            return
        answer = self._answer(self.rfile.readline(_LINE_MAX))
        self.wfile.write(json.dumps(answer).encode() + b"\n")

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
            namespace, name = str(asked["namespace"]), str(asked["name"])
        except (ValueError, KeyError, TypeError) as error:
            return {"error": f"the question makes no sense: {error!r}"}
        try:
            found = self.server.client.pod(namespace, name)
        except HostError as error:
            self.server.account[:] = [str(error)]
            return {"error": str(error)}
        self.server.account.clear()
        return dump(found)


class Broker:
    """The part of the agent that answers."""

    name = "kubelet"

    def __init__(self, path: str, folder: str) -> None:
        self._path = path
        self._client = PodResources(folder)
        self._server: _Server | None = None
        self._account: list[str] = []

    def start(self) -> None:
        """Listen, in threads."""
        fresh = f"{self._path}.{os.getpid()}"
        server = _Server(fresh, _Handler)
        os.chmod(fresh, 0o600)
        os.replace(fresh, self._path)  # never a moment in which the path leads nowhere
        server.client, server.owner, server.account = self._client, os.geteuid(), self._account
        self._server = server
        threading.Thread(target=server.serve_forever, name="kubelet-broker", daemon=True).start()

    def stop(self) -> None:
        """Close the socket and the connection."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        self._client.close()

    def after(self, finished: Finished) -> None:
        """Nothing to note."""

    def problem(self) -> str:
        """The kubelet's last refusal; empty while it answers."""
        return "".join(self._account[:1])


def part(setting: Setting) -> Broker:
    """For ``cni.agent.parts.PARTS``."""
    from cni.agent.noderails import kubelet_dir

    return Broker(broker_path(setting.socket), kubelet_dir(setting))
