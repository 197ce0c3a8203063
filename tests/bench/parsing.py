"""How fast ``roceway-probe parse`` reads: megabytes a second on plain tables, debug logs and -J files."""

from __future__ import annotations

import json
import time

from rich.console import Console
from rich.table import Table

from nccltest.parse import parse_text
from tests.nccltest.parse.printed import STYLES, printed
from tests.nccltest.parse.test_json import document
from tests.nccltest.parse.test_versions import HOSTS, NOISE, table

_BYTES = 4_000_000


def rates() -> dict[str, float]:
    """MB a second of processor time, of each kind of log."""
    style = next(style for style in STYLES if style.name == "2.17.4")
    rows = table(style, 20)
    plain = printed(style, rows, HOSTS)
    noise = f"{NOISE}\n" * 400
    results = [{**document()["results"][0], "size": 8 << power} for power in range(20)]
    row = json.dumps(document(results=results * 400))
    logs = {
        "tables": plain * (_BYTES // len(plain)),
        "tables behind [1,0]<stdout>:": "".join(f"[1,0]<stdout>:{line}\n" for line in plain.splitlines()) * 1500,
        "NCCL_DEBUG=INFO": (plain + noise) * (_BYTES // len(plain + noise)),
        "-J JSON": row,
    }
    return {name: _rate(text) for name, text in logs.items()}


def _rate(text: str) -> float:
    best = min(_seconds(text) for _ in range(3))
    return len(text) / best / 1e6


def _seconds(text: str) -> float:
    start = time.process_time()
    parse_text(text, "bench")
    return time.process_time() - start


def parsing(console: Console) -> None:
    """Print the table."""
    made = Table(title="Reading nccl-tests logs", title_justify="left", box=None, pad_edge=False)
    made.add_column("log")
    made.add_column("MB/s", justify="right")
    for name, rate in rates().items():
        made.add_row(name, f"{rate:.0f}")
    console.print(made)
    console.print()
