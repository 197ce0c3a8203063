"""``nics`` of ``qos`` and of node types, against the machines that they are for."""

from __future__ import annotations

from collections.abc import Iterator

from conf.draft import Draft, DraftType
from conf.errors import Finding
from conf.nics import PARAMETERS, MaxRates, Nics
from conf.paths import Path, show
from conf.units import format_speed

__all__ = ["check_nics"]

_FABRIC: Path = ("qos", "nics")


def check_nics(draft: Draft) -> Iterator[Finding]:
    """Buffers without a lossless class or a cable length, rates above the line's, parameters of another driver."""
    yield from _for_nobody(_FABRIC, draft.settings, draft)
    for name, kind in draft.types.items():
        own: Path = ("nodeTypes", name, "nics")
        yield from _for_nobody(own, kind.settings, draft)
        yield from _headroom(("nodeTypes", name, "cable"), kind, draft)
        for place, settings in ((_FABRIC, draft.settings), (own, kind.settings)):
            yield from _rates(place, settings.max_rates if settings else None, name, kind)
        yield from _foreign(own, kind)


def _for_nobody(place: Path, settings: Nics | None, draft: Draft) -> Iterator[Finding]:
    if settings and settings.buffers and draft.lossless and not draft.lossless.pfc:
        yield Finding(show((*place, "buffers")), "no priority is lossless (qos.lossless.pfc is false): leave it out")


def _headroom(cable: Path, kind: DraftType, draft: Draft) -> Iterator[Finding]:
    for place, settings in ((cable[:2], kind.settings), (_FABRIC[:1], draft.settings)):
        if settings and settings.buffers:
            if settings.buffers == "auto" and not kind.cable:
                yield Finding(show(cable), f"is missing, and {show((*place, 'nics', 'buffers'))} reckons with it")
            return


def _rates(place: Path, rates: MaxRates | None, name: str, kind: DraftType) -> Iterator[Finding]:
    for field in MaxRates.model_fields if rates and kind.speed else ():
        rate = getattr(rates, field)
        if rate and kind.speed and rate > kind.speed:
            whose = "these NICs" if place[0] == "nodeTypes" else f"nodeTypes.{name}"
            sentence = f"{format_speed(rate)} is above {format_speed(kind.speed)}, the speed of {whose}"
            yield Finding(show((*place, "maxRates", field)), f"{sentence}; leave it out for no limit")


def _foreign(place: Path, kind: DraftType) -> Iterator[Finding]:
    """Of the type's own: in ``qos.nics`` there may be parameters for several drivers."""
    known = PARAMETERS.get(kind.driver or "")
    for parameter in (kind.settings.dcqcn or ()) if kind.settings and known else ():
        if known and parameter not in known:
            yield Finding(show((*place, "dcqcn", parameter)), f"is no parameter of {kind.driver}")
