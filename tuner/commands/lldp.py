"""``lldp``: what a NIC is plugged into, and what that switch port says of its PFC and classes by DCBX."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric, load
from conf.node import node as share
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE, FOUND
from tuner.lldp import DSCP, ETHERTYPE, STREAM, TSA, UDP, Ets, Lldp

_ABOUT = """
  roceway-tune lldp --device eth2                          listen on a NIC (root); a switch speaks every 30 s
  roceway-tune lldp --capture frames.pcap                  a capture file instead
  roceway-tune lldp -f fabric.yaml --rail rail0            is it the switch and port of fabric.yaml?

DCBX is what both ends tell each other about PFC, ETS and applications (IEEE 802.1Qaz); "willing" takes the other end's
settings over. CEE is its predecessor, which IEEE speakers do not understand.

exit codes: 0 heard, and as fabric.yaml says; 1 nothing heard, or another switch or port; 2 bad input; 3 refused"""

_SELECTORS = {ETHERTYPE: "ethertype", STREAM: "TCP or SCTP", UDP: "UDP", 4: "port", DSCP: "DSCP"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _ABOUT
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--device", metavar="NETDEV", help="listen here (default: --rail's)")
    source.add_argument("--capture", type=Path, metavar="FILE", help="read a pcap or pcapng file")
    fabric_options(parser, required=False)
    parser.add_argument("--rail", metavar="NAME", help="a rail of fabric.yaml: its cabling is checked")
    parser.add_argument(
        "--wait", type=float, default=35, metavar="SECONDS", help="listen so long (default: %(default)s)"
    )
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Listen or read, print, and compare. 1 where nothing is heard or the cabling is another."""
    fabric = load(options.fabric) if options.fabric else None
    if options.rail and fabric is None:
        raise ConfigError("lldp", [Finding("--rail", "needs -f fabric.yaml")])
    heard = tuple(dict.fromkeys(_frames(options, fabric)))
    wanted = _cabling(fabric, options.node, options.rail) if fabric and options.rail else None
    wrong = [each for each in heard if wanted and (each.system, each.port) != wanted]
    if options.json:
        print(json.dumps({"heard": [_values(each) for each in heard], "as_cabled": not wrong if wanted else None}))
    else:
        _show(heard, wanted)
    return FOUND if wrong or not heard else DONE


def _frames(options: argparse.Namespace, fabric: Fabric | None) -> Iterable[Lldp]:
    device = None if options.capture else options.device or _nic(options, fabric)
    from tuner import wire  # scapy: half a second that --help does not pay

    if device is None:
        return wire.read_capture(options.capture)
    return _first(wire.listen_lldp(device, options.wait))


def _first(frames: Iterator[Lldp]) -> Iterator[Lldp]:
    """A cable has one other end: the first frame tells."""
    for frame in frames:
        yield frame
        return


def _nic(options: argparse.Namespace, fabric: Fabric | None) -> str:
    """The netdev of a rail, where fabric.yaml names one."""
    rails = {rail.name: rail.nic for rail in share(fabric, options.node).rails} if fabric and options.rail else {}
    name = rails.get(options.rail, "")
    if not name or name == "auto" or ":" in name:
        raise ConfigError("lldp", [Finding("--device", "is wanted: fabric.yaml does not name the netdev")])
    return name


def _cabling(fabric: Fabric, node: str, rail: str) -> tuple[str, str]:
    """Switch and port that a rail is plugged into. ConfigError where fabric.yaml does not tell."""
    for switch in fabric.switches:
        for cable in switch.attachments():
            if (cable.node, cable.rail) == (node, rail):
                return switch.name, cable.port
    raise ConfigError(fabric.metadata.name, [Finding("switches", f"none has a port for {node}/{rail}")])


def _values(lldp: Lldp) -> dict[str, Any]:
    values = asdict(lldp)
    if lldp.pfc is not None:
        values["pfc"]["enabled"] = sorted(lldp.pfc.enabled)
    return values | {"dcbx": "ieee" if lldp.ieee else "cee" if lldp.cee else None}


def _show(heard: tuple[Lldp, ...], wanted: tuple[str, str] | None) -> None:
    if not heard:
        print("no LLDP frame was heard: LLDP is off on the switch, or the NIC's firmware keeps it (L05, H12)")
    for lldp in heard:
        print(f"{lldp.system or lldp.chassis} {lldp.port}" + (f" ({lldp.description})" if lldp.description else ""))
        if wanted and (lldp.system, lldp.port) != wanted:
            print(f"  fabric.yaml has this cable at {wanted[0]} {wanted[1]} (L11)")
        for line in _dcbx(lldp):
            print(f"  {line}")


def _dcbx(lldp: Lldp) -> Iterator[str]:
    if lldp.cee:
        yield "DCBX: CEE, which 802.1Qaz does not understand (L06)"
    if not lldp.ieee:
        yield "DCBX: no IEEE 802.1Qaz"
        return
    if lldp.pfc is not None:
        priorities = ", ".join(str(each) for each in sorted(lldp.pfc.enabled)) or "none"
        willing = "willing" if lldp.pfc.willing else "not willing"
        yield f"PFC: priorities {priorities} (at most {lldp.pfc.capability}); {willing}"
    for name, ets in (("ETS", lldp.ets), ("ETS recommended", lldp.recommended)):
        if ets is not None:
            yield f"{name}: {_ets(ets)}"
    for app in lldp.apps or ():
        yield f"application: {_SELECTORS.get(app.selector, app.selector)} {app.protocol} has priority {app.priority}"


def _ets(ets: Ets) -> str:
    """``class 0 (priorities 0,1,2): 50% ets; class 3 (priorities 3): 50% ets``."""
    parts = []
    for tc in sorted({*ets.classes}):
        members = ",".join(str(priority) for priority, own in enumerate(ets.classes) if own == tc)
        kind = TSA.get(ets.algorithms[tc], str(ets.algorithms[tc])) if tc < 8 else "?"
        share = f"{ets.bandwidth[tc]}% " if tc < 8 and kind == "ets" else ""
        parts.append(f"class {tc} (priorities {members}) {share}{kind}")
    return "; ".join(parts)
