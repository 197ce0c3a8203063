"""What ``watch`` last read, as Prometheus text for the agent or a node exporter's textfile folder."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, write_to_textfile

from host.errors import HostError
from tuner.nic import NicQos
from tuner.watching import Event, Rates

__all__ = ["Metrics"]


class Metrics:
    """One registry, written whole after every reading."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._registry = CollectorRegistry()
        gauge, labels = self._gauge, ("rail", "nic")
        self._healthy = gauge("roceway_rail_healthy", "1 where the NIC is what fabric.yaml says", labels)
        self._carrier = gauge("roceway_rail_carrier", "1 where the link is up", labels)
        self._paused = gauge(
            "roceway_pause_share", "Share of the time that a priority could not send", (*labels, "priority")
        )
        self._rates = gauge("roceway_congestion_per_second", "CNPs and ECN marks", (*labels, "what"))
        self._events = Counter(
            "roceway_events", "Events of roceway-tune watch", (*labels, "kind"), registry=self._registry
        )

    def _gauge(self, name: str, about: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(name, about, labels, registry=self._registry)

    def nic(self, rail: str, nic: NicQos, healthy: bool, rates: Rates | None) -> None:
        """One rail's state."""
        self._healthy.labels(rail, nic.name).set(healthy)
        if nic.link is not None:
            self._carrier.labels(rail, nic.name).set(nic.link.carrier)
        if rates is None:
            return
        for priority, share in enumerate(rates.paused):
            if share is not None:
                self._paused.labels(rail, nic.name, str(priority)).set(share)
        for what in ("cnp_sent", "cnp_handled", "ecn_marked"):
            value = getattr(rates, what)
            if value is not None:
                self._rates.labels(rail, nic.name, what).set(value)

    def event(self, event: Event) -> None:
        """Count one event."""
        self._events.labels(event.rail, event.nic, event.kind).inc()

    def write(self) -> None:
        """Replace the file. HostError where it cannot be written."""
        try:
            os.makedirs(os.path.dirname(self._path) or ".", mode=0o700, exist_ok=True)
            write_to_textfile(self._path, self._registry)
        except OSError as error:
            raise HostError("write", self._path, error.errno or 0) from error
