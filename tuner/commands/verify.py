"""``verify``: is this host what fabric.yaml says?"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

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

_ABOUT = """
Reads only. Prints a unified diff from what is to what is wanted, and nothing where they agree; exit 1 on drift.
What a driver does not show is said on stderr and never counts as right.

  roceway-tune verify -f fabric.yaml
  roceway-tune show --json > gpu-001.json; roceway-tune verify -f fabric.yaml --node gpu-001 --host gpu-001.json
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    fabric_options(parser)
    parser.add_argument("--host", type=Path, metavar="FILE", help="a recorded `show --json` instead of this host")
    state_option(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Compare and print."""
    here = _look(options)
    plans = plan(here.wanted, here.seen, in_use=True)
    text = diff(here.wanted, here.seen)
    if options.json:
        print(json.dumps({"drift": bool(text), "diff": text.splitlines(), **plans_json(plans)}, indent=2))
    elif text:
        print(text)
    _remark(plans)
    if options.host is None:
        _tell_agent(options, plans, here.seen)
    return code_of(plans)


def _look(options: argparse.Namespace) -> Look:
    if options.host is not None:
        return offline(read(options), options.node, _recorded(options.host))
    with Doors() as doors:
        return look(read(options), options.node, doors, stored(options))


def _recorded(path: Path) -> HostQos:
    try:
        return HostQos.from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise ConfigError(str(path), [Finding("", str(error))]) from None


def _remark(plans: tuple[NicPlan, ...]) -> None:
    for each in plans:
        for sentence in notes(each):
            print(f"{each.rail}: {sentence}", file=sys.stderr)


def _tell_agent(options: argparse.Namespace, plans: tuple[NicPlan, ...], seen: HostQos) -> None:
    """The agent's device health uses this verdict; a reader without the right to write it still gets the answer."""
    try:
        write(options.state_dir, of_plans(plans, seen))
    except HostError:
        return
