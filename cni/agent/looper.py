"""A part of the agent that lives in one thread of its own."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

from cni.agent.parts import Finished
from host.errors import Busy, HostError

__all__ = ["Looper"]

_AGAIN = 1.0  # seconds
_STOP_WAIT = 2.0

_log = logging.getLogger("roceway-agent")


class Looper(ABC):
    """Runs :meth:`loop` until it is stopped; begins it anew when it fails, and tells why by :meth:`problem`."""

    name: str

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.account = ""
        """Why the part does not do its work now; empty while it does."""
        self._thread: threading.Thread | None = None

    @abstractmethod
    def loop(self) -> None:
        """Work until ``stopping`` is set."""

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread = threading.Thread(target=self._live, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what it is doing to a pod is journalled like any DEL."""
        self.stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_WAIT)

    def after(self, finished: Finished) -> None:  # noqa: B027 - most note nothing
        """A request is answered."""

    def problem(self) -> str:
        """For ``roceway-agent status``."""
        return self.account

    def _live(self) -> None:
        while not self.stopping.is_set():
            try:
                self.loop()
            except (HostError, Busy) as error:
                self.account = str(error)
            except Exception as error:  # noqa: BLE001 - the thread must live
                _log.exception("%s failed; it begins anew", self.name)
                self.account = repr(error)
            self.stopping.wait(_AGAIN)
