"""The changes that make a NIC what is wanted, as values: each prints as one line, knows its undo and what to read back.

Pure. Every step says what was seen and what shall be; undoing one is the same step with the two exchanged, and doing
one whose value is there already changes nothing, so an undo need not know how far a run came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tuner import words
from tuner.nic import App, Buffer, Dcbx, Ets, NicQos, Pause, Pfc
from tuner.record import decode, encode

__all__ = [
    "KINDS",
    "SetApps",
    "SetBuffer",
    "SetDcbx",
    "SetEts",
    "SetKnob",
    "SetMaxrate",
    "SetMtu",
    "SetPause",
    "SetPfc",
    "SetSysctl",
    "SetTrust",
    "Step",
    "dscp_entries",
    "dump",
    "knob",
    "load",
    "settings",
    "undo",
]


class _Step:
    """What all steps share. The fields ``nic``, ``seen`` and ``wanted`` are each class's own, with its own types."""

    __slots__ = ()
    nic: Any
    seen: Any
    wanted: Any

    @property
    def label(self) -> str:
        """What it sets."""
        raise NotImplementedError

    render: ClassVar[Any] = staticmethod(str)
    """A value in words."""

    @property
    def remark(self) -> str:
        """What an operator must know besides."""
        return ""

    @property
    def before(self) -> str:
        """The value seen, in words."""
        return str(self.render(self.seen))

    @property
    def after(self) -> str:
        """The value wanted, in words."""
        return str(self.render(self.wanted))

    def say(self, value: object) -> str:
        """Any value of this kind, in words; ``nothing`` where there is none."""
        return "nothing" if value is None else str(self.render(value))

    @property
    def change(self) -> str:
        """What it does, without the NIC's name."""
        remark = f"  ({self.remark})" if self.remark else ""
        return f"{self.label} {self.before} → {self.after}{remark}"

    def __str__(self) -> str:
        return f"{self.nic}: {self.change}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDcbx(_Step):
    """Take DCBX from the driver or the firmware, or give it back."""

    nic: str
    seen: Dcbx
    wanted: Dcbx
    label = "DCBX"
    render = staticmethod(words.dcbx)

    def of(self, nic: NicQos) -> Dcbx | None:
        """What the NIC has now."""
        return nic.dcbx


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMtu(_Step):
    """The netdev's MTU."""

    nic: str
    seen: int
    wanted: int
    label = "MTU"

    def of(self, nic: NicQos) -> int | None:
        """What the NIC has now."""
        return nic.mtu


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPause(_Step):
    """Global pause, which would stop every priority at once."""

    nic: str
    seen: Pause
    wanted: Pause
    label = "global pause"
    render = staticmethod(words.pause)

    def of(self, nic: NicQos) -> Pause | None:
        """What the NIC has now."""
        return nic.pause


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEts(_Step):
    """Priorities to traffic classes, and how these share the link."""

    nic: str
    seen: Ets
    wanted: Ets
    label = "ETS"
    render = staticmethod(words.ets)

    def of(self, nic: NicQos) -> Ets | None:
        """What the NIC has now."""
        return nic.ets


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMaxrate(_Step):
    """Highest rate by traffic class, kb/s."""

    nic: str
    seen: tuple[int, ...]
    wanted: tuple[int, ...]
    note: str = ""
    """What the driver makes of the numbers that were asked for."""
    label = "maximum rate"
    render = staticmethod(words.rates)

    @property
    def remark(self) -> str:
        """The rounding, visibly."""
        return self.note

    def of(self, nic: NicQos) -> tuple[int, ...] | None:
        """What the NIC has now."""
        return nic.maxrate


@dataclass(frozen=True, slots=True, kw_only=True)
class SetApps(_Step):
    """The DSCP entries of the APP table; entries of other selectors are left alone."""

    nic: str
    seen: tuple[App, ...]
    wanted: tuple[App, ...]
    label = "DSCP"
    render = staticmethod(words.dscp_map)

    def of(self, nic: NicQos) -> tuple[App, ...] | None:
        """What the NIC has now."""
        return dscp_entries(nic)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTrust(_Step):
    """The order in which fields of a packet are trusted (kernel 6.2)."""

    nic: str
    seen: tuple[str, ...]
    wanted: tuple[str, ...]
    label = "trust"
    render = staticmethod(words.listed)

    def of(self, nic: NicQos) -> tuple[str, ...] | None:
        """What the NIC has now."""
        return nic.apptrust


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPfc(_Step):
    """Priorities that pause instead of dropping."""

    nic: str
    seen: Pfc
    wanted: Pfc
    toggles: bool = False
    """The link goes down and comes back."""
    label = "PFC"
    render = staticmethod(words.pfc)

    @property
    def remark(self) -> str:
        """What it does to the traffic."""
        return "the link drops for a moment" if self.toggles else ""

    def of(self, nic: NicQos) -> Pfc | None:
        """What the NIC has now; its counters are no setting."""
        return None if nic.pfc is None else settings(nic.pfc)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBuffer(_Step):
    """The port's receive buffers."""

    nic: str
    seen: Buffer
    wanted: Buffer
    label = "buffers"
    render = staticmethod(words.buffer)

    def of(self, nic: NicQos) -> Buffer | None:
        """What the NIC has now."""
        return nic.buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class SetKnob(_Step):
    """One RoCE setting by its name in host.roce."""

    nic: str
    name: str
    seen: int | None
    """None: not shown before it is written for the first time."""
    wanted: int
    render = staticmethod(words.number)

    @property
    def label(self) -> str:
        """What it sets."""
        return words.knob(self.name)

    def of(self, nic: NicQos) -> int | None:
        """What the NIC has now."""
        return knob(nic, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSysctl(_Step):
    """One of net.ipv4.conf.<netdev>.*"""

    nic: str
    name: str
    seen: int
    wanted: int

    @property
    def label(self) -> str:
        """What it sets."""
        return f"sysctl {self.name}"

    def of(self, nic: NicQos) -> int | None:
        """What the NIC has now."""
        return nic.sysctls.get(self.name)


Step = SetDcbx | SetMtu | SetPause | SetEts | SetMaxrate | SetApps | SetTrust | SetPfc | SetBuffer | SetKnob | SetSysctl

KINDS: dict[type, str] = {
    SetDcbx: "dcbx",
    SetMtu: "mtu",
    SetPause: "pause",
    SetEts: "ets",
    SetMaxrate: "maxrate",
    SetApps: "apps",
    SetTrust: "trust",
    SetPfc: "pfc",
    SetBuffer: "buffer",
    SetKnob: "knob",
    SetSysctl: "sysctl",
}
"""The word that an adapter's order uses for each kind of step."""
_BY_NAME: dict[str, Any] = {each.__name__: each for each in KINDS}


def settings(pfc: Pfc) -> Pfc:
    """PFC without its counters."""
    return replace(pfc, requests=(0,) * 8, indications=(0,) * 8)


def dscp_entries(nic: NicQos) -> tuple[App, ...] | None:
    """The DSCP entries of the APP table; None for unknown."""
    return None if nic.apps is None else tuple(app for app in nic.apps if app.selector == "dscp")


def knob(nic: NicQos, name: str) -> int | None:
    """A RoCE setting by its name in host.roce, out of the model; None for unknown."""
    kind, _, rest = name.partition(".")
    if kind in ("np", "rp"):
        switches = nic.ecn.np if kind == "np" else nic.ecn.rp
        return None if switches is None else int(switches[int(rest)])
    if kind == "param":
        return nic.ecn.params.get(rest)
    plain = {
        "tos": nic.tos.rdma_cm,
        "traffic_class": nic.tos.traffic_class,
        "cnp_dscp": nic.ecn.cnp_dscp,
        "cnp_prio": nic.ecn.cnp_prio,
        "ecn": None if nic.ecn.np is None else int(all(nic.ecn.np)),
    }
    return plain[name]


def undo(steps: Sequence[Step]) -> tuple[Step, ...]:
    """What puts a host back, whichever of ``steps`` ran: their opposites in reverse.

    What nobody could see before (a ToS that rdma_cm had not shown) has no opposite and is left out.
    """
    return tuple(_opposite(step) for step in reversed(steps) if step.seen is not None)


def _opposite(step: Step) -> Step:
    extra: dict[str, Any] = {"note": ""} if isinstance(step, SetMaxrate) else {}
    either: Any = step  # the union's classes differ in the types of the two
    opposite: Step = replace(either, seen=step.wanted, wanted=step.seen, **extra)
    return opposite


def dump(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Steps as JSON values."""
    return [{"step": type(step).__name__, **encode(step)} for step in steps]


def load(values: Any) -> tuple[Step, ...]:
    """The inverse of :func:`dump`. ValueError when the values are no steps (a damaged journal)."""
    if not isinstance(values, list):
        raise ValueError("steps: this is no list")
    return tuple(_load(value) for value in values)


def _load(value: Any) -> Step:
    name = value.get("step") if isinstance(value, dict) else None
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ValueError(f"steps: {name!r:.40} is no kind of step")
    step: Step = decode(_BY_NAME[name], {key: each for key, each in value.items() if key != "step"}, name)
    return step
