"""``plan``: what ``apply`` would do to this host."""

from __future__ import annotations

import argparse
import json

from tuner.cli import fabric_options, json_option
from tuner.gather import Doors
from tuner.plan import plan
from tuner.report import code_of, plans_json, plans_text
from tuner.session import look, read, state_option, stored

_ABOUT = """
Reads only. One line per step, in the order in which the NIC's driver wants them. A step that drops the link says so.
Exit 1 when there is something to do, 3 when somebody else must act first (a DCBX agent, a driver without DCB).
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    fabric_options(parser)
    parser.add_argument("--in-use", action="store_true", help="also plan for rails that a pod has")
    state_option(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Plan and print."""
    with Doors() as doors:
        here = look(read(options), options.node, doors, stored(options))
    plans = plan(here.wanted, here.seen, in_use=options.in_use)
    print(json.dumps(plans_json(plans), indent=2) if options.json else plans_text(plans))
    return code_of(plans)
