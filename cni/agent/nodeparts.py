"""The agent's parts that look after the node, put together: what each needs of the others meets here.

All of them live in the background process and share one :class:`cni.agent.lookout.Lookout` and one
:class:`cni.agent.metrics.Metrics`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache

from cni.agent.deviceplugin import DevicePlugin, Node
from cni.agent.drift import Drift
from cni.agent.kubeapi import ApiServer
from cni.agent.kubeevents import Events
from cni.agent.lookout import Lookout, lookout_of
from cni.agent.metrics import Metrics
from cni.agent.nodeoptions import ACCOUNT, METRICS
from cni.agent.noderails import kubelet_dir
from cni.agent.parts import Finished, Setting
from cni.agent.reclaim import Reclaimer
from cni.agent.runtime import Runtime, find
from conf.errors import ConfigError
from host.errors import HostError

__all__ = ["RailPlugin", "device_plugin", "drift", "events", "metrics", "reclaim"]

_DEFAULT_RUN_DIR = "/run/roceway/pods"


class RailPlugin:
    """The device plugin as a part: fed by the lookout, absent where there is no kubelet at all."""

    name = "device plugin"

    def __init__(self, lookout: Lookout, folder: str, *, wanted: bool) -> None:
        self._lookout = lookout
        self._folder = folder
        self._wanted = wanted
        node = Node(
            view=lambda: lookout.view,
            units=lambda: lookout.units,
            waiting=lookout.waiting,
            taken=lambda: lookout.taken,
            run_dir=lambda: _run_dir(lookout),
        )
        self._plugin = DevicePlugin(folder, node)

    def start(self) -> None:
        """Register with the kubelet, now or when it comes."""
        self._lookout.start()
        if self._wanted:
            self._lookout.listen(self._plugin.changed)
            self._plugin.start()

    def stop(self) -> None:
        """Take the resource away."""
        if self._wanted:
            self._plugin.stop()
        self._lookout.stop()

    def after(self, finished: Finished) -> None:
        """The lookout hears of it by way of the metrics."""

    def problem(self) -> str:
        """Why the kubelet cannot give rails. A node without a kubelet has no such problem."""
        if not self._wanted or not os.path.isdir(self._folder):
            return ""
        return self._plugin.problem()


def _run_dir(lookout: Lookout) -> str:
    try:
        return lookout.rails.read().run_dir
    except (ConfigError, HostError):
        return _DEFAULT_RUN_DIR


def device_plugin(setting: Setting) -> RailPlugin:
    """For ``cni.agent.parts.PARTS``."""
    wanted = not setting.options.get("no_device_plugin", False)
    return RailPlugin(lookout_of(setting), kubelet_dir(setting), wanted=wanted)


@lru_cache(maxsize=1)
def _metrics(lookout: Lookout, address: str) -> Metrics:
    return Metrics(lookout, address)


def metrics(setting: Setting) -> Metrics:
    """For ``cni.agent.parts.PARTS``."""
    return _metrics(lookout_of(setting), setting.options.get("metrics") or METRICS)


@lru_cache(maxsize=1)
def _events(node: str, account: str, shared: Metrics) -> Events:
    if not account:
        return Events(None, node, "--no-events")
    server = ApiServer.of_cluster(os.environ, account)
    why_not = f"not in Kubernetes, or no service account at {account}"
    return Events(server, node, why_not, lambda outcome, number: shared.events.labels(outcome).inc(number))


def events(setting: Setting) -> Events:
    """For ``cni.agent.parts.PARTS``."""
    wanted = not setting.options.get("no_events", False)
    account = (setting.options.get("service_account") or ACCOUNT) if wanted else ""
    return _events(setting.node, account, metrics(setting))


def reclaim(setting: Setting) -> Reclaimer:
    """For ``cni.agent.parts.PARTS``."""
    counted = metrics(setting).reclaimed

    def runtime() -> Runtime | None:
        path = setting.options.get("cri_socket") or find()
        return Runtime(path) if path else None

    return Reclaimer(
        setting.state_dir, runtime, lambda reason: counted.labels(reason).inc(), notice=events(setting).tell
    )


def drift(setting: Setting) -> Drift:
    """For ``cni.agent.parts.PARTS``."""
    shared = metrics(setting)

    def told(counts: dict[str, int], fresh: Iterable[str], repaired: Iterable[str]) -> None:
        shared.drifted = counts
        for rail in fresh:
            shared.drifts.labels(rail).inc()
        for rail in repaired:
            shared.repairs.labels(rail).inc()

    repair = not setting.options.get("no_repair", False)
    return Drift(setting.state_dir, repair=repair, told=told, notice=events(setting).tell)
