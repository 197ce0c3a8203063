"""The door to the Kubernetes API server for the agent: one request, with the pod's service account.

http.client and ssl, which the agent has in memory for its metrics anyway (docs/decisions/0028-events.md). Token and CA
are read for each request: the kubelet renews them. The token goes to the server that the cluster's CA vouches for, and
nowhere else: no redirect is followed, no proxy asked, and no error names it.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from host.errors import HostError

__all__ = ["Answer", "ApiServer"]

_TIMEOUT = 5.0  # seconds without a sign of life
_DEADLINE = 15.0  # seconds for all of an answer
_BODY = 64 << 10  # bytes; a Status is below 1 KiB
_TOLD = 300  # characters of the server's own words
_TOKEN_SIZE = 16 << 10
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")  # b64token of RFC 6750, section 2.1
_MERGE = "application/merge-patch+json"


class Answer(NamedTuple):
    """What the API server said."""

    status: int
    message: str
    """Its own words on a refusal, shortened."""
    causes: tuple[str, ...]
    """Reasons in a Status' details, such as NamespaceTerminating."""
    retry_after: float | None
    """Seconds, where it names them."""


class ApiServer:
    """Where it is, and where our credentials are."""

    def __init__(self, host: str, port: int, account: str) -> None:
        self._host = host
        self._port = port
        self._account = account

    @classmethod
    def of_cluster(cls, env: Mapping[str, str], account: str) -> ApiServer | None:
        """As every pod finds it; None outside Kubernetes or where ``account`` has no token or CA."""
        host = env.get("KUBERNETES_SERVICE_HOST", "")
        port = env.get("KUBERNETES_SERVICE_PORT_HTTPS") or env.get("KUBERNETES_SERVICE_PORT") or "443"
        mounted = all(os.path.exists(os.path.join(account, name)) for name in ("token", "ca.crt"))
        return cls(host, int(port), account) if host and port.isdecimal() and mounted else None

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Answer:
        """POST or PATCH (as a merge patch) JSON. HostError when there is no answer, or no usable token or CA."""
        token = self._token()
        kind = _MERGE if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind, "Accept": "application/json"}
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT, context=self._context())
        try:
            connection.connect()
            with _ended_after(connection.sock, _DEADLINE):
                connection.request(method, path, json.dumps(body).encode(), {**headers, "Connection": "close"})
                response = connection.getresponse()
                return _answer(response, response.read(_BODY), token)
        except (OSError, http.client.HTTPException) as error:
            text = (getattr(error, "strerror", None) or str(error) or type(error).__name__).replace(token, "…")
            raise HostError("ask", self._place, 0, text[:_TOLD]) from None
        finally:
            connection.close()

    @property
    def _place(self) -> str:
        return f"the API server at {self._host} port {self._port}"

    def _token(self) -> str:
        path = os.path.join(self._account, "token")
        try:
            with open(path, encoding="ascii") as file:
                token = file.read(_TOKEN_SIZE).strip()
        except (OSError, ValueError) as error:
            raise HostError("read", path, getattr(error, "errno", 0) or 0) from None
        if not _TOKEN.fullmatch(token):
            raise HostError("read", path, 0, "this is no bearer token")
        return token

    def _context(self) -> ssl.SSLContext:
        """Trusts the cluster's CA alone."""
        path = os.path.join(self._account, "ca.crt")
        try:
            return ssl.create_default_context(cafile=path)
        except OSError as error:  # ssl.SSLError is one
            raise HostError("read", path, 0, str(error)) from None


@contextmanager
def _ended_after(sock: socket.socket, seconds: float) -> Iterator[None]:
    """A deadline for a block: a server that drips a byte now and then is no server."""
    timer = threading.Timer(seconds, partial(_shut, sock))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        # The base class's: SSLSocket's own would make what is sent afterwards plain text.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _answer(response: http.client.HTTPResponse, data: bytes, token: str) -> Answer:
    told: Any = None
    with suppress(ValueError):
        told = json.loads(data)
    told = told if isinstance(told, dict) else {}
    details = told.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    reasons = [str(each.get("reason")) for each in causes or () if isinstance(each, dict)]
    message = str(told.get("message") or response.reason).replace(token, "…")
    after = response.headers.get("Retry-After", "")
    return Answer(response.status, message[:_TOLD], tuple(reasons), float(after) if _is_seconds(after) else None)


def _is_seconds(text: str) -> bool:
    """Whether it is a number of seconds, below a day or so; a date counts as not said."""
    return text.isascii() and text.isdecimal() and len(text) < 6
