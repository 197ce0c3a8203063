"""The door to a switch's web API (NVUE, eAPI, NX-API, RESTCONF): reads, and gives documents like saved ones."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx

from host.errors import HostError
from tuner.switch.credentials import Credentials
from tuner.switch.model import Platform
from tuner.switch.text import MAX_BYTES

__all__ = ["fetch"]

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_YANG = {"Accept": "application/yang-data+json"}
_EOS = (
    *("show interfaces", "show lldp neighbors detail", "show priority-flow-control"),
    *("show priority-flow-control counters", "show qos interfaces ecn counters queue"),
)
_NXOS = (
    *("show interface", "show interface priority-flow-control", "show queuing interface", "show lldp neighbors detail"),
)
_log = logging.getLogger(__name__)


def fetch(platform: Platform, address: str, credentials: Credentials) -> dict[str, bytes]:
    """What the API at ``address`` says. HostError where the configuration cannot be had; the rest is best effort."""
    _refuse_cleartext(address, credentials)
    try:
        verify = ssl.create_default_context(cafile=credentials.ca) if credentials.ca else True
        with httpx.Client(
            base_url=address.rstrip("/"), auth=_auth(credentials), verify=verify, timeout=_TIMEOUT, trust_env=False
        ) as client:
            return _READERS[platform](client)
    except (httpx.HTTPError, OSError) as error:  # OSError: a CA file that cannot be read
        raise HostError("read", address, detail=str(error) or type(error).__name__) from None


def _auth(credentials: Credentials) -> tuple[str, str] | None:
    return (credentials.user or "", credentials.password) if credentials.password is not None else None


def _refuse_cleartext(address: str, credentials: Credentials) -> None:
    """A password goes over http to this machine alone."""
    parts = urlsplit(address)
    if parts.scheme == "http" and credentials.password is not None and not _is_here(parts.hostname or ""):
        raise HostError("read", address, detail="a password is given, and http would show it to everyone; use https")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _get(client: httpx.Client, path: str, headers: Mapping[str, str] | None = None) -> bytes:
    return _read(client, client.build_request("GET", path, headers=dict(headers or {})))


def _post(client: httpx.Client, path: str, body: Any, content_type: str) -> bytes:
    request = client.build_request("POST", path, json=body, headers={"Content-Type": content_type})
    return _read(client, request)


def _read(client: httpx.Client, request: httpx.Request) -> bytes:
    """The body of an answer; HostError for a status other than 200 and for one without end."""
    response = client.send(request, stream=True)
    try:
        if response.status_code != httpx.codes.OK:
            detail = f"{response.status_code} {response.reason_phrase}".strip()
            raise HostError(request.method, str(request.url), detail=detail)
        parts, size = [], 0
        for part in response.iter_bytes():
            size += len(part)
            if size > MAX_BYTES:
                raise HostError(
                    request.method, str(request.url), detail=f"answers with more than {MAX_BYTES >> 20} MiB"
                )
            parts.append(part)
        return b"".join(parts)
    finally:
        response.close()


def _tried(documents: dict[str, bytes], label: str, ask: Callable[..., bytes], *words: Any) -> None:
    """Counters and neighbours are worth having, but an old release without the command is no reason to fail."""
    try:
        documents[label] = ask(*words)
    except HostError as error:
        _log.warning("%s; going on without it", error)


def _nvue(client: httpx.Client) -> dict[str, bytes]:
    documents = {"/nvue_v1/?rev=applied": _get(client, "/nvue_v1/?rev=applied")}
    _tried(documents, "/nvue_v1/interface", _get, client, "/nvue_v1/interface")
    return documents


def _restconf(client: httpx.Client) -> dict[str, bytes]:
    start = "/restconf/data/"
    documents = {f"{start}openconfig-qos:qos": _get(client, f"{start}openconfig-qos:qos", _YANG)}
    for path in ("openconfig-interfaces:interfaces", "openconfig-lldp:lldp/interfaces"):
        _tried(documents, f"{start}{path}", _get, client, f"{start}{path}", _YANG)
    return documents


def _eapi(client: httpx.Client) -> dict[str, bytes]:
    def run(command: str, form: str) -> bytes:
        params = {"version": 1, "cmds": [command], "format": form}
        body = {"jsonrpc": "2.0", "id": "roceway", "method": "runCmds", "params": params}
        return _post(client, "/command-api", body, "application/json")

    documents = {"show running-config": run("show running-config", "text")}
    for command in _EOS:
        _tried(documents, command, run, command, "json")
    return documents


def _nxapi(client: httpx.Client) -> dict[str, bytes]:
    def run(command: str, method: str) -> bytes:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"cmd": command, "version": 1}}
        return _post(client, "/ins", body, "application/json-rpc")

    documents = {"show running-config": run("show running-config", "cli_ascii")}
    for command in _NXOS:
        _tried(documents, command, run, command, "cli")
    return documents


_READERS: Mapping[Platform, Callable[[httpx.Client], dict[str, bytes]]] = {
    "cumulus": _nvue,
    "eos": _eapi,
    "nxos": _nxapi,
    "dell-sonic": _restconf,
}
