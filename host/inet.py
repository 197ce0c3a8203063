"""Textual addresses to the kernel's bytes and back: the one place where families meet.

``inet_pton(3)``; the stdlib's ipaddress would cost every DEL 3 ms of import.
"""

from __future__ import annotations

from _socket import AF_INET, AF_INET6, inet_ntop, inet_pton  # without the 2 ms of `socket`

__all__ = ["AF_INET", "AF_INET6", "family_of", "pack", "split", "unpack"]


def family_of(address: str) -> int:
    """AF_INET6 for text with a colon, else AF_INET."""
    return AF_INET6 if ":" in address else AF_INET


def split(prefix: str) -> tuple[str, int]:
    """``"10.0.0.2/24"`` to ``("10.0.0.2", 24)``; a missing length is the whole address."""
    address, slash, length = prefix.partition("/")
    return address, int(length) if slash else (128 if ":" in address else 32)


def pack(address: str) -> bytes:
    """Four or sixteen bytes in network order. ValueError for anything that is no address."""
    try:
        return inet_pton(family_of(address), address)
    except OSError as error:
        raise ValueError(f"{address!r} is no IP address") from error


def unpack(data: bytes) -> str:
    """Text of four or sixteen bytes."""
    return inet_ntop(AF_INET if len(data) == 4 else AF_INET6, data)
