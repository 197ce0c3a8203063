"""How the members of a group reach each other, as far as fabric.yaml tells: what is comparable depends on it. Pure.

Healthy pairs below one leaf and across leaves differ by ten percent and more where a spine is oversubscribed or hashing
is unlucky, and a pair is as fast as the slower of its NICs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nccltest.locate.cabling import Cabling
from nccltest.model import Measurement

__all__ = ["with_paths"]


def with_paths(measurements: Iterable[Measurement], cabling: Cabling) -> tuple[Measurement, ...]:
    """The same measurements, those of groups drawn by chance with their ``path``."""
    mixed = len(set(cabling.line_rate.values())) > 1
    return tuple(
        one if one.kind in ("whole", "single") else replace(one, path=_path(one, cabling, mixed))
        for one in measurements
    )


def _path(one: Measurement, cabling: Cabling, mixed: bool) -> str:
    parts = [_leaves(one, cabling) if one.kind == "pair" else "", _slowest(one, cabling) if mixed else ""]
    return ", ".join(part for part in parts if part)


def _leaves(one: Measurement, cabling: Cabling) -> str:
    """Empty where the cabling does not say, or says different things of its rails."""
    rails = cabling.rails if one.rail is None else (one.rail,)
    ends = [{cabling.leaf.get((node, rail)) for node in one.nodes} for rail in rails]
    if not ends or any(None in each for each in ends):
        return ""
    same = {len(each) == 1 for each in ends}
    return "" if len(same) > 1 else "same leaf" if same.pop() else "across leaves"


def _slowest(one: Measurement, cabling: Cabling) -> str:
    """The rate of the slowest NIC; empty where one is unknown."""
    rates = [cabling.line_rate.get(node) for node in one.nodes]
    known = [rate for rate in rates if rate is not None]
    return f"{8 * min(known):g} Gb/s" if known and len(known) == len(rates) else ""
