"""QoS settings as the few words that plans, diffs and tables use. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuner.nic import App, Buffer, Dcbx, Ets, Pause, Pfc

__all__ = ["buffer", "dcbx", "dscp_map", "ets", "knob", "listed", "number", "on", "pause", "pfc", "rates"]

_KNOBS = {
    "tos": "RoCE ToS of rdma_cm",
    "traffic_class": "RoCE traffic class",
    "cnp_dscp": "CNP DSCP",
    "cnp_prio": "CNP priority",
    "ecn": "ECN",
    "np": "ECN notification point, priority",
    "rp": "ECN reaction point, priority",
    "param": "DCQCN",
}
_MANY, _FEW = 32, 8


def listed(values: Iterable[object]) -> str:
    """``3,4``; ``none`` for nothing."""
    return ",".join(str(value) for value in values) or "none"


def on(value: bool) -> str:
    """``on`` or ``off``."""
    return "on" if value else "off"


def number(value: int | None) -> str:
    """A number, or that nobody has set it."""
    return "not set" if value is None else str(value)


def knob(name: str) -> str:
    """``np.3`` as ``ECN notification point, priority 3``."""
    kind, _, rest = name.partition(".")
    return f"{_KNOBS[kind]} {rest}".rstrip()


def dcbx(mode: Dcbx) -> str:
    """``host+ieee``."""
    names = ("host", "lld-managed", "cee", "ieee", "static")
    values = (mode.host, mode.lld_managed, mode.cee, mode.ieee, mode.static)
    return "+".join(name for name, value in zip(names, values, strict=True) if value) or "none"


def pause(value: Pause) -> str:
    """``rx on tx off``."""
    return f"rx {on(value.rx)} tx {on(value.tx)}{' autoneg' if value.autoneg else ''}"


def pfc(value: Pfc) -> str:
    """``3 delay 7``; ``off`` without a priority."""
    return f"{listed(value.enabled) if value.enabled else 'off'} delay {value.delay}"


def ets(value: Ets) -> str:
    """Classes in use, with their priorities: ``0,1,2:50% 3:50% 6:strict``."""
    parts = []
    for each in sorted(set(value.prio_tc)):
        priorities = listed(priority for priority in range(8) if value.prio_tc[priority] == each)
        share = f"{value.tc_bw[each]}%" if value.tsa[each] == "ets" else value.tsa[each]
        parts.append(f"{priorities}:{share}")
    return " ".join(parts) + (" willing" if value.willing else "")


def dscp_map(entries: Sequence[App]) -> str:
    """``26:3 48:6``; of a whole map what differs from the commonest priority, then ``rest:0``."""
    if len(entries) < _MANY:
        return " ".join(f"{app.protocol}:{app.priority}" for app in entries) or "none"
    priorities = [app.priority for app in entries]
    common = max(sorted(set(priorities)), key=priorities.count)
    others = [f"{app.protocol}:{app.priority}" for app in entries if app.priority != common]
    return " ".join([*(others if len(others) <= _FEW else [f"({len(others)} others)"]), f"rest:{common}"])


def rates(kbps: Sequence[int]) -> str:
    """``3:50Gb/s`` by traffic class; ``none`` without a limit."""
    return " ".join(f"{each}:{rate / 1e6:g}Gb/s" for each, rate in enumerate(kbps) if rate) or "none"


def buffer(value: Buffer) -> str:
    """``3→1 sizes 0:65536 1:131072`` (bytes); priorities of buffer 0 are not listed."""
    priorities = " ".join(f"{priority}→{each}" for priority, each in enumerate(value.prio_buffer) if each)
    sizes = " ".join(f"{each}:{size}" for each, size in enumerate(value.size) if size)
    return f"{priorities or 'all→0'} sizes {sizes or 'none'}"
