"""``roceway-tune lint``: where hosts and switches disagree with the intent and with each other."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from rich.console import Console

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric, load
from conf.qos import Qos, profile_names
from host.errors import HostError
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE, FOUND
from tuner.lint import gather
from tuner.lint.asjson import as_json, as_sarif
from tuner.lint.halves import evaluate_on_two
from tuner.lint.report import Report
from tuner.lint.rule import Severity
from tuner.lint.rules import RULES
from tuner.lint.run import lint
from tuner.lint.table import show
from tuner.lint.world import Given
from tuner.nic import HostQos
from tuner.store import STATE
from tuner.switch.model import Switch

_EPILOG = """\
What is looked at:
  roceway-tune lint -f fabric.yaml                            every switch that fabric.yaml has a source for
  roceway-tune lint -f fabric.yaml --host-state hosts/*.json  and recorded hosts (roceway-tune show --json)
  roceway-tune lint -f fabric.yaml --live                     and this host as it is now
  roceway-tune lint --switch sonic:config_db.json             one saved switch, with no fabric file
  roceway-tune lint --switch sonic:qos.json --profile lossless-dscp
                                                              and whether its ports with PFC fit hosts of a profile

A folder in place of a switch's FILE is read as one switch: config_db.json, pg_profile_lookup.ini, counters.
Two states of one host: the later is judged, and rates come from both.
A rule whose inputs are unknown is "not evaluated" and listed as such; docs/rules has a page for each rule.
Findings are accepted for a time with lint.suppressions in fabric.yaml.

exit codes: 0 nothing at or above --fail-on; 1 something; 2 bad input; 3 this host refused"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    fabric_options(parser, required=False)
    json_option(parser)
    parser.add_argument(
        "--switch",
        action="append",
        default=[],
        metavar="[NAME=]PLATFORM:FILE",
        help="a saved switch, such as sonic:config_db.json; with -f it stands in for the switch of that name",
    )
    parser.add_argument("--profile", choices=profile_names(), help="judge by a shipped profile, without fabric.yaml")
    parser.add_argument(
        "--host-state", nargs="+", type=Path, default=[], metavar="FILE", help="recorded hosts; a folder: all"
    )
    parser.add_argument("--live", action="store_true", help="read this host's NICs too")
    parser.add_argument(
        "--state-dir", default=STATE, metavar="DIR", help="what was applied here (default: %(default)s)"
    )
    parser.add_argument(
        "--fail-on",
        choices=[str(each) for each in reversed(Severity)],
        default=str(Severity.HIGH),
        help="exit 1 from this severity on (%(default)s)",
    )
    parser.add_argument("--sarif", type=Path, metavar="FILE", help="write SARIF 2.1.0 for CI")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with a picture of the fabric")
    parser.add_argument("--all", action="store_true", help="print every place of a cause")


def run(options: argparse.Namespace) -> int:
    """Lint and report. 1 where a finding is at or above ``--fail-on``."""
    if options.fabric is None and not (options.switch or options.host_state or options.live):
        raise ConfigError("lint", [Finding("", "nothing to look at: -f fabric.yaml, --switch, --host-state or --live")])
    _writable(options)
    with _uncollected():
        given = _given(options, load(options.fabric) if options.fabric else None)
        if not (given.switches or given.hosts or given.broken):  # "nothing found" would be true, and read as "fine"
            why = "nothing to look at: no switch in it has a source; give --switch, --host-state or --live"
            raise ConfigError(str(options.fabric), [Finding("switches", why)])
        report = lint(given, _today(), evaluate_on_two)
    _write(options, report, given)
    if options.json:
        print(json.dumps(as_json(report)))
    else:
        width = None if sys.stdout.isatty() else 120
        show(report, Console(width=width, highlight=False, soft_wrap=False), every_place=options.all)
    worst = report.worst()
    return FOUND if worst is not None and worst >= Severity[options.fail_on.upper()] else DONE


def _writable(options: argparse.Namespace) -> None:
    """ConfigError for a file that cannot be written, before minutes of reading and not after."""
    findings = [
        Finding(option, f"{path} {'is a folder' if path.is_dir() else 'is in no folder that exists'}")
        for option, path in (("--sarif", options.sarif), ("--html", options.html))
        if path and (path.is_dir() or not path.parent.is_dir())
    ]
    if findings:
        raise ConfigError("lint", findings)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector: what is read stays in use; looking through it would take a third of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _given(options: argparse.Namespace, fabric: Fabric | None) -> Given:
    named = tuple(_described(each, fabric) for each in gather.named_switches(options.switch))
    replaced = {each.name for each in named}
    own = gather.switches(fabric, options.fabric.parent, replaced) if fabric else ()
    hosts, broken = gather.hosts(options.host_state)
    qos = Qos.model_validate({"profile": options.profile}) if options.profile else None
    live = (_live(options, fabric),) if options.live else ()
    return Given(fabric, qos, (*hosts, *live), (*own, *named), broken)


def _described(switch: Switch, fabric: Fabric | None) -> Switch:
    """With what fabric.yaml knows about a switch of this name."""
    known = next((each for each in fabric.switches if each.name == switch.name), None) if fabric else None
    return replace(switch, role=known.role, asic=known.asic or switch.asic) if known else switch


def _live(options: argparse.Namespace, fabric: Fabric | None) -> HostQos:
    """This host as it is now: the rails' NICs and what was applied, or without fabric.yaml every NIC with QoS."""
    from tuner.gather import Doors, gather  # sockets and drivers, 100 ms: only when asked
    from tuner.session import look, stored

    with Doors() as doors:
        store = stored(options)
        if fabric is None:
            return replace(gather(doors), applied=store.applied())
        return look(fabric, options.node, doors, store, in_use=False).seen


def _today() -> date:
    return datetime.now(UTC).date()


def _write(options: argparse.Namespace, report: Report, given: Given) -> None:
    if options.sarif:
        files = {each.name: each.source for each in given.switches} | {"": str(options.fabric or "")}
        _put(options.sarif, json.dumps(as_sarif(report, RULES, files), indent=1))
    if options.html:
        from tuner.lint.html import page  # jinja2, 30 ms: only when asked

        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        _put(options.html, page(report, {rule.id: rule for rule in RULES}, given, at))


def _put(path: Path, text: str) -> None:
    """Write a file whole or not at all; into a device or pipe (``/dev/stdout``), which must stay what it is. HostError
    where that fails."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8", delete=False
        ) as new:
            new.write(text)
        os.chmod(new.name, 0o644)
        os.replace(new.name, path)
    except OSError as error:
        raise HostError("write", str(path), error.errno or 0) from None
