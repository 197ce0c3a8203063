"""``verify``: whether this host is what fabric.yaml says."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conf.errors import ConfigError, Finding
from host.errors import HostError
from tuner.cli import fabric_options, json_option
from tuner.drift import diff
from tuner.gather import Doors
from tuner.nic import HostQos
from tuner.plan import NicPlan, plan
from tuner.report import code_of, notes, plans_json
from tuner.session import Look, look, offline, read, state_option, stored
from tuner.verdict import of_plans, write

if TYPE_CHECKING:
    from conf.fabric import Fabric

_ABOUT = """
Reads only. Prints a unified diff from what is to what is wanted, and nothing where they agree; exit 1 on drift.
What a driver does not show is said on stderr and never counts as right.

  roceway-tune verify -f fabric.yaml
  roceway-tune show --json > states/gpu-001.json         on each host, then anywhere:
  roceway-tune verify -f fabric.yaml --host states/      every *.json of a folder

10,000 recorded hosts of eight NICs, all of them drifting, took 15 s of one core, 25 s with --json.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    here: Look
    plans: tuple[NicPlan, ...]
    text: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    fabric_options(parser)
    about = "recorded `show --json`, files or folders, instead of this host; each says whose it is"
    parser.add_argument("--host", type=Path, nargs="+", metavar="FILE", help=about)
    state_option(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Compare and print."""
    fabric = read(options)
    if options.host is not None:
        return _recorded(options, fabric)
    with Doors() as doors:
        judged = _judge(look(fabric, options.node, doors, stored(options)))
    if options.json:
        print(json.dumps(_values(judged), indent=2))
    elif judged.text:
        print(judged.text)
    _remark(judged, "")
    with suppress(HostError):  # without the right to tell the agent, the reader still gets the answer
        write(options.state_dir, of_plans(judged.plans, judged.here.seen))
    return code_of(judged.plans)


def _judge(here: Look) -> _Judged:
    plans = plan(here.wanted, here.seen, in_use=True)
    return _Judged(here=here, plans=plans, text=diff(here.wanted, here.seen))


def _values(judged: _Judged) -> dict[str, Any]:
    drift = {"node": judged.here.wanted.node, "drift": bool(judged.text), "diff": judged.text.splitlines()}
    return {**drift, **plans_json(judged.plans)}


def _recorded(options: argparse.Namespace, fabric: Fabric) -> int:
    """Every record is looked at; those that cannot be judged are one error at the end, with all their reasons."""
    findings: list[Finding] = []
    printed = _Hosts() if options.json else None
    code = unseen = 0
    for path in [*_files(options.host)]:  # a folder that is no use is told before anything is printed
        try:
            record = _read(path)
            judged = _judge(offline(fabric, record.node, record))
        except ConfigError as error:
            findings += [Finding(f"{path}{': ' * bool(each.path)}{each.path}", each.message) for each in error.findings]
            continue
        code = max(code, code_of(judged.plans))
        if printed:
            printed.add(_values(judged))
        elif judged.text:
            print(judged.text)
        unseen += sum(bool(each.unseen) for each in judged.plans)
        _remark(replace(judged, plans=tuple(replace(each, unseen=()) for each in judged.plans)), f"{record.node} ")
    if unseen:
        print(f"of {unseen} NICs the driver does not show everything; `verify --json` has what", file=sys.stderr)
    if printed:
        printed.end()
    if findings:
        raise ConfigError("recorded hosts", findings)
    return code


class _Hosts:
    """``{"hosts": […]}`` on stdout, a line for each host as it comes: ten thousand of them need not be held."""

    def __init__(self) -> None:
        self._before = '{"hosts": [\n'

    def add(self, values: dict[str, Any]) -> None:
        print(self._before + json.dumps(values), end="")
        self._before = ",\n"

    def end(self) -> None:
        print('{"hosts": []}' if self._before != ",\n" else "\n]}")


def _files(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        found = sorted(place.glob("*.json")) if place.is_dir() else [place]
        if not found:  # silence would read as "nothing has drifted"
            raise ConfigError(str(place), [Finding("", "has no *.json")])
        yield from found


def _read(path: Path) -> HostQos:
    try:
        return HostQos.from_json(json.loads(path.read_bytes()))
    except OSError as error:
        raise ConfigError(str(path), [Finding("", error.strerror or str(error))]) from None
    except ValueError as error:
        raise ConfigError(str(path), [Finding("", str(error))]) from None


def _remark(judged: _Judged, prefix: str) -> None:
    for each in judged.plans:
        for sentence in notes(each):
            print(f"{prefix}{each.rail}: {sentence}", file=sys.stderr)
