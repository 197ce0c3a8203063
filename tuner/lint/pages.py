"""The rules' pages in docs/rules, made from their declarations: ``python -m tuner.lint.pages docs/rules``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tuner.lint.rule import Rule
from tuner.lint.rules import RULES

__all__ = ["pages"]

_FAMILIES = {
    "H": "One host",
    "X": "Host against host",
    "L": "Host against switch",
    "S": "One switch",
    "T": "Switch against switch",
    "R": "At run time",
}


def pages() -> Mapping[str, str]:
    """File name to text: a page for each rule, and the index."""
    return {f"{rule.id}.md": _page(rule) for rule in RULES} | {"README.md": _index()}


def _page(rule: Rule) -> str:
    scopes = " or ".join(scope.value for scope in rule.scopes)
    return (
        f"# {rule.id}: {rule.title}\n\n"
        f"Severity: **{rule.severity}** · looks at {scopes}\n\n"
        f"**Why it hurts.** {rule.why}\n\n"
        f"**What to do.** {rule.fix}\n\n"
        f"**Source.** {rule.source}.\n"
    )


def _index() -> str:
    lines = [
        "# The rules of `roceway-tune lint`",
        "",
        "Made from the rules' declarations (`python -m tuner.lint.pages docs/rules`). How they are used:"
        " [../lint.md](../lint.md).",
    ]
    for letter, title in _FAMILIES.items():
        lines += ["", f"## {title}", "", "| rule | severity | |", "|---|---|---|"]
        family = [rule for rule in RULES if rule.id[0] == letter]
        lines += [f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.title} |" for rule in family]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the pages into the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
