"""``roceway-probe report``: what was found, for people and for monitoring."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric, load
from host.errors import HostError
from nccltest.commands.judge import history_option
from nccltest.commands.locate import read
from nccltest.conclude import Conclusion, by_run, conclude
from nccltest.history import History
from nccltest.locate.cabling import Cabling, from_fabric
from nccltest.summary import summary
from tuner.cli import fabric_options, json_option
from tuner.exits import BAD_INPUT, DONE, FOUND

_TEXT = """
FILE holds measurements as JSON lines (`run` writes them); of several runs the latest is told. The history is read for
baselines and trends, and not changed.
  --html PAGE       one self-contained page: suspects, heatmap, trends, counters
  --textfile PROM   metrics for node_exporter's textfile collector
  --listen [HOST]:PORT   serve the history's latest run as metrics until interrupted (no FILE needed)
Alert rules and a Grafana dashboard for these metrics are in conf/deploy.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = f"{parser.description}\n{_TEXT}"
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="measurements, JSON lines; - for stdin")
    history_option(parser)
    parser.add_argument("--html", type=Path, metavar="PAGE", help="write a page")
    parser.add_argument("--textfile", type=Path, metavar="PROM", help="write metrics")
    parser.add_argument("--listen", metavar="[HOST]:PORT", help="serve metrics; without HOST on every address")
    fabric_options(parser, required=False, node=False)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """0: healthy. 1: something was found."""
    if options.listen:
        return _serve(options.history, *_address(options.listen))
    if options.file is None:
        print("roceway-probe report: a FILE is needed, unless --listen serves the history", file=sys.stderr)
        return BAD_INPUT
    fabric = load(options.fabric) if options.fabric else None
    runs = by_run(read(options.file))
    if not runs:
        raise ConfigError(str(options.file), [Finding("", "holds no measurements")])
    with History.open(options.history) if options.history.exists() else nullcontext() as history:
        conclusion = conclude(runs[-1], history=history, fabric=fabric)
        _write(conclusion, fabric, history, options)
    return DONE if conclusion.healthy else FOUND


def _write(conclusion: Conclusion, fabric: Fabric | None, history: History | None, options: argparse.Namespace) -> None:
    if options.html:
        from nccltest.report.page import page

        cabling = from_fabric(fabric) if fabric else Cabling({})
        _save(options.html, page(conclusion, cabling, history, fabric.probe.threshold / 100 if fabric else 0.04))
    if options.textfile:
        from nccltest.metrics import write

        write(options.textfile, summary(conclusion))
    if options.json:
        print(json.dumps(summary(conclusion), ensure_ascii=False))
    elif not (options.html or options.textfile):
        from nccltest.report.terminal import conclusion_table, show

        show(conclusion_table(conclusion))


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HostError("write", str(path), error.errno or 0) from None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise ConfigError("--listen", [Finding("", f"{text} is no address; write :9464 or 127.0.0.1:9464")])
    return host.strip("[]") or "::", int(port)


def _serve(path: Path, host: str, port: int) -> int:
    """Until interrupted. Each scrape reads the history anew."""
    from prometheus_client import start_http_server

    from nccltest.metrics import registry

    def latest() -> Mapping[str, Any]:
        with History.open(path, create=False) as history:
            return next((row.summary for row in history.runs(1)), {})

    latest()  # a history that cannot be read is told now, not at the first scrape
    try:
        server, _ = start_http_server(port, host, registry(latest))
    except OSError as error:
        raise HostError("listen on", f"{host} port {port}", error.errno or 0) from None
    print(f"roceway-probe report: metrics on port {server.server_port}", file=sys.stderr, flush=True)
    threading.Event().wait()
    return DONE
