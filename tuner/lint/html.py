"""The report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from conf.fabric import Fabric
from tuner.lint.picture import draw
from tuner.lint.report import Report
from tuner.lint.rule import Rule
from tuner.lint.table import gap_lines, summary

__all__ = ["page"]

MAX_PLACES = 200
"""Of one cause that the page lists; ``--json`` has all."""


def page(report: Report, rules: dict[str, Rule], fabric: Fabric | None, at: str) -> str:
    """The page. Names in it come from switches and hosts: everything is escaped (autoescape)."""
    text = (files("tuner.lint") / "page.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text).render(
        report=report,
        rules=rules,
        picture=draw(fabric, report.findings) if fabric and fabric.switches else None,
        name=fabric.metadata.name if fabric else "",
        summary=summary(report),
        gaps=list(gap_lines(report.gaps)),
        most=MAX_PLACES,
        at=at,
    )
