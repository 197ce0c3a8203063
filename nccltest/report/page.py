"""The HTML page: one file, no script, nothing fetched. Names in it are other people's; the template escapes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from conf.units import format_bytes
from nccltest.causes import moved
from nccltest.conclude import Conclusion
from nccltest.history import History
from nccltest.judgement import Judgement, bad
from nccltest.locate.cabling import Cabling
from nccltest.model import Measurement
from nccltest.report.chart import Trend, heatmap, trend
from nccltest.report.terminal import headline, name_of, place_of, when
from nccltest.series import Series

__all__ = ["page"]

_MOST_TRENDS, _MOST_ROWS = 24, 200


@dataclass(frozen=True)
class _Moved:
    where: str
    name: str
    value: int
    groups: int


def page(conclusion: Conclusion, cabling: Cabling, history: History | None, smallest: float = 0.04) -> str:
    """The page's text."""
    environment = Environment(
        loader=PackageLoader("nccltest.report", "."),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["size"] = format_bytes
    environment.filters["name"] = name_of
    environment.filters["place"] = place_of
    told = bad(conclusion.judgements)
    return environment.get_template("page.html").render(
        run=conclusion,
        when=when(conclusion.time),
        headline=headline(conclusion.verdict),
        counts=Counter(each.status for each in conclusion.judgements),
        told=told[:_MOST_ROWS],
        more=len(told) - _MOST_ROWS,
        heatmap=heatmap([one for one in conclusion.measurements if one.purpose != "confirm"], cabling),
        trends=_trends(conclusion, history, smallest) if history else [],
        counters=_counters(conclusion.measurements)[:_MOST_ROWS],
        remarks=_remarks(conclusion.measurements)[:_MOST_ROWS],
        fingerprints=sorted({one.fingerprint for one in conclusion.measurements}, key=lambda each: each.key),
    )


def _trends(conclusion: Conclusion, history: History, smallest: float) -> list[Trend]:
    """The run's series, regressed ones first."""
    order: dict[Series, Judgement] = {}
    for each in sorted(conclusion.judgements, key=lambda one: (one.status != "regressed", one.series)):
        order.setdefault(each.series, each)
    drawn = (trend(_title(series), history.trend(series), smallest) for series in list(order)[:_MOST_TRENDS])
    return [each for each in drawn if each]


def _title(series: Series) -> str:
    return f"{series.test}, {series.group}, {series.rail or 'all rails'}, {format_bytes(series.size)}"


def _counters(measurements: Sequence[Measurement]) -> list[_Moved]:
    """What moved on each NIC, summed over the run; bytes and packets, which always do, left out."""
    rounds = {(one.schedule, one.round, one.members): one.counters for one in measurements}
    groups = Counter((delta.node, delta.rail, delta.name) for told in rounds.values() for delta in told)
    listed = [
        _Moved(f"{node}/{rail}", name, value, groups[node, rail, name])
        for (node, rail), counts in moved(measurements).items()
        for name, value in counts.items()
        if value and not name.endswith(("_bytes", "_packets"))
    ]
    return sorted(listed, key=lambda each: (-abs(each.value), each.where, each.name))


def _remarks(measurements: Sequence[Measurement]) -> list[tuple[Any, int]]:
    return Counter(each for one in measurements for each in one.remarks).most_common()
