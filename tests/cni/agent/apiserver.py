"""A double of the Kubernetes API server for events: real HTTPS on loopback, a CA of its own, tokens that are checked.

What it holds to is the published API: events are created and merge-patched in the pod's namespace, names are unique,
``involvedObject.namespace`` must be the event's, refusals are Status objects.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cni.agent.kubeapi import ApiServer

_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/events(?:/([^/]+))?")
_OPENSSL = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"


def _certificates(folder: Path) -> None:
    """A CA and a server's certificate for 127.0.0.1 that it signed."""
    for words in (
        f"{_OPENSSL} -keyout ca.key -out ca.crt -subj /CN=kubernetes",
        f"{_OPENSSL} -keyout server.key -out server.crt -subj /CN=kube-apiserver -addext subjectAltName=IP:127.0.0.1 "
        "-addext basicConstraints=critical,CA:FALSE -CA ca.crt -CAkey ca.key",
    ):
        subprocess.run(words.split(), cwd=folder, check=True, capture_output=True)


class KubeApi:
    """Started with a folder of its own; ``account`` is what the kubelet would mount."""

    def __init__(self, folder: Path, token: str = "token-1-of-the-agent") -> None:
        self.account = folder / "account"
        self.account.mkdir(parents=True)
        _certificates(folder)
        (self.account / "ca.crt").write_bytes((folder / "ca.crt").read_bytes())
        self.rotate(token)
        self.events: dict[str, dict[str, Any]] = {}
        """By name."""
        self.requests: list[tuple[str, str, int]] = []
        """Method, path, answer."""
        self.answers: list[tuple[int, dict[str, str], dict[str, Any]]] = []
        """What to say next instead of doing it: status, headers, Status fields."""
        self.delay = 0.0
        """Seconds before each byte of an answer."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "server.crt", folder / "server.key")
        self.port = 0
        self._http: ThreadingHTTPServer | None = None

    def rotate(self, token: str) -> None:
        """A new token, as the kubelet writes it; the old one is worth nothing any more."""
        self.token = token
        fresh = self.account / "fresh"
        fresh.write_text(token)
        fresh.replace(self.account / "token")

    @property
    def client(self) -> ApiServer:
        return ApiServer("127.0.0.1", self.port, str(self.account))

    @property
    def env(self) -> dict[str, str]:
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT_HTTPS": str(self.port)}

    def start(self) -> KubeApi:
        """Listen: on the same port again after :meth:`stop`."""
        double = self

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:  # the handshake in the request's own thread
                self.request.settimeout(10)
                self.request = double._context.wrap_socket(self.request, server_side=True)
                super().setup()

            def do_POST(self) -> None:
                double._serve(self)

            do_PATCH = do_POST  # noqa: N815 - the library's name

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Clients that hang up, or do not trust us."""

        self._http = Server(("127.0.0.1", self.port), Handler)
        self.port = self._http.server_port
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Gone: connections are refused."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        status, headers, answer = self._decide(request, body)
        self.requests.append((request.command, request.path, status))
        data = json.dumps(answer).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\nConnection: close\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        _drip(request.connection, head.encode() + b"\r\n" + data, self.delay)

    def _decide(
        self, request: BaseHTTPRequestHandler, body: dict[str, Any]
    ) -> tuple[int, dict[str, str], dict[str, Any]]:
        if request.headers["Authorization"] != f"Bearer {self.token}":
            return 401, {}, status("Unauthorized")
        if self.answers:
            return self.answers.pop(0)
        found = _PATH.fullmatch(request.path)
        assert found, request.path
        space, name = found.groups()
        if name is None:
            return self._create(space, body)
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        if name not in self.events:
            return 404, {}, status(f'events "{name}" not found')
        self.events[name] |= body
        return 200, {}, self.events[name]

    def _create(self, space: str, body: dict[str, Any]) -> tuple[int, dict[str, str], dict[str, Any]]:
        name = body["metadata"]["name"]
        if body["involvedObject"]["namespace"] != space or body["metadata"]["namespace"] != space:
            return 422, {}, status("involvedObject.namespace: Invalid value: does not match event.namespace")
        if name in self.events:
            return 409, {}, status(f'events "{name}" already exists')
        self.events[name] = body
        return 201, {}, body

    @property
    def told(self) -> list[tuple[str, str, int]]:
        """Reason, message and count of each event."""
        return [(each["reason"], each["message"], each["count"]) for each in self.events.values()]


def status(message: str, *causes: str) -> dict[str, Any]:
    """A refusal as the API server words it."""
    return {"kind": "Status", "message": message, "details": {"causes": [{"reason": each} for each in causes]}}


def _drip(connection: Any, data: bytes, delay: float) -> None:
    if not delay:
        connection.sendall(data)
        return
    for byte in data:
        time.sleep(delay)
        connection.sendall(bytes([byte]))
