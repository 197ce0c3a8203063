"""Netlink on the wire: messages, attributes, batches with one acknowledgement each, dumps.

Kernel documents: ``Documentation/userspace-api/netlink/intro.rst``, ``include/uapi/linux/netlink.h``.

Own codec rather than a library on the plugin's path: importing pyroute2 takes longer than the kernel needs for all
eight rails (docs/decisions/0002-netlink.md has the figures). pyroute2 reads back what this module did in the tests.
"""

from __future__ import annotations

import struct

# The C part of `socket`: its selectors and enums, unused here, would cost each start 2 ms.
from _socket import AF_NETLINK, SOCK_CLOEXEC, SOCK_RAW, socket
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from host import stopwatch
from host.errors import HostError

__all__ = ["Connection", "Request", "Route", "attributes", "blob", "flag8", "nested", "text", "u16", "u32"]

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_EXCL, NLM_F_CREATE, NLM_F_REPLACE = 0x200, 0x400, 0x100
_NLM_F_DUMP_INTR, _NLM_F_ACK_TLVS = 0x10, 0x200
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLMSGERR_ATTR_MSG = 1
_SOL_NETLINK, _NETLINK_CAP_ACK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK = 270, 10, 11, 12

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTR = struct.Struct("=HH")  # length with this header, type
_TYPE_MASK = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER

# An ACK occupies up to 1 KiB of the receive buffer (212,992 B by default) until it is read.
_BATCH = 64
_RECEIVE = 1 << 18
_DUMP_TRIES = 5


class Request(NamedTuple):
    """One netlink message to send. ``operation`` and ``target`` are what an error will name."""

    kind: int
    flags: int
    body: bytes
    operation: str
    target: str


def _padded(payload: bytes) -> bytes:
    return payload + b"\0" * (-len(payload) % 4)


def blob(kind: int, payload: bytes) -> bytes:
    """An attribute with raw bytes, padded to the next four."""
    return _ATTR.pack(len(payload) + 4, kind) + _padded(payload)


def u32(kind: int, value: int) -> bytes:
    """A 32-bit attribute in host byte order."""
    return struct.pack("=HHI", 8, kind, value)


def u16(kind: int, value: int) -> bytes:
    """A 16-bit attribute in host byte order."""
    return struct.pack("=HHHxx", 6, kind, value)


def flag8(kind: int, value: int) -> bytes:
    """An 8-bit attribute."""
    return struct.pack("=HHBxxx", 5, kind, value)


def text(kind: int, value: str) -> bytes:
    """A NUL-terminated string attribute."""
    return blob(kind, value.encode() + b"\0")


def nested(kind: int, *children: bytes) -> bytes:
    """An attribute made of attributes."""
    return blob(kind | 0x8000, b"".join(children))


def attributes(data: bytes, offset: int = 0) -> dict[int, bytes]:
    """Attribute type to payload; the last of a repeated type wins (see :func:`repeated` for lists)."""
    return dict(repeated(data, offset))


def repeated(data: bytes, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Every attribute in order as ``(type, payload)``. Stops at the first that does not fit."""
    end = len(data)
    while offset + 4 <= end:
        length, kind = _ATTR.unpack_from(data, offset)
        if length < 4 or offset + length > end:
            return
        yield kind & _TYPE_MASK, data[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def string(payload: bytes) -> str:
    """The text of a string attribute, without its NUL."""
    return payload.split(b"\0", 1)[0].decode(errors="replace")


def _refusal(request: Request, payload: bytes, flags: int) -> HostError | None:
    """The error in an NLMSG_ERROR payload; None for a plain acknowledgement."""
    (code,) = struct.unpack_from("=i", payload)
    if code == 0:
        return None
    detail = ""
    if flags & _NLM_F_ACK_TLVS:
        # NETLINK_CAP_ACK: only the request's header is echoed before the attributes.
        detail = string(attributes(payload, 4 + _HEADER.size).get(_NLMSGERR_ATTR_MSG, b""))
    return HostError(request.operation, request.target, -code, detail)


class Connection:
    """A netlink socket of one family. It belongs for life to the network namespace that its maker was in.

    HostError where the kernel has no such family.
    """

    family = (0, "NETLINK_ROUTE")

    def __init__(self) -> None:
        number, name = self.family
        try:
            self._socket = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, number)
        except OSError as error:
            raise HostError("open", name, error.errno or 0, "is its module loaded?") from error
        for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the socket (and with it the namespace it pins)."""
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor, for select and for membership in groups."""
        return self._socket.fileno()

    def run(self, requests: Sequence[Request]) -> None:
        """Send all, in few system calls; raise the first refusal. Later requests of a batch still ran."""
        for error in self.each(requests):
            if error is not None:
                raise error

    def each(self, requests: Sequence[Request]) -> list[HostError | None]:
        """Send all; for each request its refusal or None, in order."""
        errors: list[HostError | None] = []
        with stopwatch.at("netlink"):
            for start in range(0, len(requests), _BATCH):
                errors.extend(self._batch(requests[start : start + _BATCH]))
        return errors

    def _batch(self, requests: Sequence[Request]) -> list[HostError | None]:
        first = self._sequence + 1
        parts = []
        for request in requests:
            self._sequence += 1
            size = _HEADER.size + len(request.body)
            parts.append(_HEADER.pack(size, request.kind, request.flags | NLM_F_REQUEST | NLM_F_ACK, self._sequence, 0))
            parts.append(_padded(request.body))
        self._socket.send(b"".join(parts))
        errors: list[HostError | None] = [None] * len(requests)
        waiting = set(range(first, self._sequence + 1))
        while waiting:
            for kind, flags, sequence, payload in self._receive():
                if kind == _NLMSG_ERROR and sequence in waiting:
                    waiting.discard(sequence)
                    errors[sequence - first] = _refusal(requests[sequence - first], payload, flags)
        return errors

    def get(self, request: Request) -> list[bytes]:
        """Send one request that is no dump; the payloads that came before its acknowledgement. Raises its refusal."""
        self._sequence += 1
        flags = request.flags | NLM_F_REQUEST | NLM_F_ACK
        header = _HEADER.pack(_HEADER.size + len(request.body), request.kind, flags, self._sequence, 0)
        self._socket.send(header + request.body)
        answers: list[bytes] = []
        while True:
            for kind, got_flags, sequence, payload in self._receive():
                if sequence != self._sequence:
                    continue
                if kind != _NLMSG_ERROR:
                    answers.append(payload)
                    continue
                error = _refusal(request, payload, got_flags)
                if error is not None:
                    raise error
                return answers

    def dump(self, request: Request) -> list[bytes]:
        """Every object as the payload of its message (fixed header and attributes).

        A dump that the kernel marks as interrupted by a change is taken again, up to five times.
        """
        for _ in range(_DUMP_TRIES):
            with stopwatch.at("dumps"):
                objects, torn = self._dump_once(request)
            if not torn:
                return objects
        raise HostError(request.operation, request.target, 0, "the kernel's table kept changing while it was read")

    def _dump_once(self, request: Request) -> tuple[list[bytes], bool]:
        self._sequence += 1
        size = _HEADER.size + len(request.body)
        flags = request.flags | NLM_F_REQUEST | NLM_F_DUMP
        self._socket.send(_HEADER.pack(size, request.kind, flags, self._sequence, 0) + request.body)
        objects: list[bytes] = []
        torn = False
        while True:
            for kind, got_flags, sequence, payload in self._receive():
                if sequence != self._sequence:
                    continue
                torn = torn or bool(got_flags & _NLM_F_DUMP_INTR)
                if kind == _NLMSG_DONE:
                    return objects, torn
                if kind == _NLMSG_ERROR:
                    error = _refusal(request, payload, got_flags)
                    if error is not None:
                        raise error
                    return objects, torn
                objects.append(payload)

    def _receive(self) -> Iterable[tuple[int, int, int, bytes]]:
        data = self._socket.recv(_RECEIVE)
        offset = 0
        while offset + _HEADER.size <= len(data):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
            if length < _HEADER.size:
                break
            yield kind, flags, sequence, data[offset + _HEADER.size : offset + length]
            offset += (length + 3) & ~3


class Route(Connection):
    """A NETLINK_ROUTE socket."""
