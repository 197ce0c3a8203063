"""Geometry of the page's drawings: numbers in, coordinates out. Pure; the template writes the SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median, median_high

from nccltest.baseline import ENOUGH, WINDOW, baseline
from nccltest.changes import change_points
from nccltest.history import TrendPoint
from nccltest.locate.cabling import Cabling
from nccltest.locate.evidence import DEAD, gather
from nccltest.locate.levels import levels
from nccltest.model import Measurement
from nccltest.report.terminal import when

__all__ = ["Cell", "Heatmap", "Trend", "heatmap", "shade", "trend"]

_MOST_ROWS, _MOST_PAIRS = 128, 64
_WIDTH, _HEIGHT = 640.0, 120.0


@dataclass(frozen=True)
class Cell:
    """One square."""

    row: str
    column: str
    ratio: float
    """Of normal; 0 for no result."""
    tests: int
    colour: str


@dataclass(frozen=True)
class Heatmap:
    """Node by rail where rails were measured by themselves, else node by node."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    left_out: int
    """Rows that are not shown: the healthiest."""


@dataclass(frozen=True)
class Trend:
    """One series over time, in a box of 640 by 120."""

    title: str
    line: str
    """``x,y x,y …``: the median of each run."""
    dots: tuple[tuple[float, float, str, bool], ...]
    """x, y, text, whether the run counts as slow."""
    band: tuple[float, float, float] | None
    """y of the centre, of the upper and of the lower edge of what is usual; None while it is learnt."""
    changes: tuple[tuple[float, str], ...]
    """x and text of change points."""
    low: str
    high: str
    """What bottom and top of the box stand for."""


def shade(ratio: float) -> str:
    """Green to red; grey-black for nothing. Lightness falls with the ratio, so that it reads without colour too."""
    if ratio <= 0:
        return "hsl(0 0% 20%)"
    lost = min(1.0, max(0.0, (0.98 - ratio) / 0.28))
    return f"hsl({140 - 140 * lost:.0f} {45 + 35 * lost:.0f}% {78 - 33 * lost:.0f}%)"


def heatmap(measurements: Sequence[Measurement], cabling: Cabling) -> Heatmap | None:
    """Each NIC's (or pair's) middle result against normal. None where nothing can be compared."""
    evidence = gather([one for one in measurements if one.kind != "single"], cabling)
    if not len(evidence):
        return None
    deviation = levels(evidence).deviation.tolist()
    known = [(evidence.source[i], value) for i, value in enumerate(deviation) if value == value]  # not NaN
    by_rail = any(one.rail for one, _ in known)
    found: dict[tuple[str, str], list[float]] = {}
    for one, value in known:
        ratio = 0.0 if value <= DEAD else exp(value)
        for place in _places(one, by_rail):
            found.setdefault(place, []).append(ratio)
    return _drawn(found, by_rail) if found else None


def _places(one: Measurement, by_rail: bool) -> list[tuple[str, str]]:
    if by_rail:
        return [(member.node, member.rail) for member in one.members if member.rail and len(one.members) == 2]
    if len(one.nodes) != 2:
        return []
    first, second = one.nodes
    return [(first, second), (second, first)]


def _drawn(found: dict[tuple[str, str], list[float]], by_rail: bool) -> Heatmap:
    middle = {place: median_high(ratios) for place, ratios in found.items()}
    worst: dict[str, float] = {}
    for (row, _), ratio in middle.items():
        worst[row] = min(ratio, worst.get(row, 9.0))
    most = _MOST_ROWS if by_rail else _MOST_PAIRS
    rows = tuple(sorted(sorted(worst, key=lambda row: worst[row])[:most]))
    shown = set(rows)
    columns = tuple(sorted({column for row, column in middle if row in shown and (by_rail or column in shown)}))
    cells = tuple(
        Cell(row, column, ratio, len(found[row, column]), shade(ratio))
        for (row, column), ratio in sorted(middle.items())
        if row in shown and column in columns
    )
    title = "Every NIC: middle result of its pairs" if by_rail else "Every pair, all rails at once"
    return Heatmap(title, rows, columns, cells, len(worst) - len(rows))


def trend(title: str, points: Sequence[TrendPoint], smallest: float) -> Trend | None:
    """The medians of the runs; None for fewer than two."""
    runs: dict[int, list[TrendPoint]] = {}
    for point in points:
        if point.busbw:
            runs.setdefault(point.run, []).append(point)
    if len(runs) < 2:
        return None
    values = [median([log(point.busbw or 1) for point in each]) for each in runs.values()]
    usual = baseline(values[-WINDOW - 1 : -1])
    margin = max(smallest, 4 * usual.sigma) if usual else 0.0
    edges = [usual.centre - margin, usual.centre + margin] if usual else []
    low, high = min([*values, *edges]) - 0.01, max([*values, *edges]) + 0.01

    def x(index: int) -> float:
        return round(_WIDTH * index / (len(values) - 1), 1)

    def y(value: float) -> float:
        return round(_HEIGHT * (high - value) / (high - low), 1)

    dots = tuple(
        (x(index), y(value), f"{exp(value):.4g} GB/s, {when(each[0].time)}", bool(edges) and value < edges[0])
        for index, (value, each) in enumerate(zip(values, runs.values(), strict=True))
    )
    return Trend(
        title,
        " ".join(f"{dot[0]},{dot[1]}" for dot in dots),
        dots,
        (y(usual.centre), y(edges[1]), y(edges[0])) if usual else None,
        tuple((x(index), _change(values, index)) for index in change_points(values)),
        f"{exp(low):.4g}",
        f"{exp(high):.4g}",
    )


def _change(values: Sequence[float], index: int) -> str:
    before, after = median(values[max(0, index - ENOUGH) : index]), median(values[index : index + ENOUGH])
    return f"{100 * (exp(after - before) - 1):+.1f} %"
