"""``roceway-agent status``: what the agent on this node does; with --ready only whether it serves requests."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cni.agent import client
from cni.agent.commands.run import DEFAULT_SOCKET
from cni.agent.parts import OFF
from cni.spec import DEFAULT_STATE_DIR
from conf.errors import ConfigError
from host.errors import HostError
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE, FOUND, REFUSED

_CONF_DIR = "/etc/cni/net.d"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--socket", default=DEFAULT_SOCKET, metavar="PATH", help="the agent's (%(default)s)")
    parser.add_argument(
        "--ready",
        action="store_true",
        help="print nothing; exit 0 if the agent serves requests, 3 if not (for a readiness or liveness probe)",
    )
    parser.add_argument(
        "--state-dir", metavar="DIR", help=f"the plugin's (default: the agent's, else {DEFAULT_STATE_DIR})"
    )
    parser.add_argument(
        "--conf-dir", metavar="DIR", help=f"of this node's CNI configuration (default: the agent's, else {_CONF_DIR})"
    )
    fabric_options(parser, required=False)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """0: all well; 1: a part or a rail of it has a problem; 3: no agent answers, or it is not ready."""
    told = client.status(options.socket)
    ready = bool(told and told.get("ready"))
    if not ready:
        reason = "is not ready" if told else f"does not answer on {options.socket}; the plugin works without it"
        print(f"roceway-agent: the agent {reason}", file=sys.stderr)
    if options.ready:
        return DONE if ready else REFUSED
    node = _node(options, told or {})
    if options.json:
        print(json.dumps({**(told or {}), **node}))
    else:
        _show(told or {})
        _show_node(node)
    if not ready:
        return REFUSED
    wrong = any(text and not text.startswith(OFF) for text in (told or {}).get("parts", {}).values()) or any(
        rail["problem"] or rail["differences"] for rail in node["rails"]
    )
    return FOUND if wrong else DONE


def _node(options: argparse.Namespace, told: dict[str, Any]) -> dict[str, Any]:
    """The rails, read here and now: the table is wanted most when the agent is down."""
    from cni.agent.noderails import NodeRails
    from cni.agent.nodestatus import node

    folder = options.conf_dir or told.get("conf_dir") or _CONF_DIR
    rails = NodeRails(folder, str(options.fabric or ""), options.node)
    try:
        return node(rails, options.state_dir or told.get("state_dir") or DEFAULT_STATE_DIR)
    except (ConfigError, HostError) as error:
        print(f"roceway-agent: no table of this node's rails: {error}", file=sys.stderr)
        return {"rails": []}


def _show(told: dict[str, Any]) -> None:
    parts = told.pop("parts", {})
    width = max((len(name) for name in told), default=0)
    for name, value in told.items():
        print(f"{name.replace('_', ' '):{width}}  {value}")
    for name, problem in parts.items():
        print(f"{name}: {problem or 'ok'}")


def _show_node(node: dict[str, Any]) -> None:
    if not node["rails"]:
        return
    from cni.agent.nodestatus import COLUMNS, row
    from cni.show import make_table, open_console

    out = open_console()
    out.print()
    out.print(make_table("Rails", COLUMNS, [row(rail) for rail in node["rails"]]))
    for rail in node["rails"]:
        for line in rail["differences"]:
            out.print(f"  {line}")
