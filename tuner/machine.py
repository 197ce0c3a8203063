"""What is true of a whole host and bears on its QoS: sysctls, foreign DCBX agents, defaults of NCCL and UCX."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

from host import sysctl
from host.errors import HostError

__all__ = ["facts", "integer", "now", "number", "sysctls", "text"]

_SYSCTLS = ("arp_ignore", "arp_announce", "rp_filter")
_AGENTS = frozenset({"lldpad", "dcbxd"})
_NCCL = re.compile(r"^\s*NCCL_IB_TC\s*=\s*([0-9]+)\s*$", re.MULTILINE)
_UCX = re.compile(r"^\s*UCX_IB_TRAFFIC_CLASS\s*=\s*([0-9]+)\s*$", re.MULTILINE)
_MOST = 1 << 16


def facts(root: str) -> dict[str, Any]:
    """The fields of HostQos that are not NICs'."""
    return {
        "at": now(),
        "kernel": platform.release(),
        "boot_id": text(root, "proc/sys/kernel/random/boot_id"),
        "agents": _agents(root),
        "sysctls": sysctls(root, "all"),
        "nccl_ib_tc": _found(_NCCL, text(root, "etc/nccl.conf")),
        "ucx_tc": _found(_UCX, text(root, "etc/ucx/ucx.conf")),
    }


def now() -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def sysctls(root: str, device: str) -> dict[str, int]:
    """net.ipv4.conf.<device>.* that decide what several NICs of one subnet answer; those that can be read."""
    found: dict[str, int] = {}
    for key in _SYSCTLS:
        with suppress(HostError):
            value = number(sysctl.read("net", "ipv4", "conf", device, key, root=root))
            found |= {key: value} if value is not None else {}
    return found


def text(root: str, path: str) -> str | None:
    """A file's text, stripped, up to 64 KiB; None where it cannot be read."""
    try:
        with open(os.path.join(root, path), errors="replace") as file:
            return file.read(_MOST).strip()
    except OSError:
        return None


def number(value: str | None) -> int | None:
    """A decimal or 0x number; None for anything else."""
    with suppress(ValueError, TypeError):
        return int(cast(str, value), 0)
    return None


def integer(root: str, path: str) -> int | None:
    """The number in a file; None where there is none."""
    return number(text(root, path))


def _found(pattern: re.Pattern[str], content: str | None) -> int | None:
    match = pattern.search(content or "")
    return int(match[1]) if match else None


def _agents(root: str) -> tuple[str, ...] | None:
    """Names of running programs that negotiate DCBX; None where processes cannot be seen."""
    try:
        processes = [name for name in os.listdir(os.path.join(root, "proc")) if name.isdigit()]
    except OSError:
        return None
    found = {text(root, f"proc/{name}/comm") for name in processes}
    return tuple(sorted(name for name in found if name in _AGENTS))
