"""The latest run as Prometheus metrics: a file for node_exporter's textfile collector, or an HTTP endpoint.

Labels are bounded whatever the cluster's size: test, class of groups, rail and size of the message; suspects are named,
32 at most. Bandwidths are bytes per second, as Prometheus wants base units.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from host.errors import HostError

__all__ = ["Latest", "registry", "write"]

_PREFIX = "roceway_probe_"
_CLASS = ("test", "group", "rail", "size")
_MOST_SUSPECTS, _MOST_CLASSES = 32, 500
_STATUSES = (
    "ok", "regressed", "improved", "no-baseline", "failed", "wrong-data", "not-collective", "incomplete", "timeout",
)  # fmt: skip
_VERDICTS = ("healthy", "faulty", "ambiguous")
_GIGA = 1e9


class Latest(Collector):
    """Collects from a summary (:func:`nccltest.summary.summary`) that is asked for at every scrape."""

    def __init__(self, latest: Callable[[], Mapping[str, Any]]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All metrics of the latest run; only ``roceway_probe_last_run_timestamp_seconds`` (0) where there is none."""
        summary = self._latest()
        yield _one("last_run_timestamp_seconds", "When the latest run began.", summary.get("time", 0.0))
        if summary:
            yield from _groups(summary)
            yield from _classes(summary)
            yield from _verdict(summary["locate"])


def registry(latest: Callable[[], Mapping[str, Any]]) -> CollectorRegistry:
    """A registry with nothing else in it."""
    made = CollectorRegistry()
    made.register(Latest(latest))
    return made


def write(path: Path, summary: Mapping[str, Any]) -> None:
    """Replace the textfile at once, readable by the exporter; a device or pipe (``/dev/stdout``) stays what it is.

    HostError when it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(generate_latest(registry(lambda: summary)))
            return
        write_to_textfile(str(path), registry(lambda: summary))
        os.chmod(path, 0o644)
    except OSError as error:
        raise HostError("write", str(path), error.errno or 0) from None


def _one(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(_PREFIX + name, text, value=value)


def _groups(summary: Mapping[str, Any]) -> Iterator[GaugeMetricFamily]:
    family = GaugeMetricFamily(_PREFIX + "groups", "Groups of the latest run by status.", labels=["status"])
    for status in _STATUSES:
        family.add_metric([status], summary["statuses"].get(status, 0))
    yield family


def _classes(summary: Mapping[str, Any]) -> Iterator[GaugeMetricFamily]:
    families = (
        ("busbw", "busbw_bytes_per_second", "Median bus bandwidth of a class of groups.", _GIGA),
        ("lowest", "busbw_lowest_bytes_per_second", "Least bus bandwidth in a class of groups.", _GIGA),
        ("baseline", "baseline_bytes_per_second", "What is usual for the class.", _GIGA),
        ("change_pct", "change_ratio", "Median change against the baseline; -0.1: a tenth lost.", 0.01),
        ("regressed", "regressed_groups", "Groups of the class that are slower than their past.", 1.0),
        ("confirmed", "confirmed_groups", "Regressed groups whose loss was confirmed by running them again.", 1.0),
    )
    for key, name, text, factor in families:
        family = GaugeMetricFamily(_PREFIX + name, text, labels=_CLASS)
        for each in summary["classes"][:_MOST_CLASSES]:
            if each[key] is not None:
                family.add_metric([str(each[label]) for label in _CLASS], factor * each[key])
        yield family


def _verdict(located: Mapping[str, Any]) -> Iterator[GaugeMetricFamily]:
    verdict = GaugeMetricFamily(_PREFIX + "verdict", "1 for the verdict of the latest run.", labels=["verdict"])
    for word in _VERDICTS:
        verdict.add_metric([word], float(located["verdict"] == word))
    yield verdict
    suspect = GaugeMetricFamily(
        _PREFIX + "suspect_confidence",
        "Confidence that this is at fault; 0.95 and more is a blame.",
        labels=["kind", "id"],
    )
    named: set[tuple[str, str]] = set()
    for each in located["suspects"]:
        key = (each["kind"], each["id"])
        if key not in named and len(named) < _MOST_SUSPECTS:
            named.add(key)
            suspect.add_metric(list(key), each["confidence"])
    yield suspect
    yield _one("suspects", "Suspects of the latest run, also those beyond the ones named.", len(located["suspects"]))
    yield _one("unexplained_groups", "Slow groups that no suspect explains.", len(located["unexplained"]))
    yield _one("noise_ratio", "Standard deviation of one healthy result.", located["noise_pct"] / 100)
