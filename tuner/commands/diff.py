"""``diff``: how a switch's configuration differs from what fabric.yaml calls for."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from conf.errors import ConfigError, Finding
from conf.fabric import load
from host.errors import HostError
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE, FOUND
from tuner.switch.compare import Difference, compare
from tuner.switch.intended import Intended, intended
from tuner.switch.load import load as load_switch
from tuner.switch.load import load_file
from tuner.switch.model import Switch
from tuner.switch.render import as_switch

_ABOUT = """
  roceway-tune diff -f fabric.yaml --switch leaf-r0                  against its source in fabric.yaml
  roceway-tune diff -f fabric.yaml --switch leaf-r0 --saved leaf.json

Compared is what settings do, not how their maps and profiles are called: which class and queue a DSCP gets, where
marking starts, what is strict. Ports with the same difference are one line. "unknown": the source does not say.
`roceway-tune render` prints what would make it right; `roceway-tune lint` says what is dangerous about it.

exit codes: 0 no difference; 1 there is one; 2 bad input; 3 the switch refused or could not be reached"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _ABOUT
    fabric_options(parser, node=False)
    parser.add_argument("--switch", required=True, metavar="NAME", help="its name in fabric.yaml")
    parser.add_argument("--saved", type=Path, metavar="FILE", help="a saved configuration (default: its source)")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Compare and print. 1 where there is a difference."""
    wanted = intended(load(options.fabric), options.switch)
    saved = _saved(options, wanted)
    differences = compare(saved, wanted, as_switch(wanted))
    if options.json:
        print(json.dumps({"switch": saved.name, "differences": [asdict(each) for each in differences]}))
    else:
        _show(saved, wanted, differences)
    return FOUND if differences else DONE


def _saved(options: argparse.Namespace, wanted: Intended) -> Switch:
    """The switch as it is. ConfigError or HostError where nothing of it can be read."""
    described = wanted.described
    if options.saved is not None:
        saved = load_file(described.platform, options.saved, described.name)
    else:
        found = load_switch(described, options.fabric.parent)
        if found is None:
            raise ConfigError(str(options.fabric), [Finding(described.name, "has no source; give --saved FILE")])
        saved = found
    if not saved.readable:
        reasons = [Finding(each.place, each.message) for each in saved.findings if each.kind == "unreadable"]
        if options.saved is None and described.source is not None and described.source.file is None:
            raise HostError("read", described.name, detail=reasons[0].message)
        raise ConfigError(described.name, reasons)
    return saved


def _show(saved: Switch, wanted: Intended, differences: tuple[Difference, ...]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    if not differences:
        console.print(f"{saved.name}: {len(wanted.ports)} ports are what fabric.yaml calls for")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("setting", "saved", "wanted", "ports", "place"):
        table.add_column(name, overflow="fold")
    for each in differences:
        table.add_row(each.setting, each.saved, each.wanted, _ports(each.ports), each.place)
    console.print(table)
    count = len(differences)
    console.print(
        f"{saved.name}: {count} {'difference' if count == 1 else 'differences'}; roceway-tune render has the cure"
    )


def _ports(names: tuple[str, ...]) -> str:
    """``Ethernet0 … Ethernet252 (64)``."""
    return ", ".join(names) if len(names) < 3 else f"{names[0]} … {names[-1]} ({len(names)})"
