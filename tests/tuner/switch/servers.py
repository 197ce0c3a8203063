"""Real servers for the doors to switches: redis-server, sshd, and an HTTPS server with a certificate of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip where a program is not installed."""
    missing = [name for name in programs if not shutil.which(name)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


def free_port() -> int:
    """A TCP port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(words: list[str], ready: Any, executable: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(words, executable=executable, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if ready() or process.poll() is not None:
                break
            time.sleep(0.05)
        assert process.poll() is None, f"{words[0]} ended with {process.returncode}"
        yield process
    finally:
        process.terminate()
        process.wait(10)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def redis_server(folder: Path, password: str = "") -> Iterator[tuple[int, Path]]:
    """A redis-server on loopback and on a socket; its port and its socket's path."""
    port, path = free_port(), folder / "redis.sock"
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--unixsocket", str(path), "--save", ""]
    if password:
        words += ["--requirepass", password]
    # One binary, which goes by argv[0]: the package redis-tools has it, without the service of redis-server's.
    binary = shutil.which("redis-check-rdb")
    with _running([*words, "--dir", str(folder)], lambda: _listens(port) and path.exists(), binary):
        yield port, path


class Ssh(NamedTuple):
    """A running sshd."""

    port: int
    known_hosts: Path
    key: Path
    commands: Path
    """A folder of programs that a login finds first."""


@contextmanager
def ssh_server(folder: Path) -> Iterator[Ssh]:
    """A real sshd on loopback that lets one key in and has a PATH of its own."""
    for name in ("host", "user"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    port, commands = free_port(), folder / "bin"
    commands.mkdir()
    (folder / "authorized").write_text((folder / "user.pub").read_text())
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/authorized\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        f"SetEnv PATH={commands}:/usr/bin:/bin\n"
    )
    host_key = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    os.makedirs("/run/sshd", exist_ok=True)
    with _running([shutil.which("sshd") or "sshd", "-D", "-f", str(folder / "config")], lambda: _listens(port)):
        yield Ssh(port, folder / "known_hosts", folder / "user", commands)


class Request(NamedTuple):
    """What a client asked."""

    method: str
    path: str
    authorization: str | None
    body: Any


class Web(NamedTuple):
    """A running web server."""

    address: str
    ca: Path
    seen: list[Request]


@contextmanager
def web_server(folder: Path, answers: Mapping[str, Any], *, tls: bool = True) -> Iterator[Web]:
    """Answers by path, or for a JSON-RPC call by its command; 404 for anything else. bytes are sent as they are."""
    seen: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            seen.append(Request(self.command, self.path, self.headers.get("Authorization"), body))
            params = body.get("params", {}) if isinstance(body, dict) else {}
            key = params.get("cmd") or (params.get("cmds") or [self.path])[0]
            answer = answers.get(key)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200 if answer is not None else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815 - the base class's names

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    certificate = folder / "cert.pem"
    if tls:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-keyout", str(folder / "key.pem"), "-out", str(certificate), "-subj", "/CN=switch",
             "-addext", "subjectAltName=IP:127.0.0.1"],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, folder / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Web(f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}", certificate, seen)
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()
