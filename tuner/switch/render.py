"""The configuration that fabric.yaml calls for on a switch, in that operating system's own syntax. Pure.

What comes out is read back by the same readers as any saved configuration, and linting it finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tuner.switch import render_dell, render_eos, render_nvue, render_nxos, render_sonic
from tuner.switch.intended import Intended
from tuner.switch.model import Platform, Switch
from tuner.switch.read import read

__all__ = ["HOW_TO_APPLY", "as_switch", "render"]

_RENDERERS: Mapping[Platform, Callable[[Intended], str]] = {
    "sonic": render_sonic.render,
    "cumulus": render_nvue.render,
    "eos": render_eos.render,
    "nxos": render_nxos.render,
    "dell-sonic": render_dell.render,
}
HOW_TO_APPLY: Mapping[Platform, str] = {
    "sonic": "config load FILE -y; QoS is reloaded, so do it while no job runs (S12)",
    "cumulus": "nv config patch FILE; nv config diff; nv config apply",
    "eos": "configure session roce; copy FILE session-config; show session-config diffs; commit",
    "nxos": "checkpoint; configure terminal; the lines",
    "dell-sonic": "PATCH https://SWITCH/restconf/data with Content-Type application/yang-data+json",
}
"""What the operator does with it."""


def render(wanted: Intended) -> str:
    """The configuration's text, ending in a newline."""
    return _RENDERERS[wanted.described.platform](wanted)


def as_switch(wanted: Intended) -> Switch:
    """The configuration, read back."""
    described = wanted.described
    known = {"role": described.role, "asic": described.asic}
    return read(described.platform, described.name, {"rendered": render(wanted).encode()}, **known)
