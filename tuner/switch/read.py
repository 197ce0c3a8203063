"""A switch from what was saved of it: the right reader for its operating system. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tuner.switch import eos, nvue, nxos, openconfig, sonic
from tuner.switch.model import Finding, Platform, Switch

__all__ = ["PLATFORMS", "Documents", "read", "unreadable"]

Documents = Mapping[str, bytes]
"""Label (a file's name, a command, a path of an API) → content; together they are one switch."""

_log = logging.getLogger(__name__)

_READERS: Mapping[Platform, Callable[[str, Documents], Switch]] = {
    "sonic": sonic.read,
    "cumulus": nvue.read,
    "eos": eos.read,
    "nxos": nxos.read,
    "dell-sonic": openconfig.read,
}
PLATFORMS: tuple[Platform, ...] = tuple(_READERS)


def read(platform: Platform, name: str, documents: Documents, **known: Any) -> Switch:
    """The switch that the documents describe. Never raises for their content: what is wrong is in its findings.

    ``known`` are fields of the model that fabric.yaml tells (``role``, ``asic``); they win over the source.
    """
    told = {field: value for field, value in known.items() if value is not None}
    try:
        return replace(_READERS[platform](name, documents), **told)
    except Exception as error:  # noqa: BLE001 - one switch's strange output must not end a run over hundreds
        _log.exception("the %s reader failed on %s; this is a bug of roceway", platform, name)
        why = f"the reader failed ({type(error).__name__}); this is a bug of roceway, the log has the details"
        return unreadable(platform, name, ", ".join(documents), why, **told)


def unreadable(platform: Platform, name: str, source: str, why: str, **known: Any) -> Switch:
    """A switch of which nothing is known but that, and why."""
    return Switch(name, platform, source, findings=(Finding("unreadable", source, why),), **known)
