"""Drivers and ports as ethtool sees them: pause, link and private flags over netlink; driver and statistics by ioctl.

Kernel documents: ``Documentation/networking/ethtool-netlink.rst``, ``include/uapi/linux/ethtool_netlink.h``;
``include/uapi/linux/ethtool.h`` for ETHTOOL_GDRVINFO, GSTRINGS and GSTATS, since what ``ethtool -S`` prints has no
netlink form.
"""

from __future__ import annotations

import errno
import fcntl
import struct
from _socket import AF_INET, SOCK_CLOEXEC, SOCK_DGRAM, socket
from array import array
from typing import NamedTuple

from host.errors import HostError
from host.genl import Generic
from host.netlink import attributes, blob, flag8, nested, repeated, string, text

__all__ = [
    "Driver",
    "Ethtool",
    "Pause",
    "parse_driver",
    "parse_flags",
    "parse_pause",
    "parse_speed",
    "parse_statistics",
]

_LINKMODES_GET, _PRIVFLAGS_GET, _PRIVFLAGS_SET, _PAUSE_GET, _PAUSE_SET = 4, 13, 14, 21, 22
_HEADER, _DEV_NAME = 1, 2
_SPEED = 5
_AUTONEG, _RX, _TX = 2, 3, 4
_FLAGS = 2
_BITSET_BITS, _BIT, _BIT_NAME, _BIT_VALUE = 3, 1, 2, 3

_SIOCETHTOOL = 0x8946
_GDRVINFO, _GSTRINGS, _GSTATS, _GSSET_INFO = 0x03, 0x1B, 0x1D, 0x37
_SS_STATS, _NAME = 1, 32  # ETH_SS_STATS, ETH_GSTRING_LEN
_DRVINFO = struct.Struct("=I32s32s32s32s32s12s5I")  # struct ethtool_drvinfo
_MOST = 1 << 16  # statistics of one device: more is damage
_UNKNOWN_SPEED = 0xFFFFFFFF


class Pause(NamedTuple):
    """Global (802.3x) pause."""

    autoneg: bool
    rx: bool
    tx: bool


class Driver(NamedTuple):
    """ETHTOOL_GDRVINFO."""

    name: str
    firmware: str
    """Empty where the driver does not tell."""
    bus: str
    """PCI address."""


def parse_pause(attrs: dict[int, bytes]) -> Pause | None:
    """An answer to PAUSE_GET; None where it is not complete."""
    values = [attrs.get(number) for number in (_AUTONEG, _RX, _TX)]
    if not all(values):
        return None
    autoneg, rx, tx = (bool(value and value[0]) for value in values)
    return Pause(autoneg, rx, tx)


def parse_speed(attrs: dict[int, bytes]) -> int | None:
    """Mb/s in an answer to LINKMODES_GET; None without a link."""
    payload = attrs.get(_SPEED, b"")
    if len(payload) != 4:
        return None
    (speed,) = struct.unpack("=I", payload)
    return None if speed in (0, _UNKNOWN_SPEED) else int(speed)


def parse_flags(attrs: dict[int, bytes]) -> dict[str, bool]:
    """Private flags by name, of an answer to PRIVFLAGS_GET (a verbose bitset)."""
    found = {}
    for kind, payload in repeated(attributes(attrs.get(_FLAGS, b"")).get(_BITSET_BITS, b"")):
        bit = attributes(payload)
        name = string(bit.get(_BIT_NAME, b""))
        if kind == _BIT and name:
            found[name] = _BIT_VALUE in bit
    return found


def parse_driver(data: bytes) -> Driver:
    """struct ethtool_drvinfo."""
    _, name, _, firmware, bus, *_ = _DRVINFO.unpack_from(data)
    return Driver(string(name), string(firmware), string(bus))


def parse_statistics(names: bytes, values: bytes) -> dict[str, int]:
    """Strings of 32 bytes and numbers of eight, in the same order."""
    count = min(len(names) // _NAME, len(values) // 8)
    words = (string(names[at : at + _NAME]).strip() for at in range(0, count * _NAME, _NAME))
    return dict(zip(words, struct.unpack_from(f"={count}Q", values), strict=True))


class Ethtool:
    """Sockets for ethtool. They belong to the network namespace that their maker was in."""

    def __init__(self) -> None:
        self._generic = Generic("ethtool")
        self._plain = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)
        self._names: dict[str, bytes] = {}

    def close(self) -> None:
        """Release them."""
        self._generic.close()
        self._plain.close()

    def pause(self, device: str) -> Pause | None:
        """None where the driver has none."""
        attrs = self._get(_PAUSE_GET, device, "read the pause settings of")
        return None if attrs is None else parse_pause(attrs)

    def set_pause(self, device: str, pause: Pause) -> None:
        """All three settings at once."""
        values = zip((_AUTONEG, _RX, _TX), pause, strict=True)
        attrs = b"".join(flag8(number, value) for number, value in values)
        operation = f"set pause rx {_on(pause.rx)} tx {_on(pause.tx)} on"
        self._generic.request(_PAUSE_SET, _of(device) + attrs, operation, device)

    def speed(self, device: str) -> int | None:
        """Mb/s; None without a link."""
        attrs = self._get(_LINKMODES_GET, device, "read the link modes of")
        return None if attrs is None else parse_speed(attrs)

    def flags(self, device: str) -> dict[str, bool]:
        """The driver's private flags; empty where it has none."""
        return parse_flags(self._get(_PRIVFLAGS_GET, device, "read the private flags of") or {})

    def set_flag(self, device: str, name: str, on: bool) -> None:
        """Turn one private flag."""
        value = blob(_BIT_VALUE, b"") if on else b""
        flags = nested(_FLAGS, nested(_BITSET_BITS, nested(_BIT, text(_BIT_NAME, name), value)))
        self._generic.request(_PRIVFLAGS_SET, _of(device) + flags, f"set private flag {name} {_on(on)} on", device)

    def driver(self, device: str) -> Driver | None:
        """None where the device has no driver that tells."""
        data = self._ioctl(device, struct.pack("=I", _GDRVINFO).ljust(_DRVINFO.size, b"\0"), "read the driver of")
        return None if data is None else parse_driver(data)

    def statistics(self, device: str) -> dict[str, int]:
        """What ``ethtool -S`` prints, by name; empty where the driver has none."""
        names = self._names.get(device)
        if names is None:
            names = self._names[device] = self._strings(device)
        count = len(names) // _NAME
        if not count:
            return {}
        request = struct.pack("=II", _GSTATS, count).ljust(8 + 8 * count, b"\0")
        data = self._ioctl(device, request, "read the statistics of")
        return parse_statistics(names, (data or b"")[8:])

    def _strings(self, device: str) -> bytes:
        request = struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SS_STATS, 0)
        data = self._ioctl(device, request, "count the statistics of")
        if data is None:
            return b""
        _, _, mask, count = struct.unpack_from("=IIQI", data)
        if not mask or not 0 < count <= _MOST:
            return b""
        request = struct.pack("=III", _GSTRINGS, _SS_STATS, count).ljust(12 + _NAME * count, b"\0")
        return (self._ioctl(device, request, "name the statistics of") or b"")[12:]

    def _ioctl(self, device: str, request: bytes, operation: str) -> bytes | None:
        """One SIOCETHTOOL; None where the driver lacks it."""
        buffer = array("B", request)
        ifreq = struct.pack("16sP16x", device.encode()[:15], buffer.buffer_info()[0])
        try:
            fcntl.ioctl(self._plain, _SIOCETHTOOL, ifreq)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return None
            raise HostError(operation, device, error.errno or 0) from error
        return buffer.tobytes()

    def _get(self, command: int, device: str, operation: str) -> dict[int, bytes] | None:
        try:
            answers = self._generic.request(command, _of(device), operation, device)
        except HostError as error:
            if error.errno == errno.EOPNOTSUPP:
                return None
            raise
        return next((found for answer in answers if (found := _content(answer))), None)


def _content(attrs: dict[int, bytes]) -> dict[int, bytes]:
    """The attributes of an answer without its header."""
    return {number: payload for number, payload in attrs.items() if number != _HEADER}


def _of(device: str) -> bytes:
    """The header that every request has."""
    return nested(_HEADER, text(_DEV_NAME, device))


def _on(value: bool) -> str:
    return "on" if value else "off"
