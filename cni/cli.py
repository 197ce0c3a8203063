"""The command line of ``roceway-cni`` when no runtime calls it."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

from cni import install, inventory, report, show
from cni.render import is_auto, paired, render
from cni.spec import DEFAULT_STATE_DIR, Json
from cni.store import Store
from cni.topology import rails_auto
from conf.errors import ConfigError, Finding
from conf.fabric import load
from conf.node import Node, node
from tuner.cli import Version
from tuner.exits import DONE, FOUND, guarded

__all__ = ["run"]

_EPILOG = """\
With CNI_COMMAND in the environment this program is a CNI plugin (ADD, DEL, CHECK, GC, STATUS, VERSION; spec 0.3.0 to
1.1.0) and reads its configuration from stdin.

exit codes: 0 done; 1 something was found; 2 bad input; 3 the host refused
"""


def run(arguments: list[str]) -> int:
    """Run a subcommand; the exit code."""
    options = _parser().parse_args(arguments)
    if options.action is None:
        _parser().print_help(sys.stderr)
        return 2
    return guarded("roceway-cni", lambda: int(options.action(options)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="roceway-cni",
        description="Attaches every RoCE rail of a pod in one invocation, chained after any primary CNI plugin.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=Version, help="say which release this is")
    parser.set_defaults(action=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _fabric_command(commands, "render", "print the conflist entry of a node", _render)
    for name, text, action in (
        ("install", "put plugin and configuration on this node", _install),
        ("uninstall", "take plugin and configuration off this node", _uninstall),
    ):
        command = _fabric_command(commands, name, text, action)
        command.add_argument(
            "--bin-dir", type=Path, default=Path("/opt/cni/bin"), help="the runtime's plugins (%(default)s)"
        )
        command.add_argument("--conf-dir", type=Path, default=Path("/etc/cni/net.d"), help="its networks (%(default)s)")
        command.add_argument(
            "--network", help="chain after this network (default: the one that the runtime takes first)"
        )
        command.add_argument("--dry-run", action="store_true", help="print what would be written")
        command.add_argument("--json", action="store_true", help="machine output")
        if name == "install":
            command.add_argument(
                "--method",
                choices=("auto", "drop-in", "merge"),
                default="auto",
                help="drop-in: a file of our own beside the network's conflist (libcni 1.3 and later); merge: into the "
                "conflist, with a backup; auto asks the runtime's binary (default)",
            )
            command.add_argument(
                "--plugin",
                choices=("auto", "compiled", "python"),
                default="auto",
                help="compiled: a program that needs nothing of the host; python: a launcher for the Python that runs "
                "this, which must be on the host; auto: compiled, unless it was not built (default)",
            )
            command.add_argument(
                "--runtime", type=Path, help="the runtime's binary (default: containerd or crio on PATH)"
            )
    for name, text, action in (
        ("state", "show attachments, leases and unfinished journals", _state),
        ("explain", "what a container was given, why, and what is wrong with it now (exit 1)", _explain),
    ):
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        command.set_defaults(action=action)
        command.add_argument("--state-dir", type=Path, default=Path(DEFAULT_STATE_DIR), help="(%(default)s)")
        command.add_argument("--json", action="store_true", help="machine output")
        if name == "explain":
            command.add_argument("container", metavar="CONTAINERID", help="its id, or a unique beginning of it")
    return parser


def _fabric_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, action: object
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    command.set_defaults(action=action)
    if name != "uninstall":
        command.add_argument("-f", "--fabric", type=Path, required=True, metavar="FILE", help="fabric.yaml")
        command.add_argument(
            "--node", default=platform.node(), metavar="NAME", help="(default: this host, %(default)s)"
        )
    return command


def _entry(options: argparse.Namespace) -> tuple[Json, str | None]:
    fabric = load(options.fabric)
    wanted = node(fabric, options.node)
    if is_auto(wanted):
        wanted = _paired_here(wanted)
    return render(fabric, wanted), fabric.cni.network


def _paired_here(wanted: Node) -> Node:
    """NICs of ``rails: auto`` are found on the host that this runs on; each pair and its distance is told."""
    host = inventory.read()
    outcome = rails_auto([rail.name for rail in wanted.rails], host.gpus, host.nics, host.tree)
    found = paired(wanted, outcome)
    print(f"roceway-cni: rails: auto, as this host ({platform.node()}) is built:", file=sys.stderr)
    for each in outcome.rails:
        gpu = f"{each.gpu} {each.distance.name}" if each.gpu and each.distance else "no GPU"
        print(f"  {each.rail}: {each.nic} ({gpu})", file=sys.stderr)
    for finding in outcome.findings:
        print(f"  {finding}", file=sys.stderr)
    return found


def _render(options: argparse.Namespace) -> int:
    print(json.dumps(_entry(options)[0], indent=2))
    return DONE


def _install(options: argparse.Namespace) -> int:
    entry, network = _entry(options)
    primary = install.conflist(options.conf_dir, options.network or network)
    if entry["resultIPs"] == "all" and install.is_crio(options.runtime):
        print(
            "roceway-cni: CRI-O checks the primary plugin after every ADD, and plugins such as bridge fail when the "
            "result holds other interfaces' addresses: set cni.resultIPs: none in fabric.yaml",
            file=sys.stderr,
        )
    drop_in = options.method == "drop-in" or (options.method == "auto" and install.reads_drop_ins(options.runtime))
    plugin = install.plan_plugin(options.bin_dir, _program(options.plugin))
    return _carry_out(options, install.plan_install(entry, primary, plugin, drop_in=drop_in), primary)


def _program(choice: str) -> bytes | None:
    if choice == "python":
        return None
    program = install.compiled()
    if program is None and choice == "compiled":
        raise ConfigError("--plugin", [Finding("", "this roceway was built without a C compiler: it holds no plugin")])
    if program is None:
        print(
            f"roceway-cni: built without a C compiler: the plugin will need {sys.executable} on this host",
            file=sys.stderr,
        )
    return program


def _uninstall(options: argparse.Namespace) -> int:
    primary = install.conflist(options.conf_dir, options.network)
    return _carry_out(options, install.plan_uninstall(primary, options.bin_dir), primary)


def _carry_out(options: argparse.Namespace, changes: list[install.Change], primary: install.Conflist) -> int:
    if not options.dry_run:
        install.apply(changes)
    if options.json:
        written = [{"path": str(each.path), "removed": each.content is None} for each in changes]
        print(json.dumps({"network": primary.name, "changes": written, "dry_run": options.dry_run}))
        return DONE
    for change in changes:
        print(f"{'would ' if options.dry_run else ''}{change}")
    if not changes:
        print(f"nothing to do: network {primary.name} is as it should be")
    return DONE


def _state(options: argparse.Namespace) -> int:
    store = Store.open(str(options.state_dir), create=False)
    if store is None:
        told = report.NO_STATE
    else:
        with store:
            told = report.state(store)
    if options.json:
        print(json.dumps(told))
    else:
        show.state(told)
    return DONE


def _explain(options: argparse.Namespace) -> int:
    store = Store.open(str(options.state_dir), create=False)
    if store is None:
        raise ConfigError("--state-dir", [Finding("", f"{options.state_dir} holds no state: nothing was attached yet")])
    with store:
        told = report.explain(store, report.find(store, options.container))
    if options.json:
        print(json.dumps(told))
    else:
        show.explanation(told)
    return FOUND if told["problems"] else DONE
