"""The one place where roceway's errors become CNI codes.

Codes: the CNI specification, section "Error"; 100 and above are the plugin's own.
"""

from __future__ import annotations

from conf.errors import ConfigError
from host.errors import Busy, HostError

__all__ = ["CniError", "Code", "as_cni"]


class Code:
    """Every code that the plugin answers with."""

    INCOMPATIBLE_VERSION = 1
    UNSUPPORTED_FIELD = 2
    UNKNOWN_CONTAINER = 3
    ENVIRONMENT = 4
    IO = 5
    DECODE = 6
    CONFIG = 7
    NETNS = 8
    TRY_AGAIN = 11
    UNAVAILABLE = 50
    INTERNAL = 999
    DRIFT = 100
    """CHECK: a rail is no longer as it was attached; details name each difference."""


class CniError(Exception):
    """An error that already knows its code."""

    def __init__(self, code: int, message: str, details: str = "") -> None:
        self.code = code
        self.message = message
        self.details = details
        super().__init__(code, message, details)

    def __str__(self) -> str:
        return f"{self.message}: {self.details}" if self.details else self.message


class UnsupportedFieldError(ConfigError):
    """Every finding is a key that roceway does not know (CNI code 2)."""


def as_cni(error: Exception) -> CniError:
    """``error`` as code, message and details; anything unforeseen is our bug: 999."""
    if isinstance(error, CniError):
        return error
    if isinstance(error, ConfigError):
        code = Code.UNSUPPORTED_FIELD if isinstance(error, UnsupportedFieldError) else Code.CONFIG
        count = len(error.findings)
        return CniError(
            code,
            f"{error.source}: {count} {'mistake' if count == 1 else 'mistakes'}",
            "; ".join(str(finding) for finding in error.findings),
        )
    if isinstance(error, HostError):
        return CniError(Code.IO, str(error))
    if isinstance(error, Busy):
        return CniError(Code.TRY_AGAIN, str(error))
    return CniError(Code.INTERNAL, f"roceway-cni bug: {type(error).__name__}: {error}", "see the plugin's stderr")
