"""A host's QoS as a table for people: one column per NIC, one row per setting. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tuner import words
from tuner.nic import HostQos, NicQos, Pfc
from tuner.steps import dscp_entries

__all__ = ["rows", "text"]

_UNKNOWN = "?"
_WIDTH = 120
_T = TypeVar("_T")


def rows(host: HostQos) -> tuple[tuple[str, ...], ...]:
    """The table's cells, the headings first; ``?`` is what the host does not show."""
    titles = ("", *(nic.rail or nic.name for nic in host.nics))
    return (titles, *((name, *(_cell(cell, nic) for nic in host.nics)) for name, cell in _ROWS))


def _cell(cell: Callable[[NicQos], str | None], nic: NicQos) -> str:
    found = cell(nic)
    return _UNKNOWN if found is None else found


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def _joined(parts: Sequence[str | None], glue: str = " ") -> str | None:
    known = [part for part in parts if part is not None]
    return glue.join(known) if known else None


def _said(say: Callable[[_T], str], value: _T | None) -> str | None:
    return None if value is None else say(value)


def _priorities(pfc: Pfc) -> str:
    return words.listed(pfc.enabled)


def _link(nic: NicQos) -> str | None:
    if nic.link is None:
        return None
    state = "up" if nic.link.carrier else "no carrier" if nic.link.up else "down"
    return f"{state} {nic.link.speed // 1000}G" if nic.link.speed else state


def _dscp(nic: NicQos) -> str | None:
    entries = dscp_entries(nic)
    return None if entries is None else words.dscp_map(entries)


def _ecn(nic: NicQos) -> str | None:
    parts = []
    for name, values in (("np", nic.ecn.np), ("rp", nic.ecn.rp)):
        if values is not None:
            parts.append(f"{name} {words.listed(priority for priority in range(8) if values[priority])}")
    return " ".join(parts) or None


def _cnp(nic: NicQos) -> str | None:
    dscp, priority = _number(nic.ecn.cnp_dscp), _number(nic.ecn.cnp_prio)
    return _joined([dscp and f"DSCP {dscp}", priority and f"prio {priority}"])


def _tos(nic: NicQos) -> str | None:
    cm, tclass = _number(nic.tos.rdma_cm), _number(nic.tos.traffic_class)
    return _joined([cm and f"rdma_cm {cm}", tclass and f"tclass {tclass}"])


def _gid(nic: NicQos) -> str | None:
    if nic.gids is None:
        return None
    found = [f"{gid.index}:{gid.address}" for gid in nic.gids if gid.type == "RoCE v2" and "." in gid.address]
    return " ".join(found) or "none"


def _paused(nic: NicQos) -> str | None:
    values = nic.counters.rx_pause_us
    return None if values is None else _nonzero(values, "µs")


def _frames(nic: NicQos) -> str | None:
    rx, tx = nic.counters.rx_pause, nic.counters.tx_pause
    if rx is None and tx is None and nic.pfc is not None:
        rx, tx = nic.pfc.indications, nic.pfc.requests
    if rx is None or tx is None:
        return None
    return f"rx {_nonzero(rx)} tx {_nonzero(tx)}"


def _nonzero(values: Sequence[int], unit: str = "") -> str:
    return " ".join(f"{priority}:{value}{unit}" for priority, value in enumerate(values) if value) or "0"


def _discards(nic: NicQos) -> str | None:
    values = nic.counters.rx_discards
    return None if values is None else _nonzero(values)


def _cnps(nic: NicQos) -> str | None:
    names = (("np_cnp_sent", "sent"), ("rp_cnp_handled", "handled"), ("np_ecn_marked_roce_packets", "marked"))
    found = [f"{word} {nic.counters.rdma[name]}" for name, word in names if name in nic.counters.rdma]
    return " ".join(found) or None


_ROWS: tuple[tuple[str, Callable[[NicQos], str | None]], ...] = (
    ("NIC", lambda nic: nic.name),
    ("PCI", lambda nic: nic.pci.address if nic.pci else None),
    ("driver", lambda nic: _joined([nic.driver, nic.firmware])),
    ("RDMA device", lambda nic: nic.rdma or "none"),
    ("link", _link),
    ("MTU (RoCE)", lambda nic: _joined([_number(nic.mtu), f"({nic.active_mtu})" if nic.active_mtu else None])),
    ("trust", lambda nic: nic.trust),
    ("DSCP:priority", _dscp),
    ("priorities:share", lambda nic: _said(words.ets, nic.ets)),
    ("PFC", lambda nic: _said(_priorities, nic.pfc)),
    ("global pause", lambda nic: _said(words.pause, nic.pause)),
    ("buffers", lambda nic: _said(words.buffer, nic.buffer)),
    ("maximum rate", lambda nic: _said(words.rates, nic.maxrate)),
    ("cable", lambda nic: None if nic.cable_m is None else f"{nic.cable_m:g} m"),
    ("DCBX", lambda nic: _said(words.dcbx, nic.dcbx)),
    ("peer's PFC", lambda nic: _said(_priorities, nic.peer.pfc if nic.peer else None)),
    ("ToS", _tos),
    ("ECN", _ecn),
    ("CNP", _cnp),
    ("GID (RoCE v2)", _gid),
    ("PFC frames", _frames),
    ("paused", _paused),
    ("drops", _discards),
    ("CNPs", _cnps),
    ("in use", lambda nic: "no" if nic.in_use is None else nic.in_use.detail),
)


def text(host: HostQos) -> str:
    """The table as aligned lines, as many NICs beside one another as make a readable line."""
    table = rows(host)
    width = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    blocks = []
    for columns in _folds(width):
        lines = (
            _line([row[0], *(row[column] for column in columns)], [width[0], *(width[c] for c in columns)])
            for row in table
        )
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _folds(widths: Sequence[int]) -> list[list[int]]:
    """Columns (from 1) in groups whose lines are not wider than 120, at least one each."""
    groups: list[list[int]] = []
    room = 0
    for column, width in enumerate(widths[1:], 1):
        if not groups or room < width + 2:
            groups.append([])
            room = _WIDTH - widths[0]
        groups[-1].append(column)
        room -= width + 2
    return groups
