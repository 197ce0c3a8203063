"""The door to a switch's shell: a few commands that only print, over SSH. Answers become documents like saved ones.

Host keys are checked against the user's known_hosts; keys and agent are the user's own, a password comes from
``credentials``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from typing import Any

import asyncssh

from host.errors import HostError
from tuner.switch.credentials import Credentials
from tuner.switch.model import Platform
from tuner.switch.text import MAX_BYTES

__all__ = ["fetch"]

_CONNECT, _ANSWER = 10.0, 60.0  # seconds
_SONIC = (
    "sonic-cfggen -d --print-data",
    "sonic-db-dump -n APPL_DB -y -k 'PORT_TABLE:*'",
    "sonic-db-dump -n APPL_DB -y -k 'LLDP_ENTRY_TABLE:*'",
    "sonic-db-dump -n APPL_DB -y -k 'BUFFER_P*'",
    "sonic-db-dump -n COUNTERS_DB -y -k 'COUNTERS_*_NAME_MAP'",
    "sonic-db-dump -n COUNTERS_DB -y -k 'COUNTERS:*'",
)
COMMANDS: Mapping[Platform, tuple[str, ...]] = {
    "sonic": _SONIC,
    "dell-sonic": _SONIC,
    "cumulus": ("nv config show -o json", "nv show interface -o json"),
    "eos": (
        "show running-config",
        "show interfaces | json",
        "show lldp neighbors detail | json",
        "show priority-flow-control counters | json",
        "show qos interfaces ecn counters queue | json",
    ),
    "nxos": (
        "show running-config",
        "show interface | json",
        "show interface priority-flow-control | json",
        "show queuing interface | json",
        "show lldp neighbors detail | json",
    ),
}
"""The first command has the configuration and must succeed; the others are best effort."""

_LOOKUP = "/usr/share/sonic/device/{platform}/{hwsku}/pg_profile_lookup.ini"
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # a folder's name, and nothing to a shell
_log = logging.getLogger(__name__)


def fetch(platform: Platform, address: str, credentials: Credentials) -> dict[str, bytes]:
    """What the switch at ``user@host:port`` prints. HostError where it cannot be reached or has no configuration."""
    try:
        return asyncio.run(_fetch(platform, address, credentials))
    except TimeoutError:
        raise HostError("read", address, detail=f"no answer within {_ANSWER:.0f} s") from None
    except (OSError, asyncssh.Error) as error:
        raise HostError("read", address, detail=str(error) or type(error).__name__) from None


def _options(address: str, credentials: Credentials) -> dict[str, Any]:
    """Arguments of a connection; what is not said is left to asyncssh, which asks the user's own ssh settings."""
    user, at, rest = address.rpartition("@")
    host, colon, port = rest.partition(":")
    options: dict[str, Any] = {"host": host}
    if at or credentials.user:
        options["username"] = user if at else credentials.user
    if colon:
        options["port"] = int(port)
    if credentials.password is not None:
        options["password"] = credentials.password
    return options


async def _fetch(platform: Platform, address: str, credentials: Credentials) -> dict[str, bytes]:
    first, *others = COMMANDS[platform]
    options = _options(address, credentials)
    async with asyncssh.connect(**options, connect_timeout=_CONNECT, login_timeout=_CONNECT) as connection:
        documents = {first: await _run(connection, first, address)}
        if platform in ("sonic", "dell-sonic"):
            others += [f"cat {path}" for path in _lookup(documents[first])]
        for command in others:
            try:
                documents[command] = await _run(connection, command, address)
            except HostError as error:
                _log.warning("%s; going on without it", error)
    return documents


async def _run(connection: asyncssh.SSHClientConnection, command: str, address: str) -> bytes:
    """What a command prints. HostError when it fails, prints nothing, or does not end."""
    async with asyncio.timeout(_ANSWER), connection.create_process(command, encoding=None) as process:
        parts, size = [], 0
        while part := await process.stdout.read(1 << 16):
            size += len(part)
            if size > MAX_BYTES:
                process.kill()
                raise HostError(command, address, detail=f"prints more than {MAX_BYTES >> 20} MiB")
            parts.append(part)
        done = await process.wait()
    if done.exit_status or not size:
        raise HostError(command, address, detail=f"exit {done.exit_status}" if size else "prints nothing")
    return b"".join(parts)


def _lookup(configuration: bytes) -> list[str]:
    """Where the device keeps its lossless profiles, by what CONFIG_DB says it is."""
    try:
        device = json.loads(configuration)["DEVICE_METADATA"]["localhost"]
        words = {name: device[name] for name in ("platform", "hwsku")}
    except (ValueError, LookupError, TypeError, RecursionError):
        return []
    if not all(isinstance(word, str) and _WORD.fullmatch(word) and word.strip(".") for word in words.values()):
        return []
    return [_LOOKUP.format(**words)]
