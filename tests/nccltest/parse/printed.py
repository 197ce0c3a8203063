"""What nccl-tests prints, version by version: the other side of the parser, written after its printf lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nccltest.model import Half, Row


@dataclass(frozen=True)
class Style:
    """One version's table."""

    name: str
    version: str
    """What the parser calls it."""
    redop: bool = True
    root: bool = True
    error: str = "#wrong"
    banner: bool = False
    stamps: bool = False
    per_iteration: bool = False
    tuning: str = ""
    """``half``: columns in each half; ``tail``: behind both."""
    hash: str = "# "


STYLES = (
    Style("v1", "1", root=False, error="res"),
    Style("2.8 all_reduce", "2.0-2.11", root=False, error="error"),
    Style("2.8 all_gather", "2.0-2.11", redop=False, root=False, error="error"),
    Style("2.8 broadcast", "2.0-2.11", redop=False, error="error"),
    Style("2.8 reduce", "2.0-2.11", error="error"),
    Style("2.13", "2.13+"),
    Style("2.17.4", "2.17.4", banner=True),
    Style("2.17.6 -S", "2.17.6", banner=True, stamps=True),
    Style("2.19.2 -I", "2.19.2", banner=True, per_iteration=True),
    Style("2.19.2 -I -S", "2.19.2", banner=True, per_iteration=True, stamps=True),
    Style("2.20 -U", "2.20.0", banner=True, tuning="half"),
    Style("2.20 -U -S", "2.20.0", banner=True, tuning="tail", stamps=True),
    Style("rccl", "2.13+", tuning="tail"),
    Style("published without #", "2.13+", hash="  "),
)
_TUNING = ("impl", "algo", "proto", "#channels")


def printed(style: Style, rows: Sequence[Row], hosts: Sequence[str], *, footer: bool = True) -> str:
    """A whole run's text."""
    start = style.hash
    lines = []
    if style.banner:
        lines += [f"{start}nccl-tests version {style.version} nccl-headers=22807 nccl-library=22807"]
        lines += [f"{start}Collective test starting: all_reduce_perf"]
    lines += [
        f"{start}nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 validation: 1"
    ]
    lines += [f"{start}", f"{start}Using devices"]
    lines += [
        f"{start} Rank {rank:2} Group  0 Pid {rank + 10:6} on {host:>10} device {rank % 8:2} [0000:1b:00] NVIDIA H100"
        for rank, host in enumerate(hosts)
    ]
    lines += [f"{start}", header(style), units(style), *(line(style, row) for row in rows)]
    if footer:
        rates = [half.busbw or 0 for row in rows for half in (row.out_of_place, row.in_place) if half]
        lines += [
            f"{start}Out of bounds values : 0 OK",
            f"{start}Avg bus bandwidth    : {sum(rates) / max(len(rates), 1):g} ",
        ]
        lines += [f"{start}", *([f"{start}Collective test concluded: all_reduce_perf"] if style.banner else [])]
    return "\n".join(lines) + "\n"


def header(style: Style) -> str:
    """The line of names."""
    if style.error == "res":
        names = ["bytes", "N", "type", "op", *["time", "algbw", "busbw", "res"] * 2]
        return style.hash + " ".join(f"{name:>10}" for name in names)
    before = ["size", "count", "type", *(["redop"] if style.redop else []), *(["root"] if style.root else [])]
    half = [
        "time",
        "algbw",
        "busbw",
        style.error,
        *(["i_min", "i_max", "i_p99", "i_cv%"] if style.per_iteration else []),
    ]
    half += _TUNING if style.tuning == "half" else []
    tail = [*(["timestamp"] if style.stamps else []), *(_TUNING if style.tuning == "tail" else [])]
    return style.hash + " ".join(f"{name:>10}" for name in [*before, *half * 2, *tail])


def units(style: Style) -> str:
    """The line below it."""
    return style.hash + " ".join(f"{name:>10}" for name in ["(B)", "(elements)", "(us)", "(GB/s)", "(GB/s)"])


def line(style: Style, row: Row) -> str:
    """One row."""
    before = [f"{row.size:12}", f"{row.count:12}", f"{row.type:>8}"]
    if style.redop or style.error == "res":
        before.append(f"{row.redop if row.redop != 'none' or style.root else '':>6}")
    if style.root:
        before.append(f"{row.root:6}")
    text = "  ".join(before) + "".join(half(style, each) for each in (row.out_of_place, row.in_place))
    text += "  2026-01-02 03:04:05" if style.stamps else ""
    return text + ("  NCCL  RING  LL128  16" if style.tuning == "tail" else "")


def half(style: Style, each: Half | None) -> str:
    """Four numbers, and what options add."""
    if each is None:
        return ""
    time = (each.time_us or 0) / 1000 if style.error == "res" else each.time_us
    wrong = "N/A" if each.wrong is None else "0e+00" if style.error != "#wrong" else f"{each.wrong:g}"
    text = f"  {time:7}  {each.algbw:6.2f}  {each.busbw:6.2f}  {wrong:>5}"
    text += f"  {1.5:7}  {2.5:7}  {2.4:7}  {each.cv_pct:7}" if style.per_iteration else ""
    return text + ("  NCCL  N/A  SIMPLE  24" if style.tuning == "half" else "")
