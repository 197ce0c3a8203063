"""Who we are to a switch: from the environment or a file that it names, never from fabric.yaml or a command line.

``ROCEWAY_SWITCH_USER``, ``ROCEWAY_SWITCH_PASSWORD`` or ``ROCEWAY_SWITCH_PASSWORD_FILE``, and ``ROCEWAY_SWITCH_CA_FILE``
(PEM, for https). Each may be given for one switch alone, by its name in capitals after two underscores:
``ROCEWAY_SWITCH_PASSWORD__LEAF_R0``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from host.errors import HostError

__all__ = ["Credentials", "credentials"]

_PREFIX = "ROCEWAY_SWITCH_"
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Credentials:
    """None where nothing is given."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    """Certificates that an https server is trusted by, instead of the system's."""


def credentials(switch: str, environment: Mapping[str, str]) -> Credentials:
    """What is given for a switch. HostError where a file that is named cannot be read."""

    def value(name: str) -> str | None:
        suffix = re.sub(r"[^A-Z0-9]", "_", switch.upper())
        return environment.get(f"{_PREFIX}{name}__{suffix}") or environment.get(f"{_PREFIX}{name}") or None

    ca, secret = value("CA_FILE"), value("PASSWORD_FILE")
    password = value("PASSWORD")
    if password is None and secret is not None:
        password = _first_line(Path(secret))
    return Credentials(value("USER"), password, Path(ca) if ca else None)


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(_LONGEST).rstrip("\r\n")
    except OSError as error:
        raise HostError("read the password in", str(path), error.errno or 0) from None
    except UnicodeDecodeError:
        raise HostError("read the password in", str(path), detail="is not UTF-8 text") from None
