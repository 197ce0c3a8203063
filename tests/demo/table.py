"""What was measured, as tables and sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.table import Table

from tests.demo.allreduce import Measured

DROP = 0.15
"""A rail that lost this much of its bandwidth has dropped: on a busy machine rounds of a healthy rail differ by 5 %."""


class Line(NamedTuple):
    """What a rail should be."""

    subnet: str
    nic: str
    rate: float
    """Of one NIC, one way, in bytes per second: a ring sends and receives at once, and busbw is what a NIC sends."""


def table(title: str, lines: Mapping[str, Line], measured: Sequence[Measured], *, plain: bool) -> Table:
    """A row for each rail: what it should be, what it is."""
    made = _empty(title, ("rail", "subnet", "NIC"), ("busbw", "line rate", "of line"), plain=plain)
    for each in measured:
        line = lines[each.rail]
        numbers = (rate(each.busbw), rate(line.rate), f"{each.busbw / line.rate:.0%}")
        made.add_row(each.rail, line.subnet, line.nic, *numbers, _result(each), style="red" if each.wrong else None)
    return made


def comparison(
    title: str, lines: Mapping[str, Line], before: Sequence[Measured], after: Sequence[Measured], *, plain: bool
) -> Table:
    """A row for each rail: what it was, what it is."""
    made = _empty(title, ("rail", "NIC"), ("before", "busbw", "of line", "change"), plain=plain)
    earlier = {each.rail: each.busbw for each in before}
    for each in after:
        line, was = lines[each.rail], earlier[each.rail]
        share = change(each, earlier)
        numbers = (rate(was), rate(each.busbw), f"{each.busbw / line.rate:.0%}", _signed(share))
        slow = "bold red" if each.wrong or share <= -DROP else None
        made.add_row(each.rail, line.nic, *numbers, _result(each), style=slow)
    return made


def _empty(title: str, names: Sequence[str], numbers: Sequence[str], *, plain: bool) -> Table:
    made = Table(title=title, title_justify="left", box=None if plain else box.SIMPLE_HEAD, pad_edge=not plain)
    for name in names:
        made.add_column(name)
    for name in numbers:
        made.add_column(name, justify="right")
    made.add_column("result")
    return made


def _result(each: Measured) -> str:
    return "correct" if not each.wrong else f"{each.wrong} WRONG ELEMENTS"


def rate(value: float) -> str:
    """Bytes per second, decimal."""
    return f"{value / 1e9:.2f} GB/s" if value >= 1e9 else f"{value / 1e6:.1f} MB/s"


def change(each: Measured, earlier: Mapping[str, float]) -> float:
    """The share that a rail gained, negative where it lost."""
    return each.busbw / earlier[each.rail] - 1


def dropped(before: Sequence[Measured], after: Sequence[Measured]) -> list[str]:
    """The rails that lost bandwidth."""
    earlier = {each.rail: each.busbw for each in before}
    return [each.rail for each in after if change(each, earlier) <= -DROP]


def _signed(share: float) -> str:
    return f"{share:+.1%}".replace("-", "−")
