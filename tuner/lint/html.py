"""The report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from tuner.lint.picture import STATES, draw
from tuner.lint.report import Report
from tuner.lint.rule import Rule
from tuner.lint.table import gap_lines, summary
from tuner.lint.world import Given

__all__ = ["page"]

MAX_PLACES = 200
"""Of one cause that the page lists; ``--json`` has all."""


def page(report: Report, rules: Mapping[str, Rule], given: Given, at: str) -> str:
    """The page. Names in it come from switches and hosts: everything is escaped (autoescape)."""
    fabric = given.fabric
    text = (files("tuner.lint") / "page.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text).render(
        report=report,
        rules=rules,
        picture=draw(fabric, report.findings, _read(given)) if fabric and fabric.switches else None,
        name=fabric.metadata.name if fabric else "",
        summary=summary(report),
        gaps=list(gap_lines(report.gaps)),
        most=MAX_PLACES,
        words={state: {"well": "nothing found", "unread": "not read"}.get(state, state) for state in STATES},
        at=at,
    )


def _read(given: Given) -> frozenset[str]:
    """The switches and hosts that were read."""
    return frozenset((*(each.name for each in given.switches if each.readable), *(host.node for host in given.hosts)))
