"""The readable parts of a document that may have mistakes, so that contradictions are told along with bad fields.

A draft is lenient on purpose: what cannot be read is None or left out, and reported by the model's own validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from conf.base import merge
from conf.hostlist import count
from conf.nics import Nics
from conf.nodes import RailNic
from conf.qos import DEFAULT_PROFILE, Cnp, Lossless, profile, profile_names
from conf.rails import Rail
from conf.switches import Switch
from conf.units import parse_speed

__all__ = ["Draft", "DraftCables", "DraftGroup", "DraftRail", "DraftSwitch", "DraftType", "draft"]

_MAX_RAILS = 64  # as in the model: the checks compare rails with each other

_Model = TypeVar("_Model", bound=BaseModel)


class DraftRail(NamedTuple):
    """``rails[i]``."""

    name: str | None
    rail: Rail | None
    """Fields that cannot be read have a stand-in; see ``bad``."""
    bad: frozenset[str]


class DraftType(NamedTuple):
    """One of ``nodeTypes``."""

    rails: tuple[str, ...] | None
    """The rails that are named; None for auto."""
    nics: dict[str, RailNic]
    mode: str | None
    driver: str | None
    speed: int | None
    """Mb/s"""
    cable: bool
    """A length is given, be it one that cannot be read."""
    settings: Nics | None
    """Its ``nics``; None where it has none."""


class DraftGroup(NamedTuple):
    """``nodes[i]``."""

    match: str | None
    type: str | None
    first_index: int | None


class DraftSwitch(NamedTuple):
    """``switches[i]``."""

    name: str | None
    ports: dict[str, str]


class DraftCables(NamedTuple):
    """``links[i]``."""

    one: str | None
    other: str | None


class Draft(NamedTuple):
    """What could be read of each section, in the document's order."""

    rails: tuple[DraftRail, ...]
    types: dict[str, DraftType]
    groups: tuple[DraftGroup, ...]
    switches: tuple[DraftSwitch, ...]
    links: tuple[DraftCables, ...]
    lossless: Lossless | None
    cnp: Cnp | None
    settings: Nics | None
    """``qos.nics``"""

    @property
    def rail_names(self) -> frozenset[str] | None:
        """The rails there are; None where a name is wrong, so that nothing may be called unknown."""
        names = [rail.name for rail in self.rails if "name" not in rail.bad]
        complete = 0 < len(names) == len(self.rails)
        return frozenset(name for name in names if name) if complete else None

    def hostlists(self) -> Iterator[str]:
        """Every hostlist in the document."""
        yield from (group.match for group in self.groups if group.match)
        yield from (text for switch in self.switches for pair in switch.ports.items() for text in pair)
        yield from (text for link in self.links for text in link if text)


def draft(document: object) -> Draft:
    """The readable parts of a document, whatever it is."""
    root = _mapping(document)
    lossless, cnp, settings = _qos(root.get("qos"))
    return Draft(
        rails=tuple(_rail(raw) for raw in _list(root.get("rails"))[:_MAX_RAILS]),
        types={name: _type(_mapping(raw)) for name, raw in _mapping(root.get("nodeTypes")).items()},
        groups=tuple(_group(_mapping(raw)) for raw in _list(root.get("nodes"))),
        switches=tuple(_switch(_mapping(raw)) for raw in _list(root.get("switches"))),
        links=tuple(_cables(_mapping(raw)) for raw in _list(root.get("links"))),
        lossless=lossless,
        cnp=cnp,
        settings=settings,
    )


def _rail(raw: object) -> DraftRail:
    name = _mapping(raw).get("name")
    rail, bad = _salvage(Rail, _mapping(raw), {"name": "rail", "nodeBlock": {}})
    return DraftRail(_text(name), rail, bad)


def _salvage(
    model: type[_Model], raw: dict[str, Any], stand_ins: dict[str, Any]
) -> tuple[_Model | None, frozenset[str]]:
    """The model without the fields that are wrong, and their names; None where it needs one of them."""
    try:
        return model.model_validate(raw), frozenset()
    except ValidationError as invalid:
        bad = frozenset(str(error["loc"][0]) for error in invalid.errors() if error["loc"])
    kept = {key: value for key, value in raw.items() if key not in bad}
    return _read(model, kept | {key: value for key, value in stand_ins.items() if key in bad}), bad


def _read(model: type[_Model], raw: object) -> _Model | None:
    try:
        return model.model_validate(raw)
    except ValidationError:
        return None


def _type(raw: dict[str, Any]) -> DraftType:
    rails = raw.get("rails")
    named = rails if isinstance(rails, dict) else {}
    nics = {name: _read(RailNic, nic) for name, nic in named.items()}
    return DraftType(
        rails=tuple(named) if isinstance(rails, dict) else None,
        nics={name: nic for name, nic in nics.items() if nic is not None},
        mode=_text(raw.get("mode")),
        driver=_text(raw.get("driver")),
        speed=_speed(raw.get("speed")),
        cable=raw.get("cable") is not None,
        settings=_read(Nics, raw.get("nics")),
    )


def _speed(raw: object) -> int | None:
    try:
        return parse_speed(raw)
    except ValueError:
        return None


def _group(raw: dict[str, Any]) -> DraftGroup:
    first = raw.get("firstIndex", 0)
    readable = isinstance(first, int) and not isinstance(first, bool) and 0 <= first < 1 << 32
    return DraftGroup(_hostlist(raw.get("match")), _text(raw.get("type")), first if readable else None)


def _switch(raw: dict[str, Any]) -> DraftSwitch:
    _, bad = _salvage(Switch, raw, {})
    ports = _mapping(raw.get("ports"))
    readable = {port: nic for port, nic in ports.items() if _hostlist(port) and _hostlist(nic)}
    return DraftSwitch(None if "name" in bad else raw["name"], readable)


def _cables(raw: dict[str, Any]) -> DraftCables:
    return DraftCables(_hostlist(raw.get("from")), _hostlist(raw.get("to")))


def _qos(raw: object) -> tuple[Lossless | None, Cnp | None, Nics | None]:
    name = _mapping(raw).get("profile", DEFAULT_PROFILE)
    whole = merge(profile(name if name in profile_names() else DEFAULT_PROFILE), _mapping(raw))
    return _read(Lossless, whole["lossless"]), _read(Cnp, whole["cnp"]), _read(Nics, whole["nics"])


def _mapping(raw: object) -> dict[str, Any]:
    return raw if isinstance(raw, dict) else {}


def _list(raw: object) -> list[Any]:
    return raw if isinstance(raw, list) else []


def _text(raw: object) -> str | None:
    return raw if isinstance(raw, str) and raw else None


def _hostlist(raw: object) -> str | None:
    """The text of a hostlist that can be read."""
    try:
        return raw if isinstance(raw, str) and count(raw) else None
    except ValueError:
        return None
