"""What plugin and agent say to each other over the agent's socket, as values. Pure: no I/O.

One connection carries one request. Everything is in the machine's own byte order: the socket does not leave it.

    request   magic "RWAY", u16 protocol, u16 flags, u32 length of the environment, u32 length of stdin,
              environment ("NAME=value" with a NUL after each), stdin
    answer    frames of u8 kind, three zero bytes, u32 length, payload:
              BEGUN    the request is complete and will be worked on; no payload
              REFUSED  the agent does not do this one, nothing was changed; payload: why
              STDERR   text for the plugin's stderr
              TRACE    where the time went, one line of text (only if the request asked)
              ANSWER   u8 exit code, then what belongs on stdout; the last frame

Whatever else happens (no socket, silence, a frame cut short), the plugin does the work itself. The compiled plugin
(``cni/shim/roceway-cni.c``) speaks the same; a test holds the two against each other.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "ANSWER",
    "BEGUN",
    "FRAME",
    "HEADER",
    "PROTOCOL",
    "REFUSED",
    "RELEASE",
    "REQUEST_MAX",
    "STDERR",
    "TRACE",
    "Header",
    "environment",
    "frame",
    "header",
    "request",
    "variables",
]

PROTOCOL = 1
"""Raised when a field changes its meaning. The agent refuses every other number."""
RELEASE = "0.1.0"
"""roceway's own, that of pyproject.toml: a request of another release is refused where it cannot be read."""

MAGIC = b"RWAY"
HEADER = struct.Struct("=4sHHII")
FRAME = struct.Struct("=BxxxI")
BEGUN, REFUSED, STDERR, TRACE, ANSWER = 1, 2, 3, 4, 5
WANTS_TRACE = 1
"""A flag of the request."""

REQUEST_MAX = 512 << 10
"""Bytes of environment and stdin together. A node's configuration of 32 rails is 10 KiB; more is done in process."""


class Header(NamedTuple):
    """The fixed part of a request."""

    protocol: int
    flags: int
    environment: int
    """Bytes."""
    stdin: int
    """Bytes."""


def header(data: bytes) -> Header:
    """The fixed part of a request. ValueError with the reason for one that is not to be served."""
    magic, protocol, flags, environment_length, stdin_length = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ValueError("this is no request of roceway-cni")
    if protocol != PROTOCOL:
        raise ValueError(f"protocol {protocol} is not spoken here, only {PROTOCOL}")
    if environment_length + stdin_length > REQUEST_MAX:
        raise ValueError(f"the request is larger than {REQUEST_MAX} bytes")
    return Header(protocol, flags, environment_length, stdin_length)


def request(env: Mapping[str, str], stdin: bytes, flags: int = 0) -> bytes:
    """A whole request."""
    block = environment(env)
    return HEADER.pack(MAGIC, PROTOCOL, flags, len(block), len(stdin)) + block + stdin


def environment(env: Mapping[str, str]) -> bytes:
    """Variables on the wire; undecodable bytes travel as they are."""
    return b"".join(f"{name}={value}\0".encode(errors="surrogateescape") for name, value in env.items())


def variables(block: bytes) -> dict[str, str]:
    """The inverse of :func:`environment`; what has no ``=`` is left out."""
    pairs = (item.partition("=") for item in block.decode(errors="surrogateescape").split("\0"))
    return {name: value for name, sign, value in pairs if sign}


def frame(kind: int, payload: bytes = b"") -> bytes:
    """One frame of an answer."""
    return FRAME.pack(kind, len(payload)) + payload
