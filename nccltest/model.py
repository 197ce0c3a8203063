"""The values that the probe's halves hand to each other. Pure.

``parse`` gives :class:`Run` values: one nccl-tests table each. ``run`` gives :class:`Measurement` values: what one
group of nodes did at one size; ``judge``, ``locate`` and ``report`` take these. They travel as JSON lines.
Bandwidths are decimal GB/s, times microseconds, as nccl-tests prints them; sizes are bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from conf.errors import ConfigError, Finding

__all__ = [
    "Delta",
    "Device",
    "Fingerprint",
    "GroupKind",
    "Half",
    "Measurement",
    "Member",
    "Outcome",
    "Remark",
    "Row",
    "Run",
    "Status",
    "measurement_from_json",
    "read_measurements",
    "run_to_json",
    "to_json",
    "write_measurements",
]

Status = Literal["ok", "failed", "wrong-data", "not-collective", "incomplete"]
"""What became of one run's table.

``ok``: complete, data right or not checked. ``failed``: an error was printed, or nothing started. ``wrong-data``:
corruption, never a question of speed. ``not-collective``: one rank, whose bus bandwidth is 0. ``incomplete``: it ends
too early without saying why.
"""
Outcome = Literal["ok", "failed", "wrong-data", "not-collective", "incomplete", "timeout", "interrupted"]
"""A :data:`Status`, or what the launcher had to do: ``timeout``, a rank hung and the group was ended; ``interrupted``,
the operator ended it, which is no evidence of anything."""
GroupKind = Literal["whole", "pair", "half", "single"]
"""What a group of nodes is: all of them, two, a part of them (bisection), or one (its own NVLink)."""

_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Text = Annotated[str, Field(max_length=4096)]
_Count = Annotated[int, Field(strict=True, ge=0, lt=1 << 63)]
_Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]

MAX_FINDINGS = 100
"""Mistakes that are shown of one file of measurements."""


@dataclass(frozen=True, slots=True)
class Half:
    """Out of place or in place, as printed."""

    time_us: float | None
    """Mean over the iterations of the slowest rank's time."""
    algbw: float | None
    """size / time. None where it is no finite number."""
    busbw: float | None
    """What a Ring puts on each wire; nccl-tests' factor is already in it."""
    wrong: int | None
    """Wrong elements; None where unchecked. Before 2.13: 1 where the ``error`` column is beyond its tolerance."""
    cv_pct: float | None = None
    """Coefficient of variation over the iterations, percent; only with ``-I 1``."""
    process_us: tuple[float, ...] = ()
    """Each process's own time, median over the iterations: with ``-I 1 -J`` a run of all rails side by side tells
    them apart."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    size: int
    count: int
    type: str
    redop: str
    """``none`` where the collective has none, in every version."""
    root: int
    """-1 where the collective has none, in every version."""
    out_of_place: Half
    in_place: Half | None
    """None where it was not run (``N/A``, ``null``)."""


@dataclass(frozen=True, slots=True)
class Device:
    """One rank's line of "Using devices"."""

    rank: int
    group: int
    pid: int
    host: str
    device: int
    bus_id: str
    """As printed, such as ``0000:8f:00``; ``0x00`` from older versions."""
    name: str


@dataclass(frozen=True, slots=True)
class Run:
    """One nccl-tests run: one table, or what is left of one."""

    source: str
    """The file, with ``#2`` for the second run in it."""
    collective: str
    """``all_reduce``, ``all_gather``, …; empty where neither the log nor the factor tells."""
    version: str
    """nccl-tests' version where it is printed, else the format's: ``1``, ``2.0-2.11``, ``2.13+``, ``json-3``."""
    ranks: int
    """0 where unknown."""
    nodes: int
    """Hosts; 0 where unknown."""
    status: Status
    errors: tuple[str, ...]
    """In the log's own words, the first ones; redacted."""
    rows: tuple[Row, ...]
    hosts: tuple[str, ...] = ()
    """In rank order, each once."""
    devices: tuple[Device, ...] = ()
    nccl: str = ""
    """NCCL's version, ``2.26.6+cuda12.8``."""
    average: float | None = None
    """The footer's mean over all sizes. Shown, never judged."""
    env: tuple[tuple[str, str], ...] = ()
    """NCCL_*, UCX_*, OMPI_* and the like, sorted; nothing else is kept, and no value of a secret."""


@dataclass(frozen=True, slots=True)
class Member:
    """One node in a group; with a rail where one rail alone was used."""

    node: _Name
    rail: _Name | None = None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a baseline depends on: another value, another baseline. Empty where unknown."""

    nccl: _Text = ""
    """Version of NCCL, or of the MPI that stands in."""
    driver: _Text = ""
    """NIC and GPU drivers of the members, joined when they differ."""
    firmware: _Text = ""
    """NIC firmware of the members, joined when they differ."""
    env: _Text = ""
    """Hash of the benchmark's command and environment."""
    fabric: _Text = ""
    """Hash of those parts of fabric.yaml that bandwidth depends on: rails, QoS, node types."""

    @property
    def key(self) -> str:
        """16 hexadecimal digits: equal for equal fingerprints."""
        parts = (self.nccl, self.driver, self.firmware, self.env, self.fabric)
        return sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Delta:
    """How far one counter of one NIC moved during the measurement; only what moved is told."""

    node: _Name
    rail: _Name
    name: _Name
    """The kernel's own name: ``rx_prio3_pause``, ``out_of_sequence``, ``symbol_error``, ``link_downed``, …"""
    value: Annotated[int, Field(strict=True, gt=-(1 << 63), lt=1 << 64)]
    """Negative: the counter was reset meanwhile."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that the log or the counters show, and that matters even when the bandwidth looks fine."""

    rule: _Name
    """``socket-fallback``, ``cross-rail``, ``no-gdr``, ``traffic-class``, ``not-rocev2``, ``wrong-hca``, …"""
    where: _Text
    """Node, rank, rail as far as known."""
    text: _Text


@dataclass(frozen=True, slots=True)
class Measurement:
    """One group of nodes at one message size: the median over the repeats.

    The first five fields alone are a valid measurement for ``locate``.
    """

    test: _Name
    """The collective, ``all_reduce``."""
    size: _Count
    members: Annotated[tuple[Member, ...], Field(min_length=1, max_length=65_536)]
    busbw: _Rate | None = None
    """None where none was measured: see status."""
    weight: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0
    """Repeats behind it, relative to one."""
    status: Outcome = "ok"
    errors: Annotated[tuple[_Text, ...], Field(max_length=64)] = ()
    unreachable: Annotated[tuple[_Name, ...], Field(max_length=65_536)] = ()
    """Members that the launcher itself could not reach or lost: names, not suspicions."""
    kind: GroupKind = "pair"
    samples: Annotated[tuple[_Rate, ...], Field(max_length=1024)] = ()
    """Bus bandwidth of each repeat, in order."""
    ranks: _Count = 0
    """Ranks in the group; 0: one for each member."""
    path: Annotated[str, Field(max_length=64)] = ""
    """How its members reach each other, where fabric.yaml tells: ``same leaf``, ``across leaves, 200 Gb/s``."""
    schedule: Annotated[str, Field(max_length=128)] = ""
    """The id of the ``roceway-probe run`` that it belongs to."""
    round: _Count = 0
    """Rounds count from 0; groups of one round ran at the same time."""
    purpose: Annotated[str, Field(max_length=32)] = ""
    """Why the round was run: ``whole``, ``random``, ``same-leaf``, ``cross-leaf``, ``rail``, ``bisect``, ``follow-up``,
    ``confirm``."""
    time: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)] = 0.0
    """When it began, Unix seconds."""
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 0.0
    """How long the group was busy with it, launching included: all sizes and repeats of one run carry the same."""
    fingerprint: Fingerprint = Fingerprint()
    counters: Annotated[tuple[Delta, ...], Field(max_length=65_536)] = ()
    remarks: Annotated[tuple[Remark, ...], Field(max_length=4096)] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The members' nodes, each once, in order."""
        return tuple(dict.fromkeys(member.node for member in self.members))

    @property
    def rail(self) -> str | None:
        """The one rail that was used; None where it was more than one, or is unknown."""
        rails = {member.rail for member in self.members}
        return rails.pop() if len(rails) == 1 else None


_MEASUREMENT = TypeAdapter(Measurement)
_RUN = TypeAdapter(Run)


def run_to_json(run: Run) -> dict[str, Any]:
    """The contract's shape of a run, JSON values only; empty extras are left out."""
    document: dict[str, Any] = _RUN.dump_python(run, mode="json")
    for name in ("hosts", "devices", "nccl", "average", "env"):
        if not document[name]:
            del document[name]
    if "env" in document:
        document["env"] = dict(document["env"])
    for half in (row[name] for row in document["rows"] for name in ("out_of_place", "in_place")):
        for name in ("cv_pct", "process_us"):
            if half and not half[name]:
                del half[name]
    return document


def to_json(measurement: Measurement) -> dict[str, Any]:
    """JSON values; fields at their default are left out, ``busbw`` never."""
    document: dict[str, Any] = _MEASUREMENT.dump_python(measurement, mode="json", exclude_defaults=True)
    document["members"] = [
        {key: value for key, value in each.items() if value is not None} for each in document["members"]
    ]
    return {**document, "busbw": measurement.busbw}


def measurement_from_json(document: object) -> Measurement:
    """The measurement; ConfigError with every mistake in it. Unknown keys, a newer probe's, are left alone."""
    document = _told(document)
    findings = list(_mistakes(document))
    if findings:
        raise ConfigError("measurement", findings)
    return _MEASUREMENT.validate_python(document)


def _told(document: object) -> object:
    """The five-field form says "no result" by an explicit null alone: that is a failed group."""
    if isinstance(document, dict) and "status" not in document and document.get("busbw", 0) is None:
        return {**document, "status": "failed"}
    return document


def _mistakes(document: object) -> Iterator[Finding]:
    try:
        made = _MEASUREMENT.validate_python(document)
    except ValidationError as invalid:
        for error in invalid.errors(include_url=False, include_input=False):
            yield Finding(".".join(str(part) for part in error["loc"]), error["msg"][:1].lower() + error["msg"][1:])
        return
    if made.status == "ok" and made.busbw is None:
        yield Finding("busbw", "is missing, and status does not say why (failed, timeout, …)")


def write_measurements(measurements: Iterable[Measurement]) -> str:
    """JSON lines, each ended by a newline."""
    return "".join(json.dumps(to_json(each), separators=(",", ":")) + "\n" for each in measurements)


def read_measurements(text: str, source: str) -> tuple[Measurement, ...]:
    """The measurements of JSON lines. ConfigError with every mistake (the first hundred), each with its line.

    Blank lines are nothing. A last line without its newline that is no JSON was being written when the writer was
    killed: it is left out, what came before counts.
    """
    made: list[Measurement] = []
    findings: list[Finding] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = _told(json.loads(line))
        except (ValueError, RecursionError) as error:
            if number < len(lines) or number == 1:
                findings.append(Finding(f"line {number}", f"is not JSON: {error}"))
            continue
        mistakes = list(_mistakes(document))
        findings += [Finding(f"line {number}: {each.path}".rstrip(": "), each.message) for each in mistakes]
        if not mistakes:
            made.append(_MEASUREMENT.validate_python(document))
        if len(findings) >= MAX_FINDINGS:
            break
    if findings:
        raise ConfigError(source, findings[:MAX_FINDINGS])
    return tuple(made)
