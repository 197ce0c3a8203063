"""``prove``: shows with packets what a rail does to each class, in both directions."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric, load
from conf.node import node as share
from conf.qos import Qos
from conf.switches import Switch as Described
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE, FOUND
from tuner.prove import LONGEST, OUT, Marking, Plan, markings
from tuner.prove_report import Findings, SwitchPort, findings, hint, to_json

_ABOUT = """
On one host, then on the other:

  roceway-tune prove --listen --device eth2
  roceway-tune prove --to 10.200.0.2 --device eth2

Probes look like RoCEv2 (UDP 4791) and carry in their payload the DSCP and ECN bits that they were sent with. For every
class and both directions the table says what arrived, arrived changed, or did not arrive, beside the counters of both
NICs. With -f fabric.yaml and --rail the NIC and the classes are fabric.yaml's, and the counters of the switch port are
read too, where its source is a running switch.

The two ends talk over TCP port 4792, on the rail itself or, with --control, over another network: needed where the
rail works in one direction only. The listener serves one sender and ends.

While an RDMA device is up on the listening NIC, its firmware may keep UDP 4791 to itself, and all seems dropped;
--port 4790 has the same class and is left to the kernel.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--listen", action="store_true", help="wait for a sender")
    end.add_argument("--to", metavar="ADDRESS", help="the listener's address on the rail")
    parser.add_argument("--device", metavar="NIC", help="netdev or PCI address (default: --rail's)")
    fabric_options(parser, required=False)
    parser.add_argument("--rail", metavar="NAME", help="a rail of fabric.yaml")
    parser.add_argument("--control", metavar="ADDRESS", help="where the listener is talked to (default: on the rail)")
    parser.add_argument("--control-port", type=int, default=4792, metavar="PORT", help="(default: %(default)s)")
    parser.add_argument("--ipv6", action="store_true", help="probe the rail's IPv6 addresses")
    parser.add_argument(
        "--dscp", metavar="LIST", help="such as 26,48,0 (default: fabric.yaml's or the default profile's)"
    )
    parser.add_argument(
        "--count", type=int, default=100, help="probes of each class and direction (default: %(default)s)"
    )
    parser.add_argument("--size", type=int, default=1024, help="bytes of payload (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=2000, help="probes per second (default: %(default)s)")
    parser.add_argument("--port", type=int, default=4791, help="UDP port of the probes (default: %(default)s, RoCEv2)")
    parser.add_argument(
        "--wait", type=float, default=300, metavar="SECONDS", help="for a sender (default: %(default)s)"
    )
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Listen, or send and report. 1 where a class did not come through as it was sent."""
    fabric = load(options.fabric) if options.fabric else None
    device = _device(options, fabric)
    return _listen(options, device) if options.listen else _prove(options, device, fabric)


def _device(options: argparse.Namespace, fabric: Fabric | None) -> str:
    if options.device:
        return str(options.device)
    if fabric is None or not options.rail:
        raise ConfigError("prove", [Finding("--device", "is wanted, or -f fabric.yaml and --rail")])
    rails = {rail.name: rail.nic for rail in share(fabric, options.node).rails}
    if options.rail not in rails:
        raise ConfigError("prove", [Finding("--rail", f"{options.rail} is none of {', '.join(rails)}")])
    if rails[options.rail] == "auto":
        raise ConfigError(
            "prove", [Finding("--rail", f"{options.rail} has no NIC in fabric.yaml (auto); give --device")]
        )
    return rails[options.rail]


def _listen(options: argparse.Namespace, device: str) -> int:
    from tuner import prove_frames, prove_link  # scapy and pyroute2: half a second that --help does not pay

    mine = prove_frames.nic(device, 6 if options.ipv6 else 4)
    control = options.control or str(mine.address)
    print(
        f"listening on {mine.name} ({mine.address}); waiting at {control} port {options.control_port}", file=sys.stderr
    )
    peer, plan = prove_link.listen(mine, (control, options.control_port), options.wait)
    done = {"peer": peer, "markings": len(plan.markings), "count": plan.count}
    print(
        json.dumps(done)
        if options.json
        else f"exchanged {plan.count} probes of {len(plan.markings)} classes with {peer}"
    )
    return DONE


def _prove(options: argparse.Namespace, device: str, fabric: Fabric | None) -> int:
    plan = _plan(options, fabric.qos if fabric else Qos.model_validate({}))
    from tuner import prove_frames, prove_link  # as above

    mine = prove_frames.nic(device, 6 if options.ipv6 else 4)
    look = _switch(options, fabric)
    before = look() if look else None
    exchange = prove_link.prove(mine, plan, (options.control or options.to, options.control_port))
    after = look() if look else None
    switch = SwitchPort(before[0], before[1], after[1]) if before and after else None
    tallies = (exchange.out, exchange.back)
    found = findings(plan, tallies, exchange.missed, exchange.before, exchange.after, switch)
    if options.json:
        print(json.dumps(to_json(found)))
    else:
        _show(found, f"{mine.name} {mine.address}", options.to)
    return DONE if found.well else FOUND


def _plan(options: argparse.Namespace, qos: Qos) -> Plan:
    """The plan that the options ask for. ConfigError with every mistake."""
    wrong = [
        Finding(f"--{name}", f"is from {low} to {high}")
        for name, low, high in (("count", 1, 100_000), ("size", 32, 8192), ("rate", 1, 1_000_000), ("port", 1, 65535))
        if not low <= getattr(options, name) <= high
    ]
    wanted = markings(qos)
    if options.dscp is not None:
        numbers = [int(word) if word.isascii() and word.isdigit() else -1 for word in options.dscp.split(",")]
        if not all(0 <= number <= 63 for number in numbers):
            wrong.append(Finding("--dscp", f"{options.dscp} is not a list of numbers from 0 to 63"))
        wanted = tuple(Marking(dscp, ecn) for dscp in dict.fromkeys(numbers) for ecn in (0, 2, 3))
    if not wrong:
        plan = Plan(secrets.token_bytes(8), wanted, options.count, options.size, options.rate, options.port)
        if plan.seconds <= LONGEST:
            return plan
        wrong.append(Finding("--rate", f"sending would last {plan.seconds:.0f} s; at most {LONGEST}"))
    raise ConfigError("prove", wrong)


def _switch(options: argparse.Namespace, fabric: Fabric | None) -> Callable[[], tuple[str, Any] | None] | None:
    """How to read the counters of the switch port that the rail is plugged into; None where there is no way."""
    found = _attached(fabric, options.node, options.rail) if fabric and options.rail and options.fabric else None
    if found is None:
        return None
    described, port = found
    from tuner.switch.load import load as load_switch

    def look() -> tuple[str, Any] | None:
        switch = load_switch(described, options.fabric.parent)
        known = switch.ports.get(port) if switch else None
        if known is None or known.counters is None:
            print(f"roceway-tune: {described.name} {port}: no counters could be read", file=sys.stderr)
            return None
        return f"{described.name} {port}", known.counters

    return look


def _attached(fabric: Fabric, node: str, rail: str) -> tuple[Described, str] | None:
    """The running switch that a node's rail is plugged into, and the port."""
    for switch in fabric.switches:
        if switch.source is not None and switch.source.file is None:
            for attachment in switch.attachments():
                if (attachment.node, attachment.rail) == (node, rail):
                    return switch, attachment.port
    return None


# --- for people ----------------------------------------------------------------------------------------------------


def _show(found: Findings, mine: str, to: str) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("direction", "DSCP", "ECN"):
        table.add_column(name)
    for name in ("sent", "arrived", "CE marks"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    ecn = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
    for result in found.results:
        way = f"{mine} → {to}" if result.way == OUT else f"{to} → {mine}"
        marks = str(result.congested) if result.congested else ""
        style = "" if result.verdict == "ok" else "red"
        words = [way, str(result.sent_as.dscp), ecn[result.sent_as.ecn], str(result.sent), str(result.arrived), marks]
        table.add_row(*words, _verdict(result), style=style)
    console.print(table)
    for text in dict.fromkeys(text for result in found.results if (text := hint(result))):
        console.print(f"  {text}")
    _show_counters(console, found)
    console.print(
        "every class comes through as it is sent" if found.well else "the rail changes or drops what it carries"
    )


def _verdict(result: Any) -> str:
    if result.verdict == "re-marked":
        changes = ", ".join(f"{count} as {marking}" for marking, count in result.remarked[:3])
        return f"re-marked: {changes}"
    return f"{result.lost} lost" if result.verdict == "lost" else str(result.verdict)


def _show_counters(console: Console, found: Findings) -> None:
    for name, missed in zip(("listener", "sender"), found.missed, strict=True):
        if missed:
            console.print(f"  the {name} was too slow for {missed} frames itself: ask for a lower --rate")
    for name, changes in (("sender", found.sender), ("listener", found.listener)):
        if not changes:
            console.print(f"  {name}'s NIC: its driver has no counters per priority, or none moved")
        for counter, by in changes.items():
            each = ", ".join(f"priority {priority}: +{count}" for priority, count in by.items())
            console.print(f"  {name}'s NIC {counter}: {each}")
    for counter, by in found.switch.items():
        if counter != "port":
            each = ", ".join(f"{at}: +{count}" for at, count in by.items())
            console.print(f"  {found.switch['port']} {counter}: {each}")
