"""Data centre bridging of a port over dcbnl: RTM_GETDCB, RTM_SETDCB with the IEEE attributes.

Kernel documents: ``include/uapi/linux/dcbnl.h``, ``net/dcb/dcbnl.c``; ``dcb(8)`` shows the same.

Three habits of the kernel shape this module. A SET's own answer carries the driver's refusal as a signed byte while
the acknowledgement says success, so both are looked at. One SET message can succeed by halves, so every function here
sends one thing. A set operation that a driver lacks succeeds silently, so callers read back: nothing here is a proof.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from host.errors import HostError
from host.netlink import Request, Route, attributes, blob, repeated, text

__all__ = [
    "DSCP",
    "PCP",
    "App",
    "Buffer",
    "Dcb",
    "Ets",
    "Ieee",
    "Pfc",
    "pack_apps",
    "pack_buffer",
    "pack_ets",
    "pack_maxrate",
    "pack_pfc",
    "pack_trust",
    "parse_ieee",
]

RTM_GETDCB, RTM_SETDCB = 78, 79
_IFNAME, _IEEE, _DCBX = 1, 13, 14  # enum dcbnl_attrs
_HEADER = struct.Struct("=BBH")  # struct dcbmsg: family, command, padding
_IEEE_SET, _IEEE_GET, _GDCBX, _SDCBX, _IEEE_DEL = 20, 21, 22, 23, 27

# enum ieee_attrs
_ETS, _PFC, _APP_TABLE, _PEER_ETS, _PEER_PFC, _PEER_APP, _MAXRATE = 1, 2, 3, 4, 5, 6, 7
_BUFFER, _APP_TRUST, _REWR = 10, 11, 12
_IEEE_APP, _DCB_APP = 1, 2
_NESTED = 0x8000

DSCP, PCP = 5, 255
"""Selectors of APP entries; 1 EtherType, 2 TCP or SCTP port, 3 UDP port, 4 any port."""

_ETS_FORM = struct.Struct("=BBB8B8B8B8B8B8B8B")  # struct ieee_ets, 59 bytes
_PFC_FORM = struct.Struct("=BBBxH2x8Q8Q")  # struct ieee_pfc, 136 bytes
_MAXRATE_FORM = struct.Struct("=8Q")  # struct ieee_maxrate: kb/s
_BUFFER_FORM = struct.Struct("=8B8II")  # struct dcbnl_buffer, 44 bytes
_APP_FORM = struct.Struct("=BBH")  # struct dcb_app: selector, priority, protocol
_EIGHT = (0,) * 8


class Ets(NamedTuple):
    """struct ieee_ets; eight numbers each, by traffic class or by priority."""

    willing: int = 0
    cap: int = 0
    """Traffic classes that the port has."""
    cbs: int = 0
    tx_bw: tuple[int, ...] = _EIGHT
    """Percent, by traffic class."""
    rx_bw: tuple[int, ...] = _EIGHT
    tsa: tuple[int, ...] = _EIGHT
    """By traffic class: 0 strict, 1 credit-based shaper, 2 ETS, 255 the vendor's."""
    prio_tc: tuple[int, ...] = _EIGHT
    """Traffic class of each priority."""
    reco_bw: tuple[int, ...] = _EIGHT
    reco_tsa: tuple[int, ...] = _EIGHT
    reco_prio_tc: tuple[int, ...] = _EIGHT


class Pfc(NamedTuple):
    """struct ieee_pfc."""

    cap: int = 0
    """Priorities that may be enabled at once."""
    enabled: int = 0
    """Bit n: priority n."""
    mbc: int = 0
    delay: int = 0
    requests: tuple[int, ...] = _EIGHT
    """Pause frames sent, by priority."""
    indications: tuple[int, ...] = _EIGHT


class App(NamedTuple):
    """struct dcb_app: one entry of the APP table, or of the rewrite table (where ``protocol`` is what is written)."""

    selector: int
    priority: int
    protocol: int


class Buffer(NamedTuple):
    """struct dcbnl_buffer."""

    prio_buffer: tuple[int, ...] = _EIGHT
    size: tuple[int, ...] = _EIGHT
    """Bytes."""
    total: int = 0


class Ieee(NamedTuple):
    """A port's IEEE DCB. None: the driver has no such operation, or told nothing."""

    ets: Ets | None = None
    pfc: Pfc | None = None
    apps: tuple[App, ...] | None = None
    peer_ets: Ets | None = None
    peer_pfc: Pfc | None = None
    peer_apps: tuple[App, ...] | None = None
    maxrate: tuple[int, ...] | None = None
    buffer: Buffer | None = None
    trust: tuple[int, ...] | None = None
    """Selectors in the order of trust. Kernel 6.2."""
    rewrite: tuple[App, ...] | None = None
    """Kernel 6.3."""


def parse_ieee(data: bytes) -> Ieee:
    """The content of DCB_ATTR_IEEE in an answer. Structures that are cut short are unknown; nothing raises."""
    found = attributes(data)
    return Ieee(
        ets=_ets(found.get(_ETS)),
        pfc=_pfc(found.get(_PFC)),
        apps=_apps(found.get(_APP_TABLE)),
        peer_ets=_ets(found.get(_PEER_ETS)),
        peer_pfc=_pfc(found.get(_PEER_PFC)),
        peer_apps=_apps(found.get(_PEER_APP)),
        maxrate=_fields(_MAXRATE_FORM, found.get(_MAXRATE)),
        buffer=_buffer(found.get(_BUFFER)),
        trust=_trust(found.get(_APP_TRUST)),
        rewrite=_apps(found.get(_REWR)),
    )


def _fields(form: struct.Struct, payload: bytes | None) -> tuple[int, ...] | None:
    return form.unpack_from(payload) if payload is not None and len(payload) >= form.size else None


def _ets(payload: bytes | None) -> Ets | None:
    fields = _fields(_ETS_FORM, payload)
    if fields is None:
        return None
    willing, cap, cbs, *_ = fields
    tx_bw, rx_bw, tsa, prio_tc, reco_bw, reco_tsa, reco_prio_tc = (fields[at : at + 8] for at in range(3, 59, 8))
    return Ets(willing, cap, cbs, tx_bw, rx_bw, tsa, prio_tc, reco_bw, reco_tsa, reco_prio_tc)


def _pfc(payload: bytes | None) -> Pfc | None:
    fields = _fields(_PFC_FORM, payload)
    if fields is None:
        return None
    cap, enabled, mbc, delay, *_ = fields
    return Pfc(cap, enabled, mbc, delay, fields[4:12], fields[12:])


def _buffer(payload: bytes | None) -> Buffer | None:
    fields = _fields(_BUFFER_FORM, payload)
    return None if fields is None else Buffer(fields[:8], fields[8:16], fields[16])


def _apps(payload: bytes | None) -> tuple[App, ...] | None:
    """A table; PEER_APP's entries have the same form under another attribute number."""
    if payload is None:
        return None
    entries = (_fields(_APP_FORM, each) for kind, each in repeated(payload) if kind in (_IEEE_APP, _DCB_APP))
    return tuple(sorted(App(*fields) for fields in entries if fields is not None))


def _trust(payload: bytes | None) -> tuple[int, ...] | None:
    return None if payload is None else tuple(each[0] for _, each in repeated(payload) if each)


def pack_ets(ets: Ets) -> bytes:
    """DCB_ATTR_IEEE_ETS."""
    arrays = (ets.tx_bw, ets.rx_bw, ets.tsa, ets.prio_tc, ets.reco_bw, ets.reco_tsa, ets.reco_prio_tc)
    return blob(_ETS, _ETS_FORM.pack(ets.willing, ets.cap, ets.cbs, *(value for array in arrays for value in array)))


def pack_pfc(pfc: Pfc) -> bytes:
    """DCB_ATTR_IEEE_PFC; counters are not sent."""
    return blob(_PFC, _PFC_FORM.pack(pfc.cap, pfc.enabled, pfc.mbc, pfc.delay, *_EIGHT, *_EIGHT))


def pack_maxrate(kbps: Sequence[int]) -> bytes:
    """DCB_ATTR_IEEE_MAXRATE; kb/s by traffic class."""
    return blob(_MAXRATE, _MAXRATE_FORM.pack(*kbps))


def pack_buffer(buffer: Buffer) -> bytes:
    """DCB_ATTR_DCB_BUFFER."""
    return blob(_BUFFER, _BUFFER_FORM.pack(*buffer.prio_buffer, *buffer.size, buffer.total))


def pack_apps(entries: Iterable[App], *, rewrite: bool = False) -> bytes:
    """DCB_ATTR_IEEE_APP_TABLE, or DCB_ATTR_DCB_REWR_TABLE."""
    inner = b"".join(blob(_app_kind(app.selector), _APP_FORM.pack(*app)) for app in entries)
    return blob((_REWR if rewrite else _APP_TABLE) | _NESTED, inner)


def pack_trust(selectors: Sequence[int]) -> bytes:
    """DCB_ATTR_DCB_APP_TRUST_TABLE."""
    inner = b"".join(blob(_app_kind(selector), bytes([selector])) for selector in selectors)
    return blob(_APP_TRUST | _NESTED, inner)


def _app_kind(selector: int) -> int:
    return _DCB_APP if selector == PCP else _IEEE_APP


class Dcb:
    """A socket for DCB. It belongs to the network namespace that its maker was in."""

    def __init__(self) -> None:
        self._route = Route()

    def close(self) -> None:
        """Release the socket."""
        self._route.close()

    def get(self, device: str) -> Ieee | None:
        """What a port has; None where its driver (or this kernel) has no DCB."""
        content = self._read(_IEEE_GET, _IEEE, device, "read the DCB of")
        return None if content is None else parse_ieee(content)

    def dcbx(self, device: str) -> int | None:
        """DCB_CAP_DCBX_* bits: 1 host, 2 LLD-managed, 4 CEE, 8 IEEE, 0x10 static; None for unknown."""
        content = self._read(_GDCBX, _DCBX, device, "read the DCBX mode of")
        return content[0] if content else None

    def set_dcbx(self, device: str, mode: int) -> None:
        """Who negotiates; a driver refuses with a plain "no"."""
        operation = f"set DCBX mode {mode:#x} of"
        content = self._ask(RTM_SETDCB, _SDCBX, _DCBX, device, operation, blob(_DCBX, bytes([mode])))
        if content is None or content[0] != 0:
            raise HostError(operation, device, 0, "the driver refused")

    def set(self, device: str, what: str, payload: bytes) -> None:
        """Set one thing (made by a ``pack_`` function). ``what`` names it in the error."""
        self._change(_IEEE_SET, "set", device, what, payload)

    def delete(self, device: str, what: str, payload: bytes) -> None:
        """Delete entries of a table."""
        self._change(_IEEE_DEL, "delete", device, what, payload)

    def _change(self, command: int, verb: str, device: str, what: str, payload: bytes) -> None:
        operation = f"{verb} {what} of"
        content = self._ask(RTM_SETDCB, command, _IEEE, device, operation, blob(_IEEE | _NESTED, payload))
        if not content:
            raise HostError(operation, device, 0, "the kernel acknowledged and told no result")
        (code,) = struct.unpack("=b", content[:1])
        if code != 0:
            raise HostError(operation, device, abs(code))

    def _read(self, command: int, wanted: int, device: str, operation: str) -> bytes | None:
        """An attribute of the answer; None where the driver has no such operation."""
        try:
            return self._ask(RTM_GETDCB, command, wanted, device, operation)
        except HostError as error:
            if error.errno == errno.EOPNOTSUPP:
                return None
            raise

    def _ask(
        self, kind: int, command: int, wanted: int, device: str, operation: str, payload: bytes = b""
    ) -> bytes | None:
        """Send one request; an attribute of the first message of the answer that has it."""
        body = _HEADER.pack(0, command, 0) + text(_IFNAME, device) + payload
        answers = self._route.get(Request(kind, 0, body, operation, device))
        found = (attributes(answer, _HEADER.size).get(wanted) for answer in answers)
        return next((each for each in found if each is not None), None)
