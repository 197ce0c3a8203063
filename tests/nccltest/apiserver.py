"""As much of a Kubernetes API server as nodes and events need, on a real socket. Patches are applied as the real one
does: merge patches replace lists, the strategic one merges conditions by type, a stale resourceVersion is a conflict.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

__all__ = ["ApiServer", "serving"]


class ApiServer:
    """Nodes by name, events in order, and every request as text."""

    def __init__(self, *nodes: str) -> None:
        self.nodes: dict[str, dict[str, Any]] = {name: _node(name) for name in nodes}
        self.events: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.conflicts = 0
        """So many of the next taint changes find that somebody else was quicker."""
        self.refuse = 0
        """With this status every request is answered; 0: none."""
        self.lock = threading.Lock()

    def condition(self, node: str, kind: str = "RocewayFabricDegraded") -> dict[str, Any]:
        """A node's condition; empty where it has none."""
        conditions = self.nodes[node]["status"]["conditions"]
        return next((each for each in conditions if each["type"] == kind), {})

    def taints(self, node: str) -> list[str]:
        """``key:effect`` of a node's taints."""
        return [f"{each['key']}:{each['effect']}" for each in self.nodes[node]["spec"].get("taints", [])]

    def answer(self, method: str, path: str, kind: str, body: Any) -> tuple[int, Any]:
        """Status and document."""
        if self.refuse:
            return self.refuse, _status(self.refuse)
        parts = path.strip("/").split("/")
        if method == "POST" and parts[-1] == "events":
            self.events.append(body)
            return 201, {**body, "metadata": {**body["metadata"], "name": f"e{len(self.events)}"}}
        name = parts[3]
        if name not in self.nodes:
            return 404, _status(404)
        if method == "PATCH":
            return self._patch(self.nodes[name], kind, body)
        return 200, self.nodes[name]

    def _patch(self, node: dict[str, Any], kind: str, body: dict[str, Any]) -> tuple[int, Any]:
        version = body.get("metadata", {}).pop("resourceVersion", None)
        if version is not None and self.conflicts:
            self.conflicts -= 1
            node["spec"].setdefault("taints", []).append({"key": f"other-{self.conflicts}", "effect": "NoExecute"})
            _touch(node)
        if version is not None and version != node["metadata"]["resourceVersion"]:
            return 409, _status(409)
        if kind == "application/strategic-merge-patch+json":
            _merge_conditions(node, body["status"].pop("conditions", []))
        _merge(node, body)
        _touch(node)
        return 200, node


def _node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": "a"}, "resourceVersion": "1"},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def _touch(node: dict[str, Any]) -> None:
    node["metadata"]["resourceVersion"] = str(int(node["metadata"]["resourceVersion"]) + 1)


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def _merge_conditions(node: dict[str, Any], conditions: list[dict[str, Any]]) -> None:
    for each in conditions:
        seen = node["status"]["conditions"]
        same = next((one for one in seen if one["type"] == each["type"]), None)
        if same is None:
            seen.append(each)
        else:
            same.update(each)


def _status(code: int) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}


@contextmanager
def serving(server: ApiServer, folder: Path) -> Iterator[Path]:
    """Serve on a free port; gives a kubeconfig."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            with server.lock:
                server.requests.append(f"{self.command} {self.path}")
                code, document = server.answer(self.command, self.path, self.headers.get("Content-Type", ""), body)
            data = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _any  # noqa: N815 - http.server's names

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield _kubeconfig(folder, http.server_port)
    finally:
        http.shutdown()
        http.server_close()
        thread.join(timeout=10)


def _kubeconfig(folder: Path, port: int) -> Path:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "secret-token"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path
