"""Why it may be slow: a verdict joined with the counters that moved and with what NCCL logged. Pure.

Nothing is claimed without what was seen. Where counters were read and none speaks, that is told as well; where none
were read, nothing is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from conf.hostlist import expand
from nccltest.causetable import ROWS, Row, Seen
from nccltest.locate.cabling import Cabling
from nccltest.locate.pathstory import AS_BUILT
from nccltest.locate.verdict import Suspect, Verdict
from nccltest.model import Delta, Measurement, Remark

__all__ = ["Cause", "causes", "moved", "to_json"]

Nic = tuple[str, str]
"""Node and rail."""
_FAR = 4.0
"""A counter stands out at this many times the middle one of the other NICs, and a hundred at least."""
_LEAST = 100
_MOST = 64


@dataclass(frozen=True)
class Cause:
    """One probable cause in one place."""

    fault: int
    """The suspect's, from 1; 0 for what a log says although nobody is suspected for it."""
    kind: str
    """The suspect's; ``log`` for fault 0."""
    id: str
    row: str
    """Name of the table's row; empty: counters were read and none of them tells anything."""
    cause: str
    evidence: str
    look: tuple[str, ...] = ()
    """Rules of ``roceway-tune lint``, settings, parts."""
    next: str = ""
    """A command."""


def causes(
    verdict: Verdict, measurements: Sequence[Measurement], cabling: Cabling, priority: int | None = None
) -> tuple[Cause, ...]:
    """What may be behind each suspect, and what NCCL's log objects to; at most 64. ``priority``: the lossless class."""
    counted = moved(measurements)
    remarks = tuple(dict.fromkeys(remark for one in measurements for remark in one.remarks))
    accused = [each for each in verdict.suspects if each.id != AS_BUILT]
    told = [each for suspect in accused for each in _of(suspect, counted, cabling, priority)]
    return (*told, *_logged(remarks))[:_MOST]


def moved(measurements: Iterable[Measurement]) -> dict[Nic, dict[str, int]]:
    """How far each NIC's counters moved. Sizes of one round were measured between the same two readings."""
    seen: dict[tuple[object, ...], Delta] = {}
    for one in measurements:
        for delta in one.counters:
            seen[one.schedule, one.round, one.members, delta.node, delta.rail, delta.name] = delta
    total: dict[Nic, dict[str, int]] = {}
    for delta in seen.values():
        nic = total.setdefault((delta.node, delta.rail), {})
        nic[delta.name] = nic.get(delta.name, 0) + delta.value
    return total


def _of(
    suspect: Suspect,
    counted: Mapping[Nic, Mapping[str, int]],
    cabling: Cabling,
    priority: int | None,
) -> list[Cause]:
    nics = [nic for nic in counted if _belongs(nic, suspect, cabling)]
    others = [counts for nic, counts in counted.items() if nic not in nics]
    own = [counted[nic] for nic in nics]
    seen = Seen(suspect.kind, suspect.ratio, suspect.only_large, _sum(own), priority)
    found = [
        Cause(
            suspect.fault,
            suspect.kind,
            suspect.id,
            row.name,
            row.cause,
            "; ".join(signs),
            row.look,
            _next(row, suspect),
        )
        for row in ROWS
        if (signs := [*_counters(row, own, others), *_shape(row, seen)])
    ]
    if nics and not any(_speaks(row, found) for row in ROWS):
        where = "/".join(nics[0]) if len(nics) == 1 else f"its {len(nics)} NICs"
        found.append(Cause(suspect.fault, suspect.kind, suspect.id, "", "", f"no counter of a fault moved on {where}"))
    return found


def _next(row: Row, suspect: Suspect) -> str:
    """On which host, where there is one; names are other people's, so the shell sees them quoted."""
    node, _, rail = suspect.id.partition("/")
    text = row.next.replace("RAIL", shlex.quote(rail)) if suspect.kind == "nic" else row.next
    return f"on {node}: {text}" if suspect.kind in ("node", "nic") and text.startswith("roceway-tune") else text


def _speaks(row: Row, found: Sequence[Cause]) -> bool:
    return bool(row.counters) and any(each.row == row.name for each in found)


def _belongs(nic: Nic, suspect: Suspect, cabling: Cabling) -> bool:
    node, rail = nic
    match suspect.kind:
        case "node":
            return node == suspect.id
        case "nic":
            return f"{node}/{rail}" == suspect.id
        case "leaf" | "uplink":
            return cabling.leaf.get(nic) == suspect.id or f"{node}/{rail}" in _members(suspect.id)
        case _:
            return True


def _members(id: str) -> frozenset[str]:
    """Of a leaf that was guessed: it is called by its NICs, ``gpu-[1-8]/rail0``."""
    nodes, slash, rail = id.partition("/")
    try:
        return frozenset(f"{node}/{rail}" for node in expand(nodes)) if slash else frozenset()
    except ValueError:
        return frozenset()


def _sum(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, value in each.items():
            total[name] = total.get(name, 0) + value
    return total


def _counters(row: Row, own: Sequence[Mapping[str, int]], others: Sequence[Mapping[str, int]]) -> list[str]:
    """``out_of_sequence +120``: what moved of the row's, so far as it means something."""
    if not row.counters:
        return []
    names = [name for name in sorted(_sum(own)) if re.fullmatch(row.counters, name)]
    return [text for name in names if (text := _sign(row, name, own, others))]


def _sign(row: Row, name: str, own: Sequence[Mapping[str, int]], others: Sequence[Mapping[str, int]]) -> str:
    total = sum(each.get(name, 0) for each in own)
    if total <= 0:
        return ""  # a counter that was reset says nothing
    if row.sign == "any":
        return f"{name} +{total}"
    if not others:
        return ""  # nothing to stand out from
    here, usual = median(each.get(name, 0) for each in own), median(each.get(name, 0) for each in others)
    return f"{name} +{here:.0f}, others +{usual:.0f}" if here >= max(_LEAST, _FAR * usual) else ""


def _shape(row: Row, seen: Seen) -> list[str]:
    text = row.shape(seen) if row.shape else ""
    return [text] if text else []


def _logged(remarks: Sequence[Remark]) -> list[Cause]:
    """One cause for each row that remarks speak of, with its places together."""
    found = []
    for row in ROWS:
        said = [remark for remark in remarks if remark.rule in row.remarks]
        if said:
            where = ", ".join(dict.fromkeys(remark.where for remark in said[:4])) + (", …" if len(said) > 4 else "")
            text = "; ".join(dict.fromkeys(f"{remark.rule}: {remark.text}" for remark in said[:4]))
            found.append(Cause(0, "log", where, row.name, row.cause, text, row.look, row.next))
    return found


def to_json(cause: Cause) -> dict[str, Any]:
    """JSON values, the fields by their names."""
    return {**asdict(cause), "look": list(cause.look)}
