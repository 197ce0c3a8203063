"""``headroom``: how many bytes a lossless priority needs behind its pause threshold, and whether ECN comes first."""

from __future__ import annotations

import argparse
import json
import re
from fractions import Fraction
from typing import Any

from conf.errors import ConfigError, Finding
from conf.units import format_length, format_speed, parse_bytes, parse_length, parse_speed
from tuner.cli import json_option
from tuner.exits import DONE, FOUND
from tuner.headroom import ASICS, MODELS, EcnFirst, Headroom, ecn_first, reckon

_ABOUT = """
Three models: sonic-static is what SONiC's shipped pg_profile_lookup.ini tables hold (Spectrum switches, MTU 9216);
sonic-dynamic is what SONiC's buffer manager works out, which depends on the ASIC; mlx5 is what a ConnectX reserves on
a host.

  roceway-tune headroom --model sonic-static --speed 400G --cable 40m
  roceway-tune headroom --model sonic-dynamic --speed 400G --cable 40m --asic spectrum-3 --explain
  roceway-tune headroom --model mlx5 --speed 400G --cable 3m --mtu 9000 --json

With --buffer it also says whether Kmin comes before the pause: exit 1 if it does not.

  roceway-tune headroom --model sonic-dynamic --speed 400G --cable 40m --buffer 60MiB --alpha 1/8 --incast 8 --kmin 1MiB
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--speed", required=True, metavar="400G")
    parser.add_argument("--cable", required=True, metavar="40m", help="its length")
    parser.add_argument("--mtu", type=int, default=9216, metavar="BYTES", help="(default: %(default)s)")
    parser.add_argument(
        "--asic", choices=tuple(ASICS), default="spectrum-4", help="sonic-dynamic (default: %(default)s)"
    )
    parser.add_argument("--explain", action="store_true", help="print the terms")
    parser.add_argument("--buffer", metavar="SIZE", help="the switch's shared pool, such as 60MiB")
    parser.add_argument(
        "--alpha", default="1/8", metavar="1/8", help="dynamic threshold's share (default: %(default)s)"
    )
    parser.add_argument("--incast", type=int, default=1, metavar="N", help="senders at once (default: %(default)s)")
    parser.add_argument("--kmin", default="1MiB", metavar="SIZE", help="where marking starts (default: %(default)s)")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Reckon and print."""
    findings: list[Finding] = []
    speed = _read(parse_speed, options.speed, "--speed", findings)
    metres = _read(parse_length, options.cable, "--cable", findings)
    pool = _read(parse_bytes, options.buffer, "--buffer", findings) if options.buffer else None
    kmin = _read(parse_bytes, options.kmin, "--kmin", findings)
    alpha = _read(_alpha, options.alpha, "--alpha", findings)
    findings += _impossible(options)
    if findings:
        raise ConfigError("headroom", findings)
    try:
        found = reckon(options.model, speed, metres, options.mtu, options.asic)
        first = None if pool is None else ecn_first(pool, alpha, options.incast, kmin, found.xoff_bytes)
    except ValueError as error:
        raise ConfigError("headroom", [Finding("", str(error))]) from None
    values = _values(options, found, first)
    print(json.dumps(values, indent=2) if options.json else _text(options, found, first))
    return DONE if first is None or first.first else FOUND


def _impossible(options: argparse.Namespace) -> list[Finding]:
    findings = []
    if options.speed.strip("0. MGT") == "":
        findings.append(Finding("--speed", f"{options.speed} is no speed of a link"))
    if not 64 <= options.mtu <= 65535:
        findings.append(Finding("--mtu", f"{options.mtu} is no MTU; it is 64 to 65535 bytes"))
    if options.model == "sonic-static" and options.mtu != 9216:
        findings.append(Finding("--mtu", "SONiC's static tables are made for 9216; --model sonic-dynamic takes any"))
    return findings


def _alpha(text: str) -> Fraction:
    """A share: ``1/8``, ``0.125``, ``2``. ValueError otherwise; an exponent could be a number that fills the memory."""
    if not re.fullmatch(r"[0-9]{1,6}(/[0-9]{1,6}|\.[0-9]{1,6})?", text):
        raise ValueError(f"{text[:40]} is no share; write it as 1/8 or 0.125")
    return Fraction(text)


def _read(parse: Any, text: str, where: str, findings: list[Finding]) -> Any:
    try:
        return parse(text)
    except ZeroDivisionError:
        findings.append(Finding(where, f"{text} divides by zero"))
    except ValueError as error:
        findings.append(Finding(where, str(error)))
    return None


def _values(options: argparse.Namespace, found: Headroom, first: EcnFirst | None) -> dict[str, Any]:
    terms = [{"name": term.name, "bytes": float(term.bytes), "how": term.how} for term in found.terms]
    values: dict[str, Any] = {
        "model": found.model,
        "xoff_bytes": found.xoff_bytes,
        "cell_factor": float(found.factor),
        "terms": terms,
    }
    if options.model == "sonic-dynamic":
        values["asic"] = options.asic
    if first is not None:
        values["ecn"] = {
            "trigger_bytes": first.trigger_bytes,
            "paper_bound_bytes": first.paper_bytes,
            "kmin_bytes": first.kmin_bytes,
            "ecn_first": first.first,
            "ecn_always_first": first.always,
        }
    return values


def _text(options: argparse.Namespace, found: Headroom, first: EcnFirst | None) -> str:
    what = f"{format_speed(_speed(options))} over {format_length(parse_length(options.cable))}"
    asic = f" on {options.asic}" if options.model == "sonic-dynamic" else ""
    lines = [f"{found.model}{asic}, {what}, MTU {options.mtu}: xoff {found.xoff_bytes:,} B"]
    if options.explain:
        lines += [f"  {float(term.bytes):>12,.1f} B  {term.name:<25} {term.how}" for term in found.terms]
        lines.append(f"  × cells: {float(found.factor):.4f}")
    if first is not None:
        verdict = "ECN comes first" if first.first else "PFC comes first: marking starts too late"
        lines += [
            f"{verdict}: Kmin {first.kmin_bytes:,} B, pauses with {options.incast} at once from"
            f" {first.trigger_bytes:,} B on. With all eight priorities in use (DCQCN paper, §4) Kmin would have to be"
            f" below {first.paper_bytes:,} B."
        ]
    return "\n".join(lines)


def _speed(options: argparse.Namespace) -> int:
    return parse_speed(options.speed)
