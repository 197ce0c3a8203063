"""``show``: the QoS of this host's NICs as it is."""

from __future__ import annotations

import argparse
import json
import sys

from tuner.cli import fabric_options, json_option
from tuner.exits import DONE, REFUSED
from tuner.gather import Doors, gather
from tuner.nic import HostQos
from tuner.session import look, read, state_option, stored
from tuner.table import text

_ABOUT = """
Reads only. "?" is what kernel and driver do not show: it is not "off".

  roceway-tune show                   every NIC with RDMA or DCB
  roceway-tune show eth2 0000:18:00.0 these, by netdev or PCI address
  roceway-tune show -f fabric.yaml    the rails of this host
  roceway-tune show --json            all that was read; `verify --host` and `lint --host-state` take it
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    parser.add_argument("nics", nargs="*", metavar="NIC", help="netdev or PCI address")
    fabric_options(parser, required=False)
    state_option(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Read and print."""
    with Doors() as doors:
        host = _seen(options, doors)
    if options.json:
        print(json.dumps(host.to_json(), indent=2))
    elif host.nics:
        print(text(host))
    return _judged(host)


def _seen(options: argparse.Namespace, doors: Doors) -> HostQos:
    if options.fabric is not None and not options.nics:
        return look(read(options), options.node, doors, stored(options)).seen
    return gather(doors, options.nics or None)


def _judged(host: HostQos) -> int:
    """3, with a sentence, where there is nothing that the tuner could work on."""
    if not host.nics:
        print("this host has no NIC with DCB or an Ethernet RDMA device", file=sys.stderr)
        return REFUSED
    if not any(nic.dcb for nic in host.nics):
        drivers = ", ".join(sorted({nic.driver or "unknown" for nic in host.nics}))
        print(f"no NIC here has DCB ({drivers}): PFC, ETS and DSCP maps can neither be seen nor set", file=sys.stderr)
        return REFUSED
    return DONE
