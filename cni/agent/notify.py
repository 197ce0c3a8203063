"""Telling systemd how the agent is: ``sd_notify(3)`` without its library, which is one datagram.

Silent where nobody listens (no NOTIFY_SOCKET): in a container, in a test, from a shell.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

__all__ = ["Notifier"]


class Notifier:
    """The service manager, as the environment names it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._address = env.get("NOTIFY_SOCKET", "")
        own = env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = env.get("WATCHDOG_USEC", "0") if own else "0"
        self.interval = int(usec) / 2e6 if usec.isdigit() else 0.0
        """Seconds between signs of life that keep the watchdog content: half of its limit; 0 when there is none."""

    def ready(self, status: str) -> None:
        """The agent serves requests from now on."""
        self._say(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        """A sign of life for the watchdog."""
        self._say("WATCHDOG=1")

    def stopping(self) -> None:
        """The agent finishes what it has and ends."""
        self._say("STOPPING=1")

    def _say(self, message: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
            door.settimeout(1.0)  # a service manager that does not read must not stop the agent
            door.sendto(message.encode(), address)
