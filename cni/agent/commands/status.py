"""``roceway-agent status``: what the agent on this node does; with --ready only whether it serves requests."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cni.agent import client
from cni.agent.commands.run import DEFAULT_SOCKET
from tuner.cli import json_option
from tuner.exits import DONE, FOUND, REFUSED


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--socket", default=DEFAULT_SOCKET, metavar="PATH", help="the agent's (%(default)s)")
    parser.add_argument(
        "--ready",
        action="store_true",
        help="print nothing; exit 0 if the agent serves requests, 3 if not (for a readiness or liveness probe)",
    )
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """0: all well; 1: a part of it has a problem; 3: no agent answers, or it is not ready."""
    told = client.status(options.socket)
    ready = bool(told and told.get("ready"))
    if not ready:
        reason = "is not ready" if told else f"does not answer on {options.socket}; the plugin works without it"
        print(f"roceway-agent: the agent {reason}", file=sys.stderr)
    if options.ready:
        return DONE if ready else REFUSED
    if told is None:
        return REFUSED
    print(json.dumps(told)) if options.json else _show(told)
    if not ready:
        return REFUSED
    return FOUND if any(told.get("parts", {}).values()) else DONE


def _show(told: dict[str, Any]) -> None:
    parts = told.pop("parts", {})
    width = max(len(name) for name in told)
    for name, value in told.items():
        print(f"{name.replace('_', ' '):{width}}  {value}")
    for name, problem in parts.items():
        print(f"{name}: {problem or 'ok'}")
