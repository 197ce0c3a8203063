"""``nodeTypes`` against ``rails``: every rail has one NIC, and every NIC one rail."""

from __future__ import annotations

from collections.abc import Iterator

from conf.draft import Draft, DraftType
from conf.errors import Finding
from conf.findings import did_you_mean
from conf.nodes import RailNic
from conf.paths import show

__all__ = ["check_types"]


def check_types(draft: Draft) -> Iterator[Finding]:
    """Rails that a type does not know or does not have, NICs on two rails, and settings that no mode applies."""
    for name, kind in draft.types.items():
        if kind.rails is not None:
            yield from _rails(name, kind.rails, draft.rail_names)
        yield from _twice(name, kind.nics)
        for rail, nic in kind.nics.items():
            yield from _settings(show(("nodeTypes", name, "rails", rail)), kind, nic)


def _rails(name: str, named: tuple[str, ...], known: frozenset[str] | None) -> Iterator[Finding]:
    if known is None:
        return
    for rail in named:
        if rail not in known:
            message = f"there is no rail {rail}" + did_you_mean(rail, sorted(known))
            yield Finding(show(("nodeTypes", name, "rails", rail)), message)
    missing = sorted(known - set(named))
    if missing:
        yield Finding(show(("nodeTypes", name, "rails")), f"no NIC is given for {', '.join(missing)}")


def _twice(name: str, nics: dict[str, RailNic]) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for rail, nic in nics.items():
        other = first.setdefault(nic.nic, rail)
        if other != rail:
            yield Finding(show(("nodeTypes", name, "rails", rail)), f"{nic.nic} is also the NIC of {other}")


def _settings(path: str, kind: DraftType, nic: RailNic) -> Iterator[Finding]:
    if nic.vf and kind.mode in {"macvlan", "ipvlan"}:
        yield Finding(path, f"{', '.join(nic.vf)}: settings of virtual functions, which mode {kind.mode} has none of")
    if nic.min_tx_rate and nic.max_tx_rate and nic.min_tx_rate > nic.max_tx_rate:
        yield Finding(path, f"min_tx_rate {nic.min_tx_rate} is above max_tx_rate {nic.max_tx_rate}")
