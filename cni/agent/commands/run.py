"""``roceway-agent run``: serve CNI requests and look after the node until told to stop."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from cni.agent.jsonlog import JsonLines
from cni.agent.nodeoptions import arguments as node_arguments
from cni.spec import DEFAULT_STATE_DIR
from conf.errors import ConfigError, Finding
from tuner.cli import fabric_options

DEFAULT_SOCKET = "/run/roceway/agent.sock"
_WORKERS_MAX = 64


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--socket", default=DEFAULT_SOCKET, metavar="PATH", help="of root alone (%(default)s)")
    parser.add_argument("--state-dir", default=DEFAULT_STATE_DIR, metavar="DIR", help="the plugin's (%(default)s)")
    parser.add_argument(
        "--workers",
        type=int,
        default=8,
        metavar="N",
        help="requests worked on at once, at most (%(default)s; the kernel does most of them one after the other)",
    )
    parser.add_argument("--trace", action="store_true", help="log where each request's milliseconds went")
    fabric_options(parser, required=False)
    node_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Serve; 0 after SIGTERM."""
    from cni.agent.parts import Setting
    from cni.agent.resident import Agent, Options

    _checked(options)
    _log_to_stderr()
    setting = Setting(
        socket=options.socket,
        state_dir=options.state_dir,
        fabric=str(options.fabric.resolve()) if options.fabric else "",
        node=options.node,
        options={name: value for name, value in vars(options).items() if name not in ("fabric", "socket", "state_dir")},
    )
    return Agent(Options(setting, options.workers, options.trace), dict(os.environ)).run()


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _checked(options: argparse.Namespace) -> None:
    """Everything that is wrong with the command line at once."""
    findings = [
        Finding(f"--{name.replace('_', '-')}", f"{getattr(options, name)!r} is no absolute path")
        for name in ("socket", "state_dir")
        if not os.path.isabs(getattr(options, name))
    ]
    if not 1 <= options.workers <= _WORKERS_MAX:
        findings.append(Finding("--workers", f"must be 1 to {_WORKERS_MAX}"))
    if options.fabric is not None and not Path(options.fabric).is_file():
        findings.append(Finding("-f", f"{options.fabric} is no file"))
    if os.geteuid() != 0:
        findings.append(Finding("", "roceway-agent needs root: it changes the network namespaces of pods"))
    if findings:
        raise ConfigError("roceway-agent run", findings)
