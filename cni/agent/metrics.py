"""Metrics for Prometheus: what requests took and gave, what the rails are, on loopback unless told otherwise.

No label names a pod, a container or an address: every label's values are verbs, CNI codes, the node's rails, the eight
priorities and a fixed list of counters. How many series a node has follows from its hardware alone (docs/metrics.md).
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Counts
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from cni.agent import railcounters
from cni.agent.lookout import Lookout
from cni.agent.nodeoptions import parse_address
from cni.agent.parts import Finished
from cni.agent.railcounters import RailCounters
from cni.ipam import pools, size
from cni.lifecycle import open_store
from conf.errors import ConfigError
from host.errors import Busy, HostError

__all__ = ["Metrics", "Usage"]

_VERBS = ("ADD", "DEL", "CHECK")
"""Those that a pod waits for; GC, STATUS and VERSION share ``other``."""
_BUCKETS = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.32, 1.28, 5.0, 15.0, 60.0)
"""Seconds. An ADD of 8 rails takes 5 to 20 ms; a DEL waits for the kernel's grace period of 20 ms; a lock for 15 s."""
_AGAIN = 1.0
_FRESH = 5.0  # seconds: more than one Prometheus may scrape


class Usage(NamedTuple):
    """Leases of one rail and family."""

    rail: str
    family: int
    leased: int
    size: int
    """Addresses that the pool has."""


class Metrics:
    """Counts requests, and tells the node's state when it is scraped."""

    name = "metrics"

    def __init__(self, lookout: Lookout, address: str) -> None:
        self._lookout = lookout
        self._address = address
        self._http: tuple[Any, threading.Thread] | None = None
        self._account = ""
        self._stopping = threading.Event()
        disable_created_metrics()  # type: ignore[no-untyped-call]  # when a counter began: one more series for each
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "roceway_cni_request_seconds",
            "From a CNI request's arrival to its answer.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._failures = Counter(
            "roceway_cni_failures", "CNI requests that failed.", ["verb", "code"], registry=self.registry
        )
        self.reclaimed = Counter(
            "roceway_reclaimed",
            "Attachments that nobody deleted and the agent reclaimed.",
            ["reason"],
            registry=self.registry,
        )
        self.drifts = Counter(
            "roceway_drifts", "Times that a rail was found unlike it was attached.", ["rail"], registry=self.registry
        )
        self.repairs = Counter(
            "roceway_repairs", "Rules and routes of rails that the agent put back.", ["rail"], registry=self.registry
        )
        self.events = Counter(
            "roceway_events", "Events for Kubernetes, by what became of them.", ["outcome"], registry=self.registry
        )
        for verb in (*_VERBS, "other"):
            self._seconds.labels(verb)
        self.drifted: dict[str, int] = {}
        """Rail to the number of pods in which it is not as it was attached."""
        self.registry.register(_NodeCollector(self, lookout))

    def start(self) -> None:
        """Listen for scrapes, in threads. An address that another agent still has is waited for."""
        self._lookout.start()
        if self._address != "off":
            threading.Thread(target=self._listen, name="metrics", daemon=True).start()

    def _listen(self) -> None:
        host, port = parse_address(self._address)
        while not self._stopping.is_set():
            try:
                self._http = start_http_server(port, host, registry=self.registry)
            except OSError as error:
                self._account = str(HostError("listen on", self._address, error.errno or 0))
                self._stopping.wait(_AGAIN)
                continue
            self._account = ""
            return

    def stop(self) -> None:
        """Close the port."""
        self._stopping.set()
        if self._http is not None:
            self._http[0].shutdown()
            self._http[0].server_close()
            self._http = None
        self._lookout.stop()

    @property
    def port(self) -> int:
        """Where it listens: what was asked for, or what the kernel gave for port 0."""
        return int(self._http[0].server_address[1]) if self._http is not None else 0

    def after(self, finished: Finished) -> None:
        """Count a request."""
        self._lookout.after(finished)
        verb = finished.verb if finished.verb in _VERBS else "other"
        self._seconds.labels(verb).observe(finished.seconds)
        if finished.code:
            self._failures.labels(verb, _code(finished.code)).inc()

    def problem(self) -> str:
        """What keeps the node's state from being told."""
        return self._account or self._lookout.problem()


def _code(code: int) -> str:
    """A CNI code as a label; codes that no release has share one."""
    return str(code) if code in range(1, 12) or code in (50, 51, 100, 999) else "other"


class _NodeCollector(Collector):
    """Reads the node at a scrape; its readings are kept for a moment."""

    def __init__(self, metrics: Metrics, lookout: Lookout) -> None:
        self._metrics = metrics
        self._lookout = lookout
        self._lock = threading.Lock()
        self._read = 0.0
        self._counters: tuple[RailCounters, ...] = ()
        self._usage: tuple[Usage, ...] = ()
        self._attachments: dict[str, int] = {}

    def describe(self) -> Iterable[Any]:
        """Nothing is read to register it."""
        return ()

    def collect(self) -> Iterator[Any]:
        """Every metric of the node's state."""
        with self._lock:
            if time.monotonic() - self._read > _FRESH:
                self._counters = railcounters.read(self._lookout.view, self._lookout.root)
                self._usage, self._attachments = _usage(self._lookout)
                self._read = time.monotonic()
        yield from self._rails()
        yield from self._leases()
        yield from self._counted()

    def _rails(self) -> Iterator[Any]:
        fit = GaugeMetricFamily("roceway_rail_fit", "1 while the rail would serve a pod.", labels=["rail"])
        healthy: dict[str, bool] = {}
        for unit in self._lookout.units:
            name = unit.ident.partition("@")[0]
            healthy[name] = healthy.get(name, False) or unit.healthy
        for name, well in healthy.items():
            fit.add_metric([name], float(well))
        carrier = GaugeMetricFamily("roceway_rail_carrier", "1 while the rail's NIC has a link.", labels=["rail"])
        speed = GaugeMetricFamily(
            "roceway_rail_speed_bits_per_second", "Speed of the link; 0 for unknown.", labels=["rail"]
        )
        active = GaugeMetricFamily(
            "roceway_rail_rdma_active", "1 while the RDMA port is ACTIVE; absent without RDMA device.", labels=["rail"]
        )
        pods = GaugeMetricFamily("roceway_rail_pods", "Pods that have the rail.", labels=["rail"])
        info = GaugeMetricFamily(
            "roceway_rail_info", "What the rail is made of.", labels=["rail", "nic", "gpu", "distance", "mode"]
        )
        drifted = GaugeMetricFamily(
            "roceway_rail_drifted_pods", "Pods in which the rail is not as it was attached.", labels=["rail"]
        )
        for rail in self._lookout.view:
            carrier.add_metric([rail.name], float(rail.carrier))
            speed.add_metric([rail.name], 1e6 * rail.speed)
            if rail.rdma:
                active.add_metric([rail.name], float(rail.rdma_state == "ACTIVE"))
            pods.add_metric([rail.name], len(rail.holders))
            info.add_metric([rail.name, rail.pci or rail.nic, rail.gpu, rail.distance, rail.mode], 1.0)
            drifted.add_metric([rail.name], self._metrics.drifted.get(rail.name, 0))
        yield from (fit, carrier, speed, active, pods, info, drifted)

    def _leases(self) -> Iterator[Any]:
        leased = GaugeMetricFamily("roceway_leases", "Addresses that pods hold.", labels=["rail", "family"])
        room = GaugeMetricFamily("roceway_lease_pool_size", "Addresses of the pool.", labels=["rail", "family"])
        for each in self._usage:
            labels = [each.rail, str(each.family)]
            leased.add_metric(labels, each.leased)
            room.add_metric(labels, each.size)
        yield from (leased, room)
        attachments = GaugeMetricFamily("roceway_attachments", "Attachments in the database.", labels=["state"])
        for state, count in self._attachments.items():
            attachments.add_metric([state], count)
        yield attachments

    def _counted(self) -> Iterator[Any]:
        rdma = CounterMetricFamily(
            "roceway_rail_rdma", "RDMA counters by the kernel's names.", labels=["rail", "counter"]
        )
        frames = CounterMetricFamily(
            "roceway_rail_pfc_frames", "Priority flow control frames.", labels=["rail", "direction", "priority"]
        )
        paused = CounterMetricFamily(
            "roceway_rail_pfc_pause_seconds", "Time paused by them.", labels=["rail", "direction", "priority"]
        )
        for each in self._counters:
            for name, value in each.rdma.items():
                rdma.add_metric([each.rail, name], value)
            # Of eight priorities one or two pause: the others would be most of a node's series, and always 0.
            for (way, priority), value in each.pause.items():
                if value:
                    frames.add_metric([each.rail, way, str(priority)], value)
            for (way, priority), value in each.paused_us.items():
                if value:
                    paused.add_metric([each.rail, way, str(priority)], value / 1e6)
        yield from (rdma, frames, paused)


def _usage(lookout: Lookout) -> tuple[tuple[Usage, ...], dict[str, int]]:
    """Leases by rail and family, and attachments by state; nothing where nothing can be read."""
    states = dict.fromkeys(("attaching", "attached", "detaching"), 0)
    leases: list[tuple[str, int]] = []
    try:
        conf = lookout.rails.read()
        store = open_store(lookout.state_dir, create=False)
        if store is not None:
            with store:
                leases = [(lease.rail, lease.family) for lease in store.leases()]
                for attachment in store.attachments():
                    states[attachment.state] = states.get(attachment.state, 0) + 1
    except (ConfigError, HostError, Busy):
        return (), states
    rows = [(rail.name, pool) for rail in conf.rails for pool in pools(rail.ranges)]
    counted = Counts(leases)
    return tuple(Usage(rail, pool.family, counted[rail, pool.family], size(pool.free)) for rail, pool in rows), states
