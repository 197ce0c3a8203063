"""Frames: LLDP with DCBX, and RoCEv2-shaped probes. The one module that imports scapy (364 ms).

``make_lldp`` and ``read_lldp`` are inverse, as are ``make_probe`` and ``read_probe``.
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)  # it warns about missing routes when it is imported

from scapy.config import conf as scapy_conf  # noqa: E402 - see above
from scapy.contrib.lldp import (  # noqa: E402
    LLDPDUChassisID,
    LLDPDUEndOfLLDPDU,
    LLDPDUGenericOrganisationSpecific,
    LLDPDUPortDescription,
    LLDPDUPortID,
    LLDPDUSystemName,
    LLDPDUTimeToLive,
)
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.error import Scapy_Exception  # noqa: E402
from scapy.fields import (  # noqa: E402
    BitField,
    ByteField,
    PacketListField,
    ShortField,
)
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.packet import Packet, Raw  # noqa: E402
from scapy.utils import PcapReader  # noqa: E402

from host.errors import HostError  # noqa: E402
from tuner.lldp import App, Ets, Lldp, Pfc  # noqa: E402
from tuner.prove import Probe, Seen, pack, unpack  # noqa: E402

__all__ = ["BadFrame", "listen_lldp", "make_lldp", "make_probe", "read_capture", "read_lldp", "read_probe"]

LLDP_TYPE = 0x88CC
LLDP_MAC = "01:80:c2:00:00:0e"
_IEEE, _CEE = 0x0080C2, 0x001B21
_ETS, _ETS_RECOMMENDED, _PFC, _APP = 9, 10, 11, 12
_MOST_FRAMES = 1_000_000
_MAC_SUBTYPES = {"chassis": 4, "port": 3}
_UD_SEND_ONLY = 0x64
_TRANSPORT_HEADER = 12  # bytes of a base transport header
_SOURCE_PORT = 0xC000  # the first that RoCEv2 senders use; the whole of a run is one flow, and so takes one path
_NO_QUEUE_PAIR = 0xFFFFFE  # 24 bits; a NIC that looks at the frame finds no such queue pair and drops it


class BadFrame(ValueError):  # noqa: N818 - it says what the frame is
    """The bytes are no such frame."""


def _shares() -> list[Any]:
    """20 bytes: a nibble for each priority's class, then bandwidth and algorithm of each class."""
    nibbles = [BitField(f"prio{index}_tc", 0, 4) for index in range(8)]
    return [*nibbles, *(ByteField(f"{name}{index}", 0) for name in ("tc_bw", "tsa") for index in range(8))]


class EtsConfiguration(Packet):
    """Subtype 9: 21 bytes after OUI and subtype."""

    name = "802.1Qaz ETS configuration"
    fields_desc = [  # noqa: RUF012 - scapy's way, here and below
        BitField("willing", 0, 1),
        BitField("cbs", 0, 1),
        BitField("reserved", 0, 3),
        BitField("max_tc", 0, 3),
        *_shares(),
    ]


class EtsRecommendation(Packet):
    """Subtype 10: the same, a reserved byte first."""

    name = "802.1Qaz ETS recommendation"
    fields_desc = [ByteField("reserved", 0), *_shares()]  # noqa: RUF012


class PfcConfiguration(Packet):
    """Subtype 11: 2 bytes."""

    name = "802.1Qaz PFC configuration"
    fields_desc = [  # noqa: RUF012
        BitField("willing", 0, 1),
        BitField("mbc", 0, 1),
        BitField("reserved", 0, 2),
        BitField("cap", 0, 4),
        ByteField("enabled", 0),
    ]


class AppEntry(Packet):
    """Three bytes: priority, reserved, selector; protocol."""

    name = "802.1Qaz application"
    fields_desc = [  # noqa: RUF012
        BitField("priority", 0, 3),
        BitField("reserved", 0, 2),
        BitField("selector", 0, 3),
        ShortField("protocol", 0),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """The next entry is not part of this one."""
        return b"", s


class ApplicationTable(Packet):
    """Subtype 12."""

    name = "802.1Qaz application priority"
    fields_desc = [ByteField("reserved", 0), PacketListField("entries", [], AppEntry)]  # noqa: RUF012


_SIZES = {_ETS: 21, _ETS_RECOMMENDED: 21, _PFC: 2}


# --- LLDP ----------------------------------------------------------------------------------------------------------


def make_lldp(lldp: Lldp) -> bytes:
    """The frame that says this, sent to the nearest bridge."""
    frame = Ether(dst=LLDP_MAC, src=lldp.source or "02:00:00:00:00:01", type=LLDP_TYPE)
    frame /= _identity(LLDPDUChassisID, lldp.chassis, "chassis", 7) / _identity(LLDPDUPortID, lldp.port, "port", 7)
    frame /= LLDPDUTimeToLive(ttl=lldp.ttl)
    if lldp.description is not None:
        frame /= LLDPDUPortDescription(description=lldp.description.encode())
    if lldp.system is not None:
        frame /= LLDPDUSystemName(system_name=lldp.system.encode())
    for subtype, part in _parts(lldp):
        data = bytes(part)
        frame /= LLDPDUGenericOrganisationSpecific(org_code=_IEEE, subtype=subtype, data=data)
    if lldp.cee:
        frame /= LLDPDUGenericOrganisationSpecific(org_code=_CEE, subtype=2, data=b"")
    return bytes(frame / LLDPDUEndOfLLDPDU())


def _identity(kind: Any, text: str, what: str, local: int) -> Any:
    """A MAC address as such, anything else as a locally assigned name."""
    if len(text) == 17 and text.count(":") == 5:
        return kind(subtype=_MAC_SUBTYPES[what], id=text)
    return kind(subtype=local, id=text.encode())


def _parts(lldp: Lldp) -> Iterator[tuple[int, Packet]]:
    if (ets := lldp.ets) is not None:
        flags: dict[str, Any] = {"willing": ets.willing, "cbs": ets.credit_based, "max_tc": ets.max_classes % 8}
        yield _ETS, EtsConfiguration(**flags, **_fields(ets))
    if lldp.recommended is not None:
        yield _ETS_RECOMMENDED, EtsRecommendation(**_fields(lldp.recommended))
    if (pfc := lldp.pfc) is not None:
        bits = sum(1 << priority for priority in pfc.enabled)
        yield (
            _PFC,
            PfcConfiguration(willing=pfc.willing, mbc=pfc.macsec_bypass, cap=pfc.capability, enabled=bits),
        )
    if lldp.apps is not None:
        entries = [AppEntry(priority=app.priority, selector=app.selector, protocol=app.protocol) for app in lldp.apps]
        yield _APP, ApplicationTable(entries=entries)


def _fields(ets: Ets) -> dict[str, Any]:
    """The fields of :func:`_shares`."""
    return {
        name: value
        for index in range(8)
        for name, value in (
            (f"prio{index}_tc", ets.classes[index]),
            (f"tc_bw{index}", ets.bandwidth[index]),
            (f"tsa{index}", ets.algorithms[index]),
        )
    }


def read_lldp(data: bytes) -> Lldp:
    """What a frame says. BadFrame where it is no LLDP frame, or is cut."""
    scapy_conf.contribs["LLDP"].strict_mode_disable()  # order and repetition are the sender's business
    try:
        frame = Ether(data)
        lldp = _read(frame)
    except (Scapy_Exception, ValueError, TypeError, IndexError, struct.error, AssertionError) as error:
        raise BadFrame(f"is no LLDP frame: {type(error).__name__}") from None
    return lldp


def _read(frame: Packet) -> Lldp:
    layers = [frame.getlayer(index) for index in range(1, 200) if frame.getlayer(index) is not None]
    found: dict[str, Any] = {}
    for layer in layers:
        if isinstance(layer, LLDPDUChassisID):
            found.setdefault("chassis", _name(layer.id))
        elif isinstance(layer, LLDPDUPortID):
            found.setdefault("port", _name(layer.id))
        elif isinstance(layer, LLDPDUTimeToLive):
            found.setdefault("ttl", int(layer.ttl))
        elif isinstance(layer, LLDPDUSystemName):
            found["system"] = _name(layer.system_name)
        elif isinstance(layer, LLDPDUPortDescription):
            found["description"] = _name(layer.description)
        elif isinstance(layer, LLDPDUGenericOrganisationSpecific):
            found.update(_specific(int(layer.org_code), int(layer.subtype), bytes(layer.data)))
    if not {"chassis", "port", "ttl"} <= {*found}:
        raise ValueError("a TLV that every LLDP frame has is missing")
    return Lldp(**found, source=str(frame.src).lower())


def _name(value: Any) -> str:
    """Text of a TLV; what is not printable is escaped."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)[:255]


def _specific(org: int, subtype: int, data: bytes) -> dict[str, Any]:
    if org == _CEE:
        return {"cee": True}
    if org != _IEEE or subtype not in _READ:
        return {}
    if len(data) < _SIZES.get(subtype, 1):
        raise ValueError("a DCBX TLV is cut")
    return _READ[subtype](data)


def _read_ets(data: bytes) -> dict[str, Any]:
    tlv = EtsConfiguration(data)
    flags: dict[str, Any] = {"willing": bool(tlv.willing), "credit_based": bool(tlv.cbs)}
    return {"ets": _ets(tlv, max_classes=int(tlv.max_tc) or 8, **flags)}


def _read_recommended(data: bytes) -> dict[str, Any]:
    return {"recommended": _ets(EtsRecommendation(data))}


def _ets(tlv: Packet, **flags: Any) -> Ets:
    def eight(name: str) -> tuple[int, ...]:
        return tuple(int(tlv.getfieldval(name.format(index))) for index in range(8))

    return Ets(eight("prio{}_tc"), eight("tc_bw{}"), eight("tsa{}"), **flags)


def _read_pfc(data: bytes) -> dict[str, Any]:
    tlv = PfcConfiguration(data)
    enabled = frozenset(priority for priority in range(8) if tlv.enabled >> priority & 1)
    return {"pfc": Pfc(enabled, bool(tlv.willing), bool(tlv.mbc), int(tlv.cap))}


def _read_apps(data: bytes) -> dict[str, Any]:
    table = ApplicationTable(data[: 1 + (len(data) - 1) // 3 * 3])
    apps = tuple(App(int(each.priority), int(each.selector), int(each.protocol)) for each in table.entries)
    return {"apps": apps}


_READ = {_ETS: _read_ets, _ETS_RECOMMENDED: _read_recommended, _PFC: _read_pfc, _APP: _read_apps}


def read_capture(path: Path) -> Iterator[Lldp]:
    """The LLDP frames of a pcap or pcapng file; others are passed over. HostError where the file cannot be read."""
    try:
        with PcapReader(str(path)) as reader:
            for number, frame in enumerate(reader):
                if number >= _MOST_FRAMES:
                    return
                data = bytes(frame)
                if _ethertype(data) == LLDP_TYPE:
                    try:
                        yield read_lldp(data)
                    except BadFrame:
                        continue
    except OSError as error:
        raise HostError("read", str(path), error.errno or 0) from None
    except (Scapy_Exception, EOFError, struct.error, ValueError) as error:
        raise HostError("read", str(path), detail=f"is no capture file: {error}") from None


def _ethertype(data: bytes) -> int:
    at = 12
    while data[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    return int.from_bytes(data[at : at + 2], "big")


def listen_lldp(interface: str, seconds: float) -> Iterator[Lldp]:
    """LLDP frames as they come in on an interface, for a time. HostError where it cannot be listened on."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(LLDP_TYPE)) as packets:
            packets.bind((interface, LLDP_TYPE))
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                packets.settimeout(left)
                try:
                    data, address = packets.recvfrom(2048)
                except TimeoutError:
                    return
                if address[2] != socket.PACKET_OUTGOING:
                    try:
                        yield read_lldp(data)
                    except BadFrame:
                        continue
    except OSError as error:
        raise HostError("listen for LLDP on", interface, error.errno or 0) from None


# --- probes --------------------------------------------------------------------------------------------------------


def make_probe(probe: Probe) -> bytes:
    """A frame like a RoCEv2 datagram (UDP 4791, a base transport header, its CRC), with the probe in its payload."""
    flow: dict[str, Any] = {"src": str(probe.source), "dst": str(probe.target)}
    tos = probe.dscp << 2 | probe.ecn
    network = IP(**flow, tos=tos, ttl=64, flags="DF") if probe.source.version == 4 else IPv6(**flow, tc=tos, hlim=64)
    frame = Ether(src=probe.source_mac, dst=probe.target_mac) / network / UDP(sport=_SOURCE_PORT, dport=probe.port)
    header = BTH(opcode=_UD_SEND_ONLY, dqpn=_NO_QUEUE_PAIR, psn=probe.sequence & 0xFFFFFF)
    return bytes(frame / header / Raw(pack(probe)))


def read_probe(data: bytes) -> Seen:
    """A probe as it arrived. BadFrame for anything else."""
    try:
        frame = Ether(data)
        network = frame.getlayer(IP) or frame.getlayer(IPv6)
        if network is None or UDP not in frame:
            raise ValueError("is no UDP datagram")
        tos = int(network.tos if isinstance(network, IP) else network.tc)
        return unpack(bytes(frame[UDP].payload)[_TRANSPORT_HEADER:], tos)
    except ValueError as error:
        raise BadFrame(str(error)) from None
    except (Scapy_Exception, TypeError, IndexError, struct.error) as error:
        raise BadFrame(f"is no probe: {type(error).__name__}") from None
