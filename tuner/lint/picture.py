"""The fabric as a drawing: where everything goes and what colour it has. Pure; ``html`` writes it as SVG."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, cast

from conf.fabric import Attachment, Fabric
from tuner.lint.report import Finding
from tuner.lint.rule import Severity

__all__ = ["Box", "Cell", "Picture", "State", "Wire", "draw"]

MAX_CELLS = 8192
"""NICs that are drawn one by one; in a larger fabric each leaf has a bar with the share of NICs that are well."""
_WIDTH, _GAP, _HEIGHT, _CELL, _ROW = 132, 14, 30, 12, 10  # pixels; a leaf has 10 cells in a row
_PER_LINE = 8  # switches in one line
_LEFT = 16

_MANY_CABLES = 128
"""Pairs of switches from which on only cables with findings are drawn."""

State = Literal["critical", "high", "medium", "info", "well", "unread"]
"""The worst finding about a thing; ``well``: it was read and nothing was found."""
STATES: tuple[State, ...] = ("critical", "high", "medium", "info", "well", "unread")

_Worst = dict[str, Severity]


class Box(NamedTuple):
    """A switch."""

    name: str
    x: int
    y: int
    state: State
    label: str
    """What it carries: ``rail0: 64 NICs``."""


class Cell(NamedTuple):
    """A NIC, by the port it is plugged into."""

    name: str
    x: int
    y: int
    state: State


class Wire(NamedTuple):
    """All cables between two switches."""

    x1: int
    y1: int
    x2: int
    y2: int
    state: State
    name: str


class Picture(NamedTuple):
    """Pixels, from the top left."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    cells: tuple[Cell, ...]
    wires: tuple[Wire, ...]
    bars: tuple[tuple[int, int, int, int, State], ...]
    """x, y, width, height and colour of what stands for cells that are too many."""


def draw(fabric: Fabric, findings: Sequence[Finding], read: Container[str]) -> Picture:
    """Spines above leaves above their NICs, each in the colour of the worst finding about it.

    ``read`` are the switches and hosts that were read: what was not is grey, never green.
    """
    worst, lines = _by_device(findings), _lines(fabric)
    switches = {each.name: each for each in fabric.switches}
    one_by_one = sum(len(tuple(each.attachments())) for each in fabric.switches) <= MAX_CELLS
    boxes: dict[str, Box] = {}
    cells: list[Cell] = []
    bars: list[tuple[int, int, int, int, State]] = []
    top = _LEFT
    for line in lines:
        deepest = 0
        for column, name in enumerate(line):
            nics = [_nic(name, each, worst, read) for each in switches[name].attachments()]
            x = _LEFT + column * (_WIDTH + _GAP)
            state = _state(worst.get(name), name in read)
            boxes[name] = Box(name, x, top, state, _label(switches[name].attachments()))
            if one_by_one:
                cells += (_placed(x, top, number, *each) for number, each in enumerate(nics))
                deepest = max(deepest, -(-len(nics) // _ROW) * _CELL)
            elif nics:
                bars += _bars(x, top + _HEIGHT + 4, [state for _, state in nics])
                deepest = max(deepest, _CELL)
        top += _HEIGHT + deepest + 56
    width = 2 * _LEFT + max((len(line) for line in lines), default=1) * (_WIDTH + _GAP)
    wires = tuple(_wires(fabric, boxes, findings))
    return Picture(width, top, tuple(boxes.values()), tuple(cells), wires, tuple(bars))


def _state(worst: Severity | None, was_read: bool) -> State:
    if worst is not None:
        return cast(State, str(worst))
    return "well" if was_read else "unread"


def _lines(fabric: Fabric) -> list[list[str]]:
    """Switches by role, the top of the fabric first, a few to a line."""
    lines = []
    for role in ("superspine", "spine", "leaf"):
        names = [each.name for each in fabric.switches if each.role == role]
        lines += [names[at : at + _PER_LINE] for at in range(0, len(names), _PER_LINE)]
    return lines


def _label(attachments: Iterable[Attachment]) -> str:
    rails = Counter(each.rail for each in attachments)
    return ", ".join(f"{rail}: {count} NICs" for rail, count in rails.most_common(2))


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
    for word in re.split(r"[|.:\s]", rest.partition(" (")[0]):
        if word:
            yield f"{device} {word}"


def _nic(switch: str, at: Attachment, worst: Mapping[str, Severity], read: Container[str]) -> tuple[str, State]:
    """Its name and state: that of the port, of the cable, or of the host's end."""
    keys = (f"{switch} {at.port}", f"{at.node}/{at.rail}", f"{at.node} {at.rail}")
    found = max((worst[key] for key in keys if key in worst), default=None)
    return f"{switch}:{at.port} {at.node}/{at.rail}", _state(found, switch in read or at.node in read)


def _placed(x: int, y: int, number: int, name: str, state: State) -> Cell:
    return Cell(name, x + number % _ROW * (_CELL + 1), y + _HEIGHT + 4 + number // _ROW * (_CELL + 1), state)


def _bars(x: int, y: int, states: Sequence[State]) -> Iterable[tuple[int, int, int, int, State]]:
    """One bar, cut by how many NICs have which state; a single bad one is still a pixel wide."""
    start = x
    for state in STATES:
        share = states.count(state) / len(states)
        width = min(max(round(_WIDTH * share), 1 if share else 0), x + _WIDTH - start)
        if width:
            yield start, y, width, _CELL, state
            start += width


def _wires(fabric: Fabric, boxes: Mapping[str, Box], findings: Sequence[Finding]) -> Iterable[Wire]:
    counts: Counter[tuple[str, str]] = Counter()
    worst: dict[tuple[str, str], Severity] = {}
    bad: _Worst = {}
    for finding in findings:
        for where in finding.where:
            bad[where] = max(finding.severity, bad.get(where, finding.severity))
    for link in fabric.links:
        for one, other in link.ends():
            pair = (one.switch, other.switch)
            counts[pair] += 1
            severity = bad.get(f"{one.switch} {one.port} ({other})")
            if severity is not None:
                worst[pair] = max(severity, worst.get(pair, severity))
    for pair, count in counts.items():
        if pair in worst or len(counts) <= _MANY_CABLES:
            yield _wire(boxes[pair[0]], boxes[pair[1]], worst.get(pair), count)


def _wire(one: Box, other: Box, worst: Severity | None, count: int) -> Wire:
    above, below = sorted((one, other), key=lambda box: box.y)
    state = _state(worst, "unread" not in (one.state, other.state))
    name = f"{one.name} – {other.name}: {count} {'cable' if count == 1 else 'cables'}"
    return Wire(above.x + _WIDTH // 2, above.y + _HEIGHT, below.x + _WIDTH // 2, below.y, state, name)
