"""The entrance: measurements in, suspects with their confidence out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any, Literal

import numpy as np

from nccltest.locate.cabling import Cabling
from nccltest.locate.case import Case
from nccltest.locate.evidence import DEAD, gather
from nccltest.locate.hypotheses import build
from nccltest.locate.levels import USUAL_NOISE, levels
from nccltest.locate.offer import Fault
from nccltest.locate.pathstory import AS_BUILT, Path, path_doubt, path_note
from nccltest.locate.story import Touched, story
from nccltest.model import Measurement

__all__ = ["SURE", "Suspect", "Verdict", "locate", "to_json"]

SURE = 0.95
"""Confidence from which one suspect alone is blamed."""
_WORTH_NAMING = 0.02
"""Alternatives less likely than this are left out of an ambiguity set."""
_MOST_NAMED = 32
"""Suspects named of one fault."""
_NO_TOPOLOGY = Cabling({})
_LINE_RATE_SHARE = 0.6
"""Healthy RoCE gives 90 to 97 % of line rate; with all groups under this the software or the configuration is at
fault, wherever one looks."""


@dataclass(frozen=True)
class Suspect:
    """One thing that may be at fault."""

    kind: Literal["node", "nic", "leaf", "uplink", "spine", "global"]
    id: str
    """Node; ``node/rail`` for a NIC; switch name for a leaf and for its uplinks; folded names of the spines."""
    confidence: float
    """Probability, given that this fault exists at all, that this is its place."""
    ratio: float
    """Bandwidth left, of normal; 0 for none."""
    evidence: str
    fault: int
    """Suspects of one fault have one number, from 1: they are its ambiguity set."""
    share: float = 1.0
    """Share of the measurements through it that are slow; less than 1: it comes and goes, or it is one path of many."""
    only_large: bool = False
    """Well below 4 GiB, slow from there on."""

    @property
    def sure(self) -> bool:
        """Whether it is blamed alone."""
        return self.confidence >= SURE


@dataclass(frozen=True)
class Verdict:
    """What the evidence says."""

    verdict: Literal["healthy", "faulty", "ambiguous"]
    """``faulty``: every fault has one sure suspect. ``ambiguous``: one fault at least has several."""
    suspects: tuple[Suspect, ...]
    """By fault, the likeliest first."""
    tested: int
    """Measurements that said something."""
    unexplained: tuple[Measurement, ...]
    """Slow or failed groups that no believed fault explains: a path, a neighbour's traffic, or too little evidence."""
    noise: float
    """Standard deviation of one healthy measurement, relative."""
    notes: tuple[str, ...] = ()


def locate(
    measurements: Sequence[Measurement],
    cabling: Cabling = _NO_TOPOLOGY,
    expected: Sequence[float | None] | None = None,
    noise: float = USUAL_NOISE,
) -> Verdict:
    """Name what is slow.

    ``cabling`` makes leaves, uplinks and spines nameable; without it they are guessed from the pairs. ``expected``
    gives for each measurement the bandwidth (GB/s) that this group used to have, None where unknown: against its own
    past a loss of 4 % counts, against its neighbours 8 %, and only the first can tell that everything became slow.
    ``noise``: standard deviation of one healthy measurement, relative, for a run of fewer than eight groups.
    """
    evidence = gather(measurements, cabling, expected)
    if not len(evidence):
        return Verdict("healthy", (), 0, (), 0.0, ("nothing was measured",))
    told = build(evidence, cabling)
    level = levels(evidence, usual=noise, paths=told.path_class(len(evidence)))
    case = Case(evidence, level, told, topology=bool(cabling.leaf))
    faults = case.model.select()
    if faults:  # what is normal, once more without what is blamed
        case = case.without(faults, noise)
        faults = case.model.select()
    return _verdict(case, faults, cabling)


def _verdict(case: Case, faults: list[Fault], cabling: Cabling) -> Verdict:
    suspects: list[Suspect] = []
    built: list[Fault] = []
    for fault in faults:
        others = [each for each in faults if each is not fault]
        if case.is_small(fault) or case.is_path_like(fault, others):
            continue
        weighed = _alternatives(fault, others, case)
        if sum(chance for each, chance in weighed if case.model.is_path(each)) >= SURE:
            built += [fault] if case.model.is_path(fault) else []
        else:
            suspects += _suspects(1 + len({each.fault for each in suspects}), weighed, others, case)
    suspects += _all_slow(case, cabling, 1 + len({each.fault for each in suspects}))
    strange = tuple(case.evidence.source[index] for index in case.model.unexplained(faults).tolist())
    sure = all(each.sure for each in suspects)
    word: Literal["healthy", "faulty", "ambiguous"] = "ambiguous" if not sure else "faulty" if suspects else "healthy"
    notes = (*(path_note(_path(each, case)) for each in built), *_notes(case, cabling))
    return Verdict(word, tuple(suspects), case.known, strange, case.level.noise, notes)


def _alternatives(fault: Fault, others: list[Fault], case: Case) -> list[tuple[Fault, float]]:
    """One fault's place, or all that explain the evidence nearly as well, the ``others`` staying; with their chances.

    Likeliest first. A class of paths that is slower in health is an alternative like any other.
    """
    offer = case.model.offer(others)
    if not len(offer.candidates):  # the others leave nothing that is clearly slow: this one only says it better
        return [(fault, 1.0 if case.model.is_path(fault) else 0.5)]
    odds = np.exp(offer.gain - offer.gain.max())
    chance = odds / (odds.sum() + exp(-float(offer.gain.max())))
    order = [int(index) for index in np.argsort(-chance, kind="stable") if chance[index] >= _WORTH_NAMING]
    order = order[:1] if chance[order[0]] >= SURE else order[:_MOST_NAMED]
    return [(offer.fault(index), float(chance[index])) for index in order]


def _suspects(
    number: int, weighed: Sequence[tuple[Fault, float]], others: Sequence[Fault], case: Case
) -> Iterator[Suspect]:
    """One fault's ambiguity set; that nothing is at fault but the fabric is built so, told once."""
    broken = (each.candidate for each in others if not case.model.is_path(each))
    explained = frozenset(index for each in broken for index in case.hypotheses.touches(each).tolist())
    benign = [(fault, chance) for fault, chance in weighed if case.model.is_path(fault)]
    for fault, chance in weighed:
        if not case.model.is_path(fault):
            yield _suspect(number, fault, chance, case, explained)
        elif fault is benign[0][0]:
            path = _path(fault, case)
            yield Suspect("global", AS_BUILT, sum(each for _, each in benign), path.ratio, path_doubt(path), number)


def _suspect(number: int, fault: Fault, chance: float, case: Case, explained: frozenset[int]) -> Suspect:
    key = case.hypotheses.keys[fault.candidate]
    touched = Touched.of(case.evidence, case.level, case.hypotheses.touches(fault.candidate), explained)
    ratio = 0.0 if fault.ceiling <= DEAD + 0.01 else exp(fault.ceiling)
    kind: Any = "node" if key.kind == "inside" else key.kind
    evidence = story(key, touched, case.level, ratio)
    return Suspect(kind, key.id, chance, ratio, evidence, number, fault.share, touched.only_large)


def _path(fault: Fault, case: Case) -> Path:
    return Path.of(
        case.hypotheses.keys[fault.candidate], case.evidence, case.level, case.hypotheses.touches(fault.candidate)
    )


def _all_slow(case: Case, cabling: Cabling, number: int) -> list[Suspect]:
    """Everything equally slow, seen against line rate: pairs of single rails only, where busbw is the wire's rate."""
    evidence, level = case.evidence, case.level
    if not cabling.line_rate or not np.isnan(evidence.expected).all():
        return []
    singles = [
        index
        for index, members in enumerate(evidence.members)
        if len({m.node for m in members}) == len(members) > 1 and members[0].rail is not None
    ]
    reached = [exp(level.centre[kind]) for kind in {int(evidence.kind[i]) for i in singles}]
    reached = [each for each in reached if not np.isnan(each)]
    few_fast = exp(float(np.nanquantile(evidence.log_bandwidth[singles], 0.95))) if reached else 0.0
    if not reached or max(*reached, few_fast) >= _LINE_RATE_SHARE:
        return []
    text = (
        f"the healthiest groups reach {max(reached):.0%} of line rate: software or configuration (compare the "
        f"fingerprint with the last good run; NCCL's log must say NET/IB and GDRDMA)"
    )
    if cabling.leaf and case.all_cross(singles):
        doubt = "; or the uplinks are oversubscribed: no pair inside a leaf was tested (probe.purposes: same-leaf)"
        return [Suspect("global", "fabric", 0.7, max(reached), text + doubt, number)]
    return [Suspect("global", "fabric", 0.99, max(reached), text, number)]


def _notes(case: Case, cabling: Cabling) -> tuple[str, ...]:
    evidence, notes = case.evidence, list[str]()
    if case.known < len(evidence):
        notes.append(
            f"{len(evidence) - case.known} of {len(evidence)} groups have nothing to be compared with: it takes other "
            "groups of the same test, size and ranks (pairs: every node with two partners at least), or their own past "
            "(`roceway-probe judge`)"
        )
    if case.model.strays:
        notes.append(
            f"about {case.model.strays:.0%} of the results are slow without a pattern, as on busy hosts or beside "
            "other traffic: faults of that size hide among them; measure again when it is quiet"
        )
    if np.isnan(evidence.expected).all() and not cabling.line_rate:
        notes.append("without history or line rates a slowness that all groups share cannot be seen")
    return tuple(notes)


def to_json(verdict: Verdict) -> dict[str, Any]:
    """The contract's shape; suspects of one fault share ``fault``."""
    return {
        "verdict": verdict.verdict,
        "suspects": [
            {
                "kind": each.kind,
                "id": each.id,
                "confidence": round(each.confidence, 4),
                "ratio": round(each.ratio, 4),
                "evidence": each.evidence,
                "fault": each.fault,
                "share": each.share,
            }
            for each in verdict.suspects
        ],
        "tested": verdict.tested,
        "unexplained": [
            {
                "test": each.test,
                "size": each.size,
                "members": [f"{m.node}/{m.rail}" if m.rail else m.node for m in each.members[:16]],
                "busbw": each.busbw,
            }
            for each in verdict.unexplained[:100]
        ],
        "noise_pct": round(100 * verdict.noise, 3),
        "notes": list(verdict.notes),
    }
