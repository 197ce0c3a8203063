"""The command line that all of roceway's ordinary tools share: one table of commands, one module per command.

A command's module is imported only when it is called, so that ``roceway-tune show`` does not pay for scapy or Redis.
It offers ``arguments(parser)``, which declares its options, and ``run(options)``, which returns the exit code.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from tuner.exits import BAD_INPUT, guarded, mend_streams

__all__ = ["Program", "Version", "fabric_options", "json_option", "run"]

_EXITS = "exit codes: 0 done; 1 something was found; 2 bad input; 3 the host, switch or launcher refused"


class Program(NamedTuple):
    """A tool: its name, what it is for, and its commands (name -> one line of help) in the order that help shows."""

    name: str
    purpose: str
    package: str  # where the commands' modules are, e.g. "tuner.commands"
    commands: Mapping[str, str]


class _Command(Protocol):
    def arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> int: ...


def run(program: Program, arguments: Sequence[str]) -> int:
    """Run one command of the program; the exit code (see ``tuner.exits``)."""
    return guarded(program.name, lambda: _run(program, arguments))


def _run(program: Program, arguments: Sequence[str]) -> int:
    mend_streams()
    parser = argparse.ArgumentParser(prog=program.name, description=program.purpose, epilog=_EXITS)
    parser.add_argument("--version", action=Version, help="say which release this is")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    chosen: _Command | None = None
    name = next((word for word in arguments if not word.startswith("-")), None)
    for each, text in program.commands.items():
        command = commands.add_parser(
            each, help=text, epilog=_EXITS, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if each == name:
            chosen = cast(_Command, importlib.import_module(f"{program.package}.{each.replace('-', '_')}"))
            command.description = f"{text[0].upper()}{text[1:]}."
            chosen.arguments(command)
    options = parser.parse_args(list(arguments))
    if chosen is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    return chosen.run(options)


class Version(argparse.Action):
    """Looked up where it is asked for: reading the installed metadata takes longer than most commands."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"{parser.prog} {version('roceway')}")
        parser.exit()


def fabric_options(parser: argparse.ArgumentParser, *, required: bool = True, node: bool = True) -> None:
    """``-f fabric.yaml`` and ``--node NAME``: the same words on every command that needs them."""
    parser.add_argument("-f", "--fabric", type=Path, required=required, metavar="FILE", help="fabric.yaml")
    if node:
        parser.add_argument("--node", default=platform.node(), metavar="NAME", help="(default: this host, %(default)s)")


def json_option(parser: argparse.ArgumentParser) -> None:
    """``--json``: machine output on stdout and nothing else there."""
    parser.add_argument("--json", action="store_true", help="machine output")
