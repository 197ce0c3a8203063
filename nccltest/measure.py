"""From a run's rows to measurements: one number for each size. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from nccltest.busbw import COLLECTIVES, factor
from nccltest.model import GroupKind, Half, Measurement, Member, Row, Run

__all__ = ["group_kind", "measurements_of", "rate_of"]

_COARSE = 10.0
"""GB/s: below it the columns' two decimals are coarser than the time's digits."""


def rate_of(run: Run, row: Row) -> float | None:
    """Bus bandwidth of a row in GB/s: the mean of its halves; None without a number."""
    rates = [rate for half in (row.out_of_place, row.in_place) if half and (rate := _half(run, row, half)) is not None]
    return fmean(rates) if rates else None


def _half(run: Run, row: Row, half: Half) -> float | None:
    fine = half.busbw is not None and half.busbw >= _COARSE
    if fine or not half.time_us or run.ranks < 2 or run.collective not in COLLECTIVES:
        return half.busbw
    return row.size / half.time_us / 1e3 * factor(run.collective, run.ranks)


def group_kind(members: Sequence[Member]) -> GroupKind:
    """``single``, ``pair`` or ``whole``, by the number of nodes."""
    nodes = len({member.node for member in members})
    return "single" if nodes == 1 else "pair" if nodes == 2 else "whole"


def measurements_of(run: Run, *, smallest: int = 0) -> tuple[Measurement, ...]:
    """A recorded run's rows as measurements of its hosts; none where it names no host.

    Each carries the run's status: what was measured before a failure is told, and that it failed as well. A run without
    a usable row gives one measurement without a bandwidth: that a pair failed is evidence, too. Rows below ``smallest``
    bytes are left out.
    """
    members = tuple(Member(host) for host in run.hosts)
    if not members:
        return ()
    rates = [(row.size, rate_of(run, row)) for row in run.rows if row.size >= smallest]
    told: list[tuple[int, float | None]] = [(size, rate) for size, rate in rates if rate is not None]
    told = told or [(0, None)]
    status = "incomplete" if run.status == "ok" and told[0][1] is None else run.status
    return tuple(
        Measurement(
            test=run.collective or "unknown",
            size=size,
            members=members,
            busbw=rate,
            status=status,
            errors=run.errors,
            kind=group_kind(members),
            ranks=run.ranks,
        )
        for size, rate in told
    )
