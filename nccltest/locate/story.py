"""The evidence against one suspect, in a sentence that an operator can check. Pure."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from conf.units import format_bytes
from nccltest.locate.evidence import DEAD, Evidence, Flags, Floats, Ints
from nccltest.locate.hypotheses import Key
from nccltest.locate.levels import Levels

__all__ = ["Touched", "story"]

_LARGE = 4 << 30
"""From this size on a lossless class that loses packets shows."""
_WHERE = {
    "global": "everywhere",
    "node": "with every peer on every rail",
    "inside": "inside the node, without the network",
    "nic": "with every peer, on this rail alone",
    "leaf": "of its NICs, inside the leaf too",
    "uplink": "that cross into or out of the leaf, not inside it",
    "spine": "between leaves, some and not others",
}


@dataclass(frozen=True)
class Touched:
    """The measurements that a suspect touches and no other believed fault does."""

    deviation: Floats
    slow: Flags
    size: Ints
    failed: int
    wrong: int

    @property
    def only_large(self) -> bool:
        """Good while buffers hold, bad beyond: a class that is not lossless."""
        large = self.size >= _LARGE
        if not large.any() or large.all():
            return False
        return bool(self.slow[large].mean() > 0.7 and self.slow[~large].mean() < 0.3)

    @classmethod
    def of(cls, evidence: Evidence, level: Levels, touched: Ints, others: Set[int]) -> Touched:
        """Out of all evidence."""
        own = np.array([i for i in touched.tolist() if i not in others and not np.isnan(level.deviation[i])], dtype=int)
        own = own if len(own) else touched[~np.isnan(level.deviation[touched])]
        states = [evidence.source[index].status for index in own.tolist()]
        return cls(
            level.deviation[own],
            level.deviation[own] < -level.smallest[own],
            evidence.size[own],
            sum(each not in ("ok", "wrong-data") for each in states),
            states.count("wrong-data"),
        )


def story(key: Key, touched: Touched, level: Levels, ratio: float) -> str:
    """Such as ``28 of 28 tests with every peer on every rail are slow (median -20 %, noise 1.5 %)``."""
    extent = _extent(touched, level)
    hints = [hint for hint in (_sizes(touched), _lost_rail(key, ratio), _fallback(ratio)) if hint]
    return "; ".join([f"{_head(key, touched)} ({extent})", *hints])


def _head(key: Key, touched: Touched) -> str:
    slow = int(touched.slow.sum())
    dead = touched.failed == slow
    if len(touched.slow) == 1:
        which = "of it" if key.kind in ("node", "nic") else _WHERE[key.kind]
        return f"the only test {which} {'failed' if dead else 'is slow'}"
    return f"{slow} of {len(touched.slow)} tests {_WHERE[key.kind]} {'failed' if dead else 'are slow'}"


def _extent(touched: Touched, level: Levels) -> str:
    parts = []
    alive = touched.deviation[touched.slow & (touched.deviation > DEAD)]
    if len(alive):
        parts.append(f"median {np.expm1(np.median(alive)):+.0%}")
    if touched.failed and len(alive):
        parts.append(f"{touched.failed} failed")
    if touched.wrong:
        parts.append(f"{touched.wrong} with wrong data: corruption, not slowness")
    return ", ".join([*parts, f"noise {level.noise:.1%}"])


def _sizes(touched: Touched) -> str:
    if not touched.only_large:
        return ""
    least = format_bytes(int(touched.size[touched.size >= _LARGE].min()))
    return f"only from {least} up: the lossless class loses packets (PFC, ECN; roceway-tune lint)"


def _lost_rail(key: Key, ratio: float) -> str:
    """All rails at once and one of 8, 4 or 2 gone."""
    if key.kind not in ("node", "global"):
        return ""
    for left, all_ in ((7, 8), (3, 4), (1, 2)):
        if abs(ratio - left / all_) < 0.015:
            return f"near {left}/{all_} of normal, as with one of {all_} rails lost"
    return ""


def _fallback(ratio: float) -> str:
    if 1 / 12.5 < ratio < 1 / 4.8:
        return "5 to 12 times slower, as with NCCL on sockets or without GPUDirect (its log lacks NET/IB … GDRDMA)"
    return ""
