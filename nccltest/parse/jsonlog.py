"""nccl-tests' ``-J`` files, versions 1 to 4, and rccl-tests' ``-Z json|csv``. Pure.

The writer is printf: booleans and roots are strings, ``inf`` is no JSON, an early end leaves everything open, the keys
of 2.17.3 to 2.17.8 are misspelt, and ``env`` is the whole environment.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from statistics import median
from typing import Any

from nccltest import busbw
from nccltest.model import Device, Half, Row, Run
from nccltest.parse.draft import collective_of, ranks_from, status_of
from nccltest.redact import kept_environment, printable, redact

__all__ = ["CSV_HEAD", "parse_csv", "parse_json"]

CSV_HEAD = "numCycle,"
"""How rccl-tests' CSV begins."""

_DEEPEST = 16
"""Levels; nccl-tests writes six."""
_LONGEST_NUMBER = 64
_MOST = 100_000
_MOST_ERRORS, _LONGEST_ERROR = 16, 400

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+|"', re.DOTALL)
_NAN = {"inf", "-inf", "nan", "-nan", "+inf"}
_BLANK = Half(None, None, None, None)
_CLOSES = {"{": "}", "[": "]"}


def parse_json(text: str, source: str) -> tuple[Run, ...]:
    """The runs in a JSON file; none where it is not of nccl-tests or rccl-tests, whatever else it is."""
    mended, whole = _mend(text)
    try:
        document = json.loads(mended, strict=False, parse_int=_integer, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return ()
    if isinstance(document, list):
        return _rccl([each for each in document if isinstance(each, dict)], source, whole)
    if not isinstance(document, dict) or not {"version", "results", "config", "args"} & set(document):
        return ()
    return (_run(document, source, whole),)


def parse_csv(lines: Iterable[str], source: str) -> tuple[Run, ...]:
    """The run in rccl-tests' CSV."""
    try:
        rows = list(islice(csv.DictReader(lines), _MOST))
    except csv.Error:
        return ()
    return _rccl(rows, source, whole=True)


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else None


def _mend(text: str) -> tuple[str, bool]:
    """Strict JSON made of what there is, and whether it was whole: ``inf`` becomes null, what is open is closed.

    A cut file ends behind the last value that was whole. Too deep a nesting ends there as well.
    """
    parts: list[str] = []
    stack: list[str] = []
    keep, keep_stack = 0, ""
    for found in _TOKEN.finditer(text):  # lazily: behind a string without an end every quote would be tried
        part = found[0]
        if part == '"' or (part in "{[" and len(stack) >= _DEEPEST):
            break
        if part in "{[":
            stack.append(part)
        elif part in "}]":
            if not stack or _CLOSES[stack.pop()] != part:
                break
        elif part == "," and stack:
            # What stands before a comma is whole.
            keep, keep_stack = len(parts), "".join(stack)
        parts.append("null" if part.lower() in _NAN else part)
        if not stack:
            return "".join(parts), True
    closed = "".join(_CLOSES[each] for each in reversed(stack))
    if parts and parts[-1] in ("}", "]"):
        return "".join(parts) + closed, False
    return "".join(parts[:keep]) + "".join(_CLOSES[each] for each in reversed(keep_stack)), False


def _run(document: Mapping[str, Any], source: str, whole: bool) -> Run:
    config = _mapping(document.get("config"))
    devices = _devices(config.get("devices"))
    per_process = max(_whole(config.get("nthreads")), 1) * max(_whole(config.get("ngpus")), 1)
    rows = tuple(row for each in _list(document.get("results")) if (row := _row(each)) is not None)
    ranks = _ranks(devices, per_process) or ranks_from(rows)
    bounds = _mapping(document.get("out_of_bounds"))
    wrong = _whole(bounds.get("count"))
    told = _errors(document.get("errors"))
    finished = whole and bool(rows) and "count" in bounds
    status = status_of(rows, ranks, wrong=wrong, errors=() if finished else told, complete=finished)
    hosts = tuple(dict.fromkeys(device.host for device in devices))
    return Run(
        source=source,
        collective=_program(document.get("args")) or collective_of(rows, ranks, None),
        version=f"json-{_whole(document.get('version'))}",
        ranks=ranks,
        nodes=len(hosts),
        status=status,
        errors=told,
        rows=rows,
        hosts=hosts,
        devices=devices,
        nccl=_nccl_version(_whole(document.get("nccl_version"))),
        average=_average(document),
        env=kept_environment(each for each in _list(document.get("env")) if isinstance(each, str)),
    )


def _average(document: Mapping[str, Any]) -> float | None:
    for outer in ("average_bus_bandwidth", "average_bus_bandwidith"):
        for inner in ("bandwidth", "bandwidith"):
            value = _number(_mapping(document.get(outer)).get(inner))
            if value is not None:
                return value
    return None


def _errors(value: Any) -> tuple[str, ...]:
    """An empty string means that NCCL had no last error."""
    texts = (each[:_LONGEST_ERROR].strip() for each in _list(value) if isinstance(each, str))
    return tuple(printable(redact(text)) for text in texts if text)[:_MOST_ERRORS]


def _row(each: Any) -> Row | None:
    if not isinstance(each, dict) or "size" not in each:
        return None
    apart, in_place = each.get("out_of_place"), each.get("in_place")
    if not isinstance(apart, dict) and not isinstance(in_place, dict):
        return None
    return Row(
        size=_whole(each["size"]),
        count=_whole(each.get("count")),
        type=_text(each.get("type")),
        redop=_text(each.get("redop")) or "none",
        root=_root(each.get("root")),
        out_of_place=_half(apart, each.get("out_of_place_per_iter")) or _BLANK,
        in_place=_half(in_place, each.get("in_place_per_iter")),
    )


def _half(half: Any, per_iteration: Any) -> Half | None:
    if not isinstance(half, dict):
        return None
    detail = _mapping(per_iteration)
    wrong = _number(half.get("nwrong"))
    return Half(
        time_us=_number(half.get("time", half.get("cpu_time"))),
        algbw=_positive(half.get("alg_bw")),
        busbw=_positive(half.get("bus_bw")),
        wrong=None if wrong is None else int(max(min(wrong, 1e18), 0)),
        cv_pct=_number(detail.get("cv_pct")),
        process_us=_process_times(detail.get("per_process_max_times_us")),
    )


def _process_times(value: Any) -> tuple[float, ...]:
    """Median over the iterations of each process."""
    times = []
    for process in _list(value):
        numbers = [number for each in _list(process) if (number := _number(each)) is not None]
        if not numbers:
            return ()
        times.append(median(numbers))
    return tuple(times)


def _devices(value: Any) -> tuple[Device, ...]:
    return tuple(
        Device(
            rank=_whole(each.get("rank")),
            group=_whole(each.get("group")),
            pid=_whole(each.get("pid")),
            host=_text(each.get("hostname")),
            device=_whole(each.get("device")),
            bus_id=_text(each.get("device_hex")),
            name=_text(each.get("device_info")),
        )
        for each in _list(value)
        if isinstance(each, dict)
    )


def _ranks(devices: Sequence[Device], per_process: int) -> int:
    """Ranks in one communicator: with ``-g`` above 1 only each process's first device is listed."""
    if not devices:
        return 0
    groups: dict[int, int] = {}
    for device in devices:
        groups[device.group] = groups.get(device.group, 0) + 1
    apart = all(device.rank == place * per_process for place, device in enumerate(devices))
    return min(max(groups.values()) * (per_process if apart else 1), 1 << 24)


def _program(arguments: Any) -> str:
    first = next((each for each in _list(arguments) if isinstance(each, str)), "")
    name = first.rpartition("/")[2].removesuffix("_perf")
    return name if name in busbw.COLLECTIVES else ""


def _nccl_version(code: int) -> str:
    """22807 is 2.28.7; before 2.9 2804 was 2.8.4 (NCCL_VERSION in nccl.h)."""
    if not 1000 < code < 10_000_000:
        return ""
    major, minor = (code // 10_000, code // 100 % 100) if code >= 10_000 else (code // 1000, code // 100 % 10)
    return f"{major}.{minor}.{code % 100}"


def _rccl(rows: Sequence[Mapping[str, Any]], source: str, whole: bool) -> tuple[Run, ...]:
    """rccl-tests writes an object, or a CSV line, for each half of a row."""
    if not rows or not {"size", "busBw", "inPlace"} <= set(rows[0]):
        return ()
    made: dict[tuple[str, ...], dict[bool, Half]] = {}
    for each in rows[:_MOST]:
        key = tuple(_text(each.get(name)) for name in ("numCycle", "size", "type", "redop"))
        half = Half(
            time_us=_number(each.get("time")),
            algbw=_positive(each.get("algBw")),
            busbw=_positive(each.get("busBw")),
            wrong=None if _number(each.get("wrong")) is None else _whole(each.get("wrong")),
        )
        made.setdefault(key, {})[_text(each.get("inPlace")) in ("1", "true", "True")] = half
    table = tuple(
        Row(_whole(size), 0, kind, operation.lower() or "none", -1, halves.get(False, _BLANK), halves.get(True))
        for (_, size, kind, operation), halves in made.items()
    )
    ranks = _whole(rows[0].get("ranks")) or ranks_from(table)
    name = _text(rows[0].get("name")).lower().removesuffix("_perf")
    known = {each.replace("_", ""): each for each in busbw.COLLECTIVES}.get(name.replace("_", ""), "")
    return (
        Run(
            source=source,
            collective=known or collective_of(table, ranks, None),
            version="rccl",
            ranks=ranks,
            nodes=_whole(rows[0].get("nodes")),
            status=status_of(table, ranks, wrong=None, errors=(), complete=whole and bool(table)),
            errors=(),
            rows=table,
        ),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> Sequence[Any]:
    return value[:_MOST] if isinstance(value, list) else ()


def _text(value: Any) -> str:
    return printable(str(value).strip()[:255]) if isinstance(value, str | int) else ""


def _number(value: Any) -> float | None:
    """A finite number, also from a string; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value) if not isinstance(value, str) or len(value) <= _LONGEST_NUMBER else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _positive(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and number >= 0 else None


def _whole(value: Any) -> int:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 1 << 62 else 0


def _root(value: Any) -> int:
    """A string, padded with blanks: ``"    -1"``."""
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 1 << 31 else -1
