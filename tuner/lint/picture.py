"""The fabric as a drawing: where everything goes and what colour it has. Pure; ``html`` writes it as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from conf.fabric import Fabric
from tuner.lint.report import Finding
from tuner.lint.rule import Severity

__all__ = ["Box", "Cell", "Picture", "Wire", "draw"]

MAX_CELLS = 8192
"""NICs that are drawn one by one; in a larger fabric each leaf has a bar with the share of NICs that are well."""
_WIDTH, _GAP, _HEIGHT, _CELL, _ROW = 132, 14, 30, 12, 10  # pixels; a leaf has 10 cells in a row
_PER_LINE = 8  # switches in one line
_LEFT = 16

_Worst = dict[str, Severity]


class Box(NamedTuple):
    """A switch."""

    name: str
    x: int
    y: int
    worst: Severity | None
    label: str
    """What it carries: ``rail0: 64 NICs``."""


class Cell(NamedTuple):
    """A NIC, by the port it is plugged into."""

    name: str
    x: int
    y: int
    worst: Severity | None


class Wire(NamedTuple):
    """All cables between two switches."""

    x1: int
    y1: int
    x2: int
    y2: int
    worst: Severity | None
    name: str


class Picture(NamedTuple):
    """Pixels, from the top left."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    cells: tuple[Cell, ...]
    wires: tuple[Wire, ...]
    bars: tuple[tuple[int, int, int, int, Severity | None], ...]
    """x, y, width, height and colour of what stands for cells that are too many."""


def draw(fabric: Fabric, findings: Iterable[Finding]) -> Picture:
    """Spines above leaves above their NICs, each in the colour of the worst finding about it."""
    worst = _by_device(findings)
    lines, switches = _lines(fabric), {each.name: each for each in fabric.switches}
    boxes: dict[str, Box] = {}
    cells: list[Cell] = []
    bars: list[tuple[int, int, int, int, Severity | None]] = []
    one_by_one = sum(len(tuple(each.attachments())) for each in fabric.switches) <= MAX_CELLS
    top = _LEFT
    for line in lines:
        deepest = 0
        for column, name in enumerate(line):
            switch = switches[name]
            nics = [_nic(name, each.port, each.node, each.rail, worst) for each in switch.attachments()]
            x = _LEFT + column * (_WIDTH + _GAP)
            boxes[name] = Box(name, x, top, worst.get(name), _label(switch.attachments()))
            if one_by_one:
                cells += (_placed(x, top, number, *each) for number, each in enumerate(nics))
                deepest = max(deepest, -(-len(nics) // _ROW) * _CELL)
            elif nics:
                bars += _bars(x, top + _HEIGHT + 4, [colour for _, colour in nics])
                deepest = max(deepest, _CELL)
        top += _HEIGHT + deepest + 56
    width = 2 * _LEFT + max((len(line) for line in lines), default=1) * (_WIDTH + _GAP)
    return Picture(width, top, tuple(boxes.values()), tuple(cells), tuple(_wires(fabric, boxes, findings)), tuple(bars))


def _lines(fabric: Fabric) -> list[list[str]]:
    """Switches by role, the top of the fabric first, a few to a line."""
    lines = []
    for role in ("superspine", "spine", "leaf"):
        names = [each.name for each in fabric.switches if each.role == role]
        lines += [names[at : at + _PER_LINE] for at in range(0, len(names), _PER_LINE)]
    return lines


def _label(attachments: Iterable[object]) -> str:
    rails: dict[str, int] = {}
    for each in attachments:
        rail = getattr(each, "rail", "")
        rails[rail] = rails.get(rail, 0) + 1
    return ", ".join(f"{rail}: {count} NICs" for rail, count in list(rails.items())[:2])


def _by_device(findings: Iterable[Finding]) -> _Worst:
    """Device, ``switch port`` and ``node/rail`` to the worst finding about it."""
    worst: _Worst = {}
    for finding in findings:
        for where in finding.where:
            for key in _keys(where):
                worst[key] = max(worst.get(key, Severity.INFO), finding.severity)
    return worst


_NODE_RAIL = re.compile(r"\(([^()\s/]+/[^()\s/]+)\)")


def _keys(where: str) -> Iterable[str]:
    device, _, rest = where.partition(" ")
    yield device
    if match := _NODE_RAIL.search(where):
        yield match[1]
    for word in re.split(r"[|.:()\s]", rest):
        if word:
            yield f"{device} {word}"


def _nic(switch: str, port: str, node: str, rail: str, worst: Mapping[str, Severity]) -> tuple[str, Severity | None]:
    """Its name and colour: that of the port, of the cable, or of the host's end."""
    found = [worst[key] for key in (f"{switch} {port}", f"{node}/{rail}", f"{node} {rail}") if key in worst]
    return f"{switch}:{port} {node}/{rail}", max(found, default=None)


def _placed(x: int, y: int, number: int, name: str, worst: Severity | None) -> Cell:
    return Cell(name, x + number % _ROW * (_CELL + 1), y + _HEIGHT + 4 + number // _ROW * (_CELL + 1), worst)


def _bars(x: int, y: int, colours: list[Severity | None]) -> Iterable[tuple[int, int, int, int, Severity | None]]:
    """One bar, cut by how many NICs have which colour."""
    start = x
    for severity in (*reversed(Severity), None):
        width = round(_WIDTH * colours.count(severity) / len(colours))
        if width:
            yield start, y, width, _CELL, severity
            start += width


def _wires(fabric: Fabric, boxes: Mapping[str, Box], findings: Iterable[Finding]) -> Iterable[Wire]:
    counts: dict[tuple[str, str], int] = {}
    worst: dict[tuple[str, str], Severity] = {}
    bad = {where: finding.severity for finding in reversed(list(findings)) for where in finding.where}
    for link in fabric.links:
        for one, other in link.ends():
            pair = (one.switch, other.switch)
            counts[pair] = counts.get(pair, 0) + 1
            severity = bad.get(f"{one.switch} {one.port} ({other})")
            if severity is not None:
                worst[pair] = max(severity, worst.get(pair, severity))
    for (one_name, other_name), count in counts.items():
        above, below = sorted((boxes[one_name], boxes[other_name]), key=lambda box: box.y)
        name = f"{one_name} – {other_name}: {count} cables"
        middle = _WIDTH // 2
        colour = worst.get((one_name, other_name))
        yield Wire(above.x + middle, above.y + _HEIGHT, below.x + middle, below.y, colour, name)
