"""What is said of one group at one size, and what it is said against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from nccltest.expect import LOW
from nccltest.model import Measurement
from nccltest.series import Series

__all__ = ["Before", "Expected", "Judgement", "Past", "Status", "bad", "to_json"]

Status = Literal[
    "ok", "regressed", "improved", "no-baseline", "failed", "wrong-data", "not-collective", "incomplete", "timeout"
]
_BROKEN: tuple[Status, ...] = ("failed", "wrong-data", "incomplete", "timeout")


class Before(NamedTuple):
    """A series' past, oldest first; this run is not in it. Values are log(busbw)."""

    values: Sequence[float] = ()
    """Of every group, those that were judged regressed left out: they are no part of what is usual."""
    runs: Sequence[float] = ()
    """The median of each run since the series began, regressed groups left out."""


Past = Callable[[Series], Before]
Expected = Callable[[Measurement], float | None]
"""The busbw (GB/s) that line rate allows a group, None where unknown."""


@dataclass(frozen=True)
class Judgement:
    """One group at one size."""

    series: Series
    members: str
    """Folded names."""
    status: Status
    busbw: float | None
    """Median of this run's repeats, GB/s."""
    baseline: float | None = None
    """Median of the series' past, GB/s."""
    runs: int = 0
    """Past values behind the baseline."""
    change_pct: float | None = None
    z: float | None = None
    noise_pct: float | None = None
    """Standard deviation of one healthy value of the series, percent."""
    limit_pct: float | None = None
    """The loss from which it is an alarm, percent."""
    confirmed: bool = False
    suspected: bool = False
    """Slow enough to be run again at once, and not yet confirmed or cleared."""
    drifting: bool = False
    """The series slid down slowly; this run alone shows nothing."""
    of_line_pct: float | None = None
    """Of what line rate allows."""
    reason: str = ""

    @property
    def unusual(self) -> bool:
        """Whether its value is no part of what is usual.

        Slow drift is many small steps, each of them usual. A pair that is merely slower than other pairs, in a series
        without a past, may be a slower path: left out, it would be called slow for ever.
        """
        learning = self.baseline is None and not self.series.one_group and (self.of_line_pct or 100) >= 100 * LOW
        return self.status == "regressed" and not self.drifting and not learning


def bad(judgements: Iterable[Judgement]) -> tuple[Judgement, ...]:
    """Those that an operator must see: regressions and broken runs."""
    return tuple(each for each in judgements if each.status == "regressed" or each.status in _BROKEN)


def to_json(judgement: Judgement) -> dict[str, Any]:
    """The contract's shape, with what stands behind it. Percent and GB/s are rounded to what means something."""
    series = judgement.series
    return {
        "test": series.test,
        "group": series.group,
        "rail": series.rail or None,
        "size": series.size,
        "fingerprint": series.fingerprint,
        "members": judgement.members,
        "status": judgement.status,
        "change_pct": _rounded(judgement.change_pct, 2),
        "z": _rounded(judgement.z, 2),
        "confirmed": judgement.confirmed,
        "suspected": judgement.suspected,
        "drifting": judgement.drifting,
        "busbw": _rounded(judgement.busbw, 4),
        "baseline": _rounded(judgement.baseline, 4),
        "runs": judgement.runs,
        "noise_pct": _rounded(judgement.noise_pct, 2),
        "limit_pct": _rounded(judgement.limit_pct, 2),
        "of_line_pct": _rounded(judgement.of_line_pct, 1),
        "reason": judgement.reason,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
