"""dcbnl's numbers as the model's words, and back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from host import dcbnl
from tuner.nic import App, Buffer, Dcbx, Ets, Peer, Pfc, Tsa

__all__ = ["apps_out", "dcbx_in", "dcbx_out", "ets_out", "fields", "pfc_out", "trust_out"]

_TSA: dict[int, Tsa] = {0: "strict", 1: "cbs", 2: "ets", 255: "vendor"}
_TSA_OUT = {word: number for number, word in _TSA.items()}
_SELECTORS = {1: "ethertype", 2: "stream", 3: "dgram", 4: "any", dcbnl.DSCP: "dscp", dcbnl.PCP: "pcp"}
_SELECTORS_OUT = {word: number for number, word in _SELECTORS.items()}


def fields(ieee: dcbnl.Ieee) -> dict[str, Any]:
    """The fields of NicQos that a port's IEEE DCB gives."""
    buffer = ieee.buffer
    return {
        "ets": _ets(ieee.ets),
        "pfc": _pfc(ieee.pfc),
        "apps": _apps(ieee.apps or ()),
        "apptrust": None if ieee.trust is None else tuple(_SELECTORS.get(each, str(each)) for each in ieee.trust),
        "rewrite": None if ieee.rewrite is None else _apps(ieee.rewrite),
        "buffer": buffer and Buffer(prio_buffer=buffer.prio_buffer, size=buffer.size, total=buffer.total),
        "maxrate": ieee.maxrate,
        "peer": _peer(ieee),
    }


def dcbx_in(bits: int | None) -> Dcbx | None:
    """DCB_CAP_DCBX_* bits in words."""
    if bits is None:
        return None
    host, managed, cee, ieee, static = (bool(bits >> bit & 1) for bit in range(5))
    return Dcbx(host=host, lld_managed=managed, cee=cee, ieee=ieee, static=static)


def dcbx_out(mode: Dcbx) -> int:
    """Words as DCB_CAP_DCBX_* bits."""
    values = (mode.host, mode.lld_managed, mode.cee, mode.ieee, mode.static)
    return sum(value << bit for bit, value in enumerate(values))


def _ets(seen: dcbnl.Ets | None) -> Ets | None:
    if seen is None:
        return None
    return Ets(
        willing=bool(seen.willing),
        cap=seen.cap,
        cbs=bool(seen.cbs),
        prio_tc=seen.prio_tc,
        tsa=tuple(_TSA.get(each, "vendor") for each in seen.tsa),
        tc_bw=seen.tx_bw,
    )


def ets_out(now: dcbnl.Ets, wanted: Ets) -> dcbnl.Ets:
    """What the port has, with the model's fields put in; what the model does not know stays."""
    return now._replace(
        willing=int(wanted.willing),
        cbs=int(wanted.cbs),
        prio_tc=wanted.prio_tc,
        tsa=tuple(_TSA_OUT[each] for each in wanted.tsa),
        tx_bw=wanted.tc_bw,
    )


def _pfc(seen: dcbnl.Pfc | None) -> Pfc | None:
    if seen is None:
        return None
    return Pfc(
        enabled=tuple(priority for priority in range(8) if seen.enabled >> priority & 1),
        cap=seen.cap,
        mbc=bool(seen.mbc),
        delay=seen.delay,
        requests=seen.requests,
        indications=seen.indications,
    )


def pfc_out(now: dcbnl.Pfc, wanted: Pfc) -> dcbnl.Pfc:
    """What the port has, with the model's fields put in."""
    enabled = sum(1 << priority for priority in wanted.enabled)
    return now._replace(enabled=enabled, mbc=int(wanted.mbc), delay=wanted.delay)


def _apps(seen: Iterable[dcbnl.App]) -> tuple[App, ...]:
    found = [
        App(selector=_SELECTORS.get(each.selector, str(each.selector)), protocol=each.protocol, priority=each.priority)
        for each in seen
    ]
    return tuple(sorted(found, key=lambda app: (app.selector, app.protocol, app.priority)))


def apps_out(entries: Iterable[App]) -> list[dcbnl.App]:
    """Entries as the kernel takes them."""
    return [dcbnl.App(selector(app.selector), app.priority, app.protocol) for app in entries]


def selector(word: str) -> int:
    """The number of a selector; one that has no word is its own number."""
    return _SELECTORS_OUT[word] if word in _SELECTORS_OUT else int(word)


def trust_out(words: Sequence[str]) -> list[int]:
    """Selectors in the order of trust."""
    return [selector(word) for word in words]


def _peer(ieee: dcbnl.Ieee) -> Peer | None:
    if ieee.peer_ets is None and ieee.peer_pfc is None and ieee.peer_apps is None:
        return None
    apps = None if ieee.peer_apps is None else _apps(ieee.peer_apps)
    return Peer(ets=_ets(ieee.peer_ets), pfc=_pfc(ieee.peer_pfc), apps=apps)
