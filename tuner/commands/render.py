"""``render``: the configuration that fabric.yaml calls for on a switch, in that platform's own syntax."""

from __future__ import annotations

import argparse
import json
import sys

from conf.fabric import load
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE
from tuner.switch.intended import intended
from tuner.switch.render import HOW_TO_APPLY, render

_ABOUT = """
  roceway-tune render -f fabric.yaml --switch leaf-r0 > leaf-r0.json
  roceway-tune render -f fabric.yaml --switch leaf-r0 --json

SONiC: CONFIG_DB tables; Cumulus: an NVUE configuration; EOS and NX-OS: configuration lines; Dell Enterprise SONiC:
OpenConfig trees. Only what the class needs on the ports that fabric.yaml has cables for; `roceway-tune diff` says how
that differs from what the switch has. stderr says how to apply it; nothing is sent to the switch.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    fabric_options(parser, node=False)
    parser.add_argument("--switch", required=True, metavar="NAME", help="its name in fabric.yaml")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Print it."""
    wanted = intended(load(options.fabric), options.switch)
    text, platform = render(wanted), wanted.described.platform
    if options.json:
        print(json.dumps({"switch": options.switch, "platform": platform, "configuration": text}))
    else:
        sys.stdout.write(text)
        print(f"{options.switch} ({platform}, {len(wanted.ports)} ports): {HOW_TO_APPLY[platform]}", file=sys.stderr)
    return DONE
