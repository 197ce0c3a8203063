"""That nothing is left: what there was before the pods and what there is after them, compared as text."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

from tests.demo.caller import Caller
from tests.demo.process import inside
from tests.world import Ns

_TABLES = ("attachments", "leases", "claims")

COMPARED = (
    "- links, addresses, rules and routes of every host",
    "- roceway's attachments, leases and claims",
    "- containers, host-local addresses, cached CNI results, pod namespaces",
    "- processes in those namespaces",
)


def state(folder: Path) -> list[str]:
    """What roceway has written down, read without roceway: a line for every attachment, lease and claim."""
    path = folder / "state.db"
    if not path.exists():
        return []
    with sqlite3.connect(path) as database:
        rows = [(table, row) for table in _TABLES for row in database.execute(f"SELECT * FROM {table}")]
    database.close()
    return [f"{table}: {row}" for table, row in rows]


def snapshot(
    name: str, ns: Ns, folder: Path, caller: Caller, namespaces: frozenset[int], until: float = math.inf
) -> str:
    """All that could be left on a host. ``namespaces``: inode numbers of the pods', which began to end at ``until``."""
    lines = [
        *ns.snapshot().splitlines(),
        *(f"roceway {line}" for line in state(folder)),
        *(f"runtime {line}" for line in caller.remains()),
        *(f"process {pid} in the namespace of a pod" for pid in inside(namespaces, until)),
    ]
    return "\n".join(f"{name} {line}" for line in lines)


def lines(texts: Sequence[str]) -> int:
    """How many lines."""
    return sum(len(text.splitlines()) for text in texts)


def difference(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """The lines that came or went, with + or -; none when both are the same."""
    one, other = ("\n".join(texts).splitlines() for texts in (before, after))
    changes = unified_diff(one, other, n=0, lineterm="")
    return [line for line in changes if not line.startswith(("@@", "---", "+++"))]
