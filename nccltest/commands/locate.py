"""``roceway-probe locate``: name the slow node, NIC, leaf, uplink or spine."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from conf.errors import ConfigError, Finding
from conf.fabric import load
from nccltest.causes import causes
from nccltest.causes import to_json as cause_to_json
from nccltest.locate.cabling import Cabling, from_fabric
from nccltest.locate.verdict import locate, to_json
from nccltest.model import Measurement, read_measurements
from tuner.cli import fabric_options, json_option
from tuner.exits import DONE, FOUND

_TEXT = """
FILE holds measurements as JSON lines (`roceway-probe run` writes them); - is stdin. A line needs only
  {"test": "all_reduce", "size": 4294967296, "members": [{"node": "gpu-1", "rail": "rail0"}, …], "busbw": 46.1}
and "busbw": null with a "status" (failed, timeout, …) for a group that gave no result: that is evidence too.
Without "rail" a group used all rails of its nodes at once.

Two random matchings of the nodes (every node in one pair per matching, each rail on its own) usually name a NIC or a
node, four do so 99 times in 100. With -f fabric.yaml, leaves, uplinks and spines have names; without it, groups of
NICs that are slow together are guessed. Several suspects with the same number are one fault that could be in either
place: they need one more test that tells them apart, not a spare part.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = f"{parser.description}\n{_TEXT}"
    parser.add_argument("file", type=Path, metavar="FILE", help="measurements, JSON lines; - for stdin")
    fabric_options(parser, required=False, node=False)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """0: healthy. 1: something is slow."""
    fabric = load(options.fabric) if options.fabric else None
    cabling = from_fabric(fabric) if fabric else Cabling({})
    measurements = read(options.file)
    verdict = locate(measurements, cabling)
    why = causes(verdict, measurements, cabling, fabric.qos.lossless.priority if fabric else None)
    if options.json:
        print(json.dumps({**to_json(verdict), "causes": [cause_to_json(each) for each in why]}, ensure_ascii=False))
    else:
        from nccltest.report.terminal import show, verdict_table  # --json needs no rich

        show(verdict_table(verdict, why))
    return DONE if verdict.verdict == "healthy" else FOUND


def read(path: Path) -> tuple[Measurement, ...]:
    """The measurements in a file, or on stdin. ConfigError when it cannot be read or holds something else."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = data.decode()
    except OSError as error:
        raise ConfigError(name, [Finding("", f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError as error:
        raise ConfigError(name, [Finding("", f"is not UTF-8 text (byte {error.start})")]) from None
    return read_measurements(text, name)
