"""Keeps the node's view fresh for every part of the agent: one reading for device plugin, metrics and drift.

It reads every few seconds, at once when told to (a request is done, the kernel has notified), and tells those who
asked to hear of a change. A rail is unfit only when its problem has lasted: a NIC that moves into a pod is without
carrier for a moment.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from functools import lru_cache

from cni import gpunames
from cni.agent.noderails import NodeRails
from cni.agent.nodeview import RailView, look
from cni.agent.parts import Finished, Setting
from cni.agent.podresources import PodResources
from cni.agent.railunits import Unit, units
from cni.agent.verdict import verdicts
from cni.lifecycle import open_store
from cni.poddevices import RAIL, Given, gpu_names
from conf.errors import ConfigError
from host.errors import Busy, HostError

__all__ = ["Lookout", "lookout_of"]

_EVERY = 5.0
_LASTING = 10.0
"""Seconds that a problem must last before a rail is called unfit: longer than a link trains (CHECK allows 5)."""

_log = logging.getLogger("roceway-agent")


class Lookout:
    """The node as last seen. Its readings are values; take one and keep it for as long as it is used."""

    name = "node"

    def __init__(self, rails: NodeRails, state_dir: str, kubelet_dir: str, root: str = "/") -> None:
        self.rails = rails
        self.state_dir = state_dir
        self.root = root
        self.view: tuple[RailView, ...] = ()
        self.units: tuple[Unit, ...] = ()
        self.taken: frozenset[str] = frozenset()
        """PCI addresses of GPUs that pods have, as of the last :meth:`waiting`."""
        self._kubelet = PodResources(kubelet_dir)
        self._since: dict[str, float] = {}
        self._account = "has not looked yet"
        self._listeners: list[Callable[[], None]] = []
        self._wake = threading.Event()
        self._stopping = False
        self._users = 0
        self._thread: threading.Thread | None = None

    # life

    def start(self) -> None:
        """Look once, then go on in a thread. Every part that uses it may start it; the last one to stop it ends it."""
        self._users += 1
        if self._users > 1:
            return
        self._stopping = False
        self.refresh()
        self._thread = threading.Thread(target=self._live, name="lookout", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread when nobody uses it any more."""
        self._users -= 1
        if self._users:
            return
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(2.0)
        self._kubelet.close()

    def after(self, finished: Finished) -> None:
        """Rails have moved: look again."""
        if finished.verb in ("ADD", "DEL", "GC"):
            self.hurry()

    def problem(self) -> str:
        """Why the node cannot be looked at; empty while it can."""
        return self._account

    def hurry(self) -> None:
        """Look now."""
        self._wake.set()

    def listen(self, told: Callable[[], None]) -> None:
        """Call ``told`` after each look that saw something else than the one before."""
        self._listeners.append(told)

    def _live(self) -> None:
        while not self._stopping:
            self._wake.wait(_EVERY)
            self._wake.clear()
            if not self._stopping:
                self.refresh()

    # looking

    def refresh(self, now: float | None = None) -> None:
        """Read the node. What cannot be read is told by :meth:`problem`; the last view stays."""
        before = (self.view, self.units)
        try:
            conf = self.rails.read()
            store = open_store(self.state_dir, create=False)
            try:
                self.view = look(conf, store, self.root)
            finally:
                if store is not None:
                    store.close()
            fresh = units(self.view, verdicts(self.state_dir, self.root))
            self.units = self._lasting(fresh, time.monotonic() if now is None else now)
            self._account = ""
        except (ConfigError, HostError, Busy) as error:
            self._say(str(error))
        except Exception as error:  # noqa: BLE001 - the thread must live: the next look may succeed
            _log.exception("the node could not be looked at")
            self._say(repr(error))
        if (self.view, self.units) != before:
            for told in self._listeners:
                told()

    def _say(self, account: str) -> None:
        if account != self._account:
            _log.warning("the node could not be looked at: %s", account)
        self._account = account

    def _lasting(self, fresh: tuple[Unit, ...], now: float) -> tuple[Unit, ...]:
        self._since = {unit.ident: self._since.get(unit.ident, now) for unit in fresh if not unit.healthy}
        return tuple(
            unit._replace(healthy=True)
            if not unit.healthy and now - self._since[unit.ident] < _LASTING and self._was_healthy(unit.ident)
            else unit
            for unit in fresh
        )

    def _was_healthy(self, ident: str) -> bool:
        return any(unit.ident == ident and unit.healthy for unit in self.units)

    def waiting(self) -> dict[str, Collection[str]]:
        """Containers that have GPUs and no rails, and these GPUs' addresses. HostError without a kubelet."""
        pods = self._kubelet.list()
        by_container: dict[str, list[Given]] = {}
        for pod in pods:
            for each in pod.devices:
                by_container.setdefault(f"{pod.namespace}/{pod.name}/{each.container}", []).append(each)
        gpus = {name: self._addresses(given) for name, given in by_container.items()}
        self.taken = frozenset(address for addresses in gpus.values() for address in addresses)
        served = {name for name, given in by_container.items() if any(each.resource == RAIL for each in given)}
        return {name: addresses for name, addresses in gpus.items() if addresses and name not in served}

    def _addresses(self, given: list[Given]) -> tuple[str, ...]:
        names = gpu_names(given)
        return tuple(gpunames.resolve(names, self.root).values()) if names else ()


@lru_cache(maxsize=1)
def _shared(conf_dir: str, fabric: str, node: str, state_dir: str, kubelet_dir: str) -> Lookout:
    return Lookout(NodeRails(conf_dir, fabric, node), state_dir, kubelet_dir)


def lookout_of(setting: Setting) -> Lookout:
    """The one that the parts of this process share."""
    from cni.agent.noderails import CONF_DIR, kubelet_dir

    conf_dir = setting.options.get("conf_dir") or CONF_DIR
    return _shared(conf_dir, setting.fabric, setting.node, setting.state_dir, kubelet_dir(setting))
