"""The entrance: measurements in, suspects with their confidence out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any, Literal

import numpy as np

from nccltest.locate.cabling import Cabling
from nccltest.locate.evidence import DEAD, Evidence, gather
from nccltest.locate.fit import Fault, Model
from nccltest.locate.groups import guesses
from nccltest.locate.hypotheses import Hypotheses, build, healthy_mask
from nccltest.locate.levels import USUAL_NOISE, Levels, levels
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
    hypotheses = build(evidence, cabling)
    level = levels(evidence, usual=noise)
    if not cabling.leaf:
        hypotheses = hypotheses.extended(guesses(evidence, level.deviation, level.smallest))
    case = _Case(evidence, level, hypotheses)
    faults = case.model.select()
    if faults:  # what is normal, once more without what is blamed
        healthy = healthy_mask(len(evidence), hypotheses, (fault.candidate for fault in faults))
        case = _Case(evidence, levels(evidence, level, healthy, noise), hypotheses)
        faults = case.model.select()
    return _verdict(case, faults, cabling)


class _Case:
    """The evidence, what is normal in it, what could be at fault, and the model of all three."""

    def __init__(self, evidence: Evidence, level: Levels, hypotheses: Hypotheses) -> None:
        unknown = np.isnan(level.deviation)
        deviation, weight = np.where(unknown, 0.0, level.deviation), np.where(unknown, 0.0, evidence.weight)
        self.evidence = evidence
        self.level = level
        self.hypotheses = hypotheses
        self.known = int((~unknown).sum())
        self.model = Model(deviation, weight, level.smallest, level.noise, hypotheses)


def _verdict(case: _Case, faults: list[Fault], cabling: Cabling) -> Verdict:
    suspects: list[Suspect] = []
    for number, fault in enumerate(faults, 1):
        suspects += _ambiguity_set(number, fault, [each for each in faults if each is not fault], case)
    suspects = _two_levels(suspects, case) or suspects
    suspects += _all_slow(case, cabling, len(faults) + 1)
    strange = tuple(case.evidence.source[index] for index in case.model.unexplained(faults).tolist())
    sure = all(each.sure for each in suspects)
    word: Literal["healthy", "faulty", "ambiguous"] = "ambiguous" if not sure else "faulty" if suspects else "healthy"
    return Verdict(word, tuple(suspects), case.known, strange, case.level.noise, _notes(case, cabling))


def _ambiguity_set(number: int, fault: Fault, others: list[Fault], case: _Case) -> list[Suspect]:
    """One fault's place, or all that explain the evidence nearly as well, the ``others`` staying."""
    offer = case.model.offer(others)
    if not len(offer.candidates):  # the others leave nothing that is clearly slow: this one only says it better
        return [_suspect(number, fault, 0.5, case, frozenset())]
    odds = np.exp(offer.gain - offer.gain.max())
    chance = odds / (odds.sum() + exp(-float(offer.gain.max())))
    order = [int(index) for index in np.argsort(-chance, kind="stable") if chance[index] >= _WORTH_NAMING]
    order = order[:1] if chance[order[0]] >= SURE else order[:_MOST_NAMED]
    explained = frozenset(i for other in others for i in case.hypotheses.touches(other.candidate).tolist())
    return [_suspect(number, offer.fault(i), float(chance[i]), case, explained) for i in order]


def _suspect(number: int, fault: Fault, chance: float, case: _Case, explained: frozenset[int]) -> Suspect:
    key = case.hypotheses.keys[fault.candidate]
    touched = Touched.of(case.evidence, case.level, case.hypotheses.touches(fault.candidate), explained)
    ratio = 0.0 if fault.ceiling <= DEAD + 0.01 else exp(fault.ceiling)
    kind: Any = "node" if key.kind == "inside" else key.kind
    evidence = story(key, touched, case.level, ratio)
    return Suspect(kind, key.id, chance, ratio, evidence, number, fault.share, touched.only_large)


def _two_levels(suspects: Sequence[Suspect], case: _Case) -> list[Suspect]:
    """What to say instead of blaming most nodes; empty where few are blamed, or where they are slower than they were.

    Healthy pairs may run at two levels, by path (some 5 % apart in the field, 10 % on ten recorded H100 nodes): seen
    from the fast ones most nodes have slow pairs.
    """
    blamed = {each.id.partition("/")[0] for each in suspects if each.kind in ("node", "nic")}
    nodes = {node for one in case.evidence.source for node in one.nodes}
    if len(blamed) <= max(3, len(nodes) / 2) or not np.isnan(case.evidence.expected).all():
        return []
    ratio = float(np.median([each.ratio for each in suspects]))
    text = (
        f"{len(blamed)} of {len(nodes)} nodes would have to be at fault: groups run at two levels, the lower at "
        f"{ratio:.0%}. "
        "Paths of two kinds do that in health; only history or line rate tells whether something became slow"
    )
    return [Suspect("global", "fabric", 0.5, ratio, text, 1)]


def _all_slow(case: _Case, cabling: Cabling, number: int) -> list[Suspect]:
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
    if not reached or max(reached) >= _LINE_RATE_SHARE:
        return []
    text = (
        f"the healthiest groups reach {max(reached):.0%} of line rate: software or configuration (compare the "
        f"fingerprint with the last good run; NCCL's log must say NET/IB and GDRDMA)"
    )
    return [Suspect("global", "fabric", 0.99, max(reached), text, number)]


def _notes(case: _Case, cabling: Cabling) -> tuple[str, ...]:
    evidence, notes = case.evidence, list[str]()
    if case.known < len(evidence):
        notes.append(f"{len(evidence) - case.known} of {len(evidence)} groups have nothing to be compared with")
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
