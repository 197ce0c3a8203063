"""The door to a running SONiC's databases: redis, read-only. What comes back are documents like saved ones.

Databases (sonic-swss-common ``database_config.json``): 0 APPL_DB and 2 COUNTERS_DB with ``:`` between table and key,
4 CONFIG_DB with ``|``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, cast

import redis

from host.errors import HostError
from tuner.switch.credentials import Credentials

__all__ = ["fetch"]

_CONNECT, _ANSWER = 5.0, 20.0  # seconds
_AT_ONCE = 500
_MOST_KEYS = 200_000

_CONFIG = ("*",)
_COUNTERS_MAPS = ("COUNTERS_PORT_NAME_MAP", "COUNTERS_QUEUE_NAME_MAP", "COUNTERS_PG_NAME_MAP")
_WATERMARKS = ("PERSISTENT_WATERMARKS", "USER_WATERMARKS")
_APPL = (
    *("PORT_TABLE:*", "LLDP_ENTRY_TABLE:*", "BUFFER_POOL_TABLE:*", "BUFFER_PROFILE_TABLE:*"),
    *("BUFFER_PG_TABLE:*", "BUFFER_QUEUE_TABLE:*"),
)


def fetch(address: str, credentials: Credentials) -> dict[str, bytes]:
    """CONFIG_DB, APPL_DB and COUNTERS_DB at ``host``, ``host:port`` or ``unix:/path``. HostError where one fails."""
    try:
        return {
            "CONFIG_DB": _document(_tables(_database(address, 4, credentials), _CONFIG)),
            "APPL_DB": _document(_tables(_database(address, 0, credentials), _APPL)),
            "COUNTERS_DB": _document(_counters(_database(address, 2, credentials))),
        }
    except redis.RedisError as error:
        raise HostError("read", f"redis at {address}", detail=str(error)) from None


def _document(rows: dict[str, Any]) -> bytes:
    return json.dumps(rows).encode()


def _database(address: str, number: int, credentials: Credentials) -> redis.Redis:
    common: dict[str, Any] = {
        "db": number,
        "protocol": 2,  # SONiC's redis is older than RESP3
        "password": credentials.password,
        "username": credentials.user if credentials.password else None,
        "socket_timeout": _ANSWER,
        "decode_responses": True,
        "encoding_errors": "replace",
    }
    if address.startswith("unix:"):
        return redis.Redis(unix_socket_path=address.removeprefix("unix:"), **common)
    host, port = _host_and_port(address)
    return redis.Redis(host=host, port=port, socket_connect_timeout=_CONNECT, **common)


def _host_and_port(address: str) -> tuple[str, int]:
    """``[::1]:6379``, ``host:6379`` or ``host``."""
    host, colon, port = address.rpartition(":")
    if address.endswith("]") or not colon:
        host, port = address, "6379"
    return host.strip("[]"), int(port)


def _tables(database: redis.Redis, patterns: Sequence[str]) -> dict[str, Any]:
    """Every hash whose key matches, as ``"TABLE|key": row``."""
    return dict(_hashes(database, _keys(database, patterns)))


def _keys(database: redis.Redis, patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        found = cast("Iterator[str]", database.scan_iter(match=pattern, count=1000, _type="HASH"))
        yield from islice(found, _MOST_KEYS)


def _hashes(database: redis.Redis, keys: Iterator[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows in batches: one round trip for many."""
    while batch := list(islice(keys, _AT_ONCE)):
        pipe = database.pipeline(transaction=False)
        for key in batch:
            pipe.hgetall(key)
        yield from zip(batch, pipe.execute(), strict=True)


def _counters(database: redis.Redis) -> dict[str, Any]:
    """The name maps, and the counters and watermarks of what they name."""
    maps = dict(_hashes(database, iter(_COUNTERS_MAPS)))
    objects = [oid for rows in maps.values() for oid in rows.values()]
    groups = ("COUNTERS", *_WATERMARKS)
    rows = _hashes(database, (f"{table}:{oid}" for table in groups for oid in objects[:_MOST_KEYS]))
    return {name: row for name, row in (*maps.items(), *rows) if row}
