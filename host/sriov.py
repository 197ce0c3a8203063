"""Virtual functions of a NIC, as its physical function administers them: IFLA_VFINFO_LIST in RTM_GETLINK, RTM_NEWLINK.

Kernel documents: ``include/uapi/linux/if_link.h`` (IFLA_VF_*), ``net/core/rtnetlink.c`` (do_setvfinfo),
``ip-link(8)`` (``ip link set DEVICE vf NUM …``).

Index of a VF: its place in :attr:`host.pci.Device.vfs` of the PF. Every setting is a request of its own, since drivers
differ in what they know: EOPNOTSUPP then names the setting. Which VFs exist, and their drivers, is in host.pci.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from host.netlink import Request, Route, attributes, blob, nested, repeated, u32

__all__ = [
    "VfState",
    "changes",
    "parse",
    "set_link_state",
    "set_mac",
    "set_node_guid",
    "set_port_guid",
    "set_rate",
    "set_spoofchk",
    "set_trust",
    "set_vlan",
    "vfs",
]

_RTM_NEWLINK, _RTM_GETLINK = 16, 18
_IFLA_ADDRESS, _IFLA_VFINFO_LIST, _IFLA_EXT_MASK = 1, 22, 29
_RTEXT_FILTER_VF, _RTEXT_FILTER_SKIP_STATS = 1 << 0, 1 << 3
_VF_INFO = 1
_VF_MAC, _VF_VLAN, _VF_SPOOFCHK, _VF_LINK_STATE, _VF_RATE = 1, 2, 4, 5, 6
_VF_TRUST, _VF_NODE_GUID, _VF_PORT_GUID, _VF_VLAN_LIST = 9, 10, 11, 12
_VF_VLAN_INFO = 1

_IFINFO = struct.Struct("=BxHiII")  # struct ifinfomsg: family, (pad), type, index, flags, change
_MAC = struct.Struct("=I32s")  # struct ifla_vf_mac
_VLAN = struct.Struct("=III")  # struct ifla_vf_vlan: vf, vlan, qos
_PROTO = struct.Struct("!H2x")  # the rest of struct ifla_vf_vlan_info: EtherType in network order
_SETTING = struct.Struct("=II")  # struct ifla_vf_spoofchk, _trust, _link_state
_RATE = struct.Struct("=III")  # struct ifla_vf_rate: vf, min, max in Mb/s
_GUID = struct.Struct("=I4xQ")  # struct ifla_vf_guid

_PROTOS = {0x8100: "802.1q", 0x88A8: "802.1ad"}
_LINK_STATES = ("auto", "enable", "disable")
_NOT_TOLD = 0xFFFFFFFF  # what rtnetlink presets where the driver does not answer


class VfState(NamedTuple):
    """One virtual function as its PF administers it. The names of settings are sriov-cni's."""

    vf: int
    """Its index among the PF's."""
    mac: str
    """The administrative MAC; all zeros where none was set. As long as the PF's own address (20 bytes on IPoIB)."""
    vlan: int
    """0: none."""
    vlan_qos: int
    vlan_proto: str
    """``802.1q`` or ``802.1ad``; the EtherType in hex for any other."""
    min_tx_rate: int
    """Mb/s; 0: none guaranteed."""
    max_tx_rate: int
    """Mb/s; 0: no limit."""
    spoofchk: bool | None
    """None: the driver does not tell."""
    trust: bool | None
    link_state: str
    """``auto`` (the PF's), ``enable`` (always up) or ``disable``."""
    node_guid: str
    """``b8ce:f603:00d2:3b1a``; empty where the driver has none for VFs (all but IPoIB's PFs)."""
    port_guid: str


def vfs(route: Route, index: int, *, target: str = "") -> tuple[VfState, ...]:
    """The VFs of the PF whose interface index is ``index``, by their own index; empty for a device without any."""
    body = _IFINFO.pack(0, 0, index, 0, 0) + u32(_IFLA_EXT_MASK, _RTEXT_FILTER_VF | _RTEXT_FILTER_SKIP_STATS)
    answers = route.get(Request(_RTM_GETLINK, 0, body, "read the virtual functions of", target or str(index)))
    return tuple(state for data in answers for state in parse(data))


def parse(data: bytes) -> tuple[VfState, ...]:
    """The VFs in one RTM_NEWLINK payload (struct ifinfomsg and attributes). Entries cut short are left out."""
    attrs = attributes(data, _IFINFO.size)
    length = len(attrs.get(_IFLA_ADDRESS, b"")) or 6
    entries = repeated(attrs.get(_IFLA_VFINFO_LIST, b""))
    states = [_state(attributes(payload), length) for kind, payload in entries if kind == _VF_INFO]
    return tuple(sorted(state for state in states if state is not None))


def _state(attrs: dict[int, bytes], length: int) -> VfState | None:
    identity = attrs.get(_VF_MAC, b"")
    if len(identity) < _MAC.size:
        return None
    vf, mac = _MAC.unpack_from(identity)
    _, vlan, qos = _fields(_VLAN, attrs.get(_VF_VLAN)) or (0, 0, 0)
    _, low, high = _fields(_RATE, attrs.get(_VF_RATE)) or (0, 0, 0)
    link_state = _setting(attrs.get(_VF_LINK_STATE))
    return VfState(
        vf=vf,
        mac=mac[:length].hex(":"),
        vlan=vlan,
        vlan_qos=qos,
        vlan_proto=_proto(attrs.get(_VF_VLAN_LIST, b"")),
        min_tx_rate=low,
        max_tx_rate=high,
        spoofchk=_switch(attrs.get(_VF_SPOOFCHK)),
        trust=_switch(attrs.get(_VF_TRUST)),
        link_state=_LINK_STATES[link_state] if link_state < len(_LINK_STATES) else "auto",
        node_guid=_guid(attrs.get(_VF_NODE_GUID)),
        port_guid=_guid(attrs.get(_VF_PORT_GUID)),
    )


def _fields(form: struct.Struct, payload: bytes | None) -> tuple[int, ...]:
    return form.unpack_from(payload) if payload is not None and len(payload) >= form.size else ()


def _setting(payload: bytes | None) -> int:
    fields = _fields(_SETTING, payload)
    return fields[1] if fields else _NOT_TOLD


def _switch(payload: bytes | None) -> bool | None:
    setting = _setting(payload)
    return None if setting == _NOT_TOLD else bool(setting)


def _proto(vlans: bytes) -> str:
    """EtherType of the first VLAN in the list; 802.1q where the kernel sends none."""
    entry = attributes(vlans).get(_VF_VLAN_INFO, b"")
    fields = _fields(_PROTO, entry[_VLAN.size :])
    return _PROTOS.get(fields[0], f"{fields[0]:#06x}") if fields else "802.1q"


def _guid(payload: bytes | None) -> str:
    fields = _fields(_GUID, payload)
    if not fields:
        return ""
    digits = f"{fields[1]:016x}"
    return ":".join(digits[start : start + 4] for start in range(0, 16, 4))


def set_mac(index: int, vf: int, mac: str, *, target: str = "") -> Request:
    """The administrative MAC; zeros take it back. On mlx5 the VF's node GUID follows it."""
    data = bytes.fromhex(mac.replace(":", ""))
    return _set(index, vf, "MAC", mac, _VF_MAC, _MAC.pack(vf, data.ljust(32, b"\0")), target)


def set_vlan(index: int, vf: int, vlan: int, qos: int = 0, proto: str = "802.1q", *, target: str = "") -> Request:
    """The VLAN that the NIC tags the VF's frames with; 0 for none. ``802.1ad`` needs a driver that knows it."""
    fields = _VLAN.pack(vf, vlan, qos)
    what = f"{vlan} qos {qos} {proto}"
    if proto == "802.1q":
        return _set(index, vf, "VLAN", what, _VF_VLAN, fields, target)
    ether_type = next((number for number, name in _PROTOS.items() if name == proto), None)
    if ether_type is None:
        raise ValueError(f"{proto!r} is none of {', '.join(_PROTOS.values())}")
    info = blob(_VF_VLAN_INFO, fields + _PROTO.pack(ether_type))
    return _set(index, vf, "VLAN", what, _VF_VLAN_LIST | 0x8000, info, target)


def set_rate(index: int, vf: int, low: int, high: int, *, target: str = "") -> Request:
    """Guaranteed and highest transmit rate in Mb/s; 0 for none."""
    return _set(index, vf, "rate", f"{low} to {high} Mb/s", _VF_RATE, _RATE.pack(vf, low, high), target)


def set_spoofchk(index: int, vf: int, on: bool, *, target: str = "") -> Request:
    """Whether the NIC drops the VF's frames that carry another source MAC."""
    return _set(index, vf, "spoofchk", _on(on), _VF_SPOOFCHK, _SETTING.pack(vf, on), target)


def set_trust(index: int, vf: int, on: bool, *, target: str = "") -> Request:
    """Whether the VF may change its MAC and be promiscuous."""
    return _set(index, vf, "trust", _on(on), _VF_TRUST, _SETTING.pack(vf, on), target)


def set_link_state(index: int, vf: int, state: str, *, target: str = "") -> Request:
    """The link that the VF sees: ``auto``, ``enable`` or ``disable``."""
    if state not in _LINK_STATES:
        raise ValueError(f"{state!r} is none of {', '.join(_LINK_STATES)}")
    return _set(index, vf, "link state", state, _VF_LINK_STATE, _SETTING.pack(vf, _LINK_STATES.index(state)), target)


def set_node_guid(index: int, vf: int, guid: str, *, target: str = "") -> Request:
    """The VF's node GUID. Only the PF of an IPoIB device takes one over rtnetlink; Ethernet PFs answer EOPNOTSUPP."""
    return _set(index, vf, "node GUID", guid, _VF_NODE_GUID, _GUID.pack(vf, _guid_number(guid)), target)


def set_port_guid(index: int, vf: int, guid: str, *, target: str = "") -> Request:
    """The VF's port GUID; see :func:`set_node_guid`."""
    return _set(index, vf, "port GUID", guid, _VF_PORT_GUID, _GUID.pack(vf, _guid_number(guid)), target)


def changes(index: int, seen: VfState, wanted: VfState, *, target: str = "") -> tuple[Request, ...]:
    """The requests that turn ``seen`` into ``wanted``, for ADD and (the other way round) for DEL.

    What ``wanted`` does not tell (None, an empty GUID) stays. Order: trust is given first and taken last, so that no
    driver refuses the rest for the lack of it; the spoof check is off while the MAC changes.
    """
    vf = seen.vf
    requests = []
    if wanted.trust and wanted.trust != seen.trust:
        requests.append(set_trust(index, vf, True, target=target))
    if wanted.spoofchk is False and wanted.spoofchk != seen.spoofchk:
        requests.append(set_spoofchk(index, vf, False, target=target))
    if (wanted.vlan, wanted.vlan_qos, wanted.vlan_proto) != (seen.vlan, seen.vlan_qos, seen.vlan_proto):
        requests.append(set_vlan(index, vf, wanted.vlan, wanted.vlan_qos, wanted.vlan_proto, target=target))
    if wanted.mac and wanted.mac != seen.mac:
        requests.append(set_mac(index, vf, wanted.mac, target=target))
    requests += _guid_changes(index, seen, wanted, target)
    if (wanted.min_tx_rate, wanted.max_tx_rate) != (seen.min_tx_rate, seen.max_tx_rate):
        requests.append(set_rate(index, vf, wanted.min_tx_rate, wanted.max_tx_rate, target=target))
    if wanted.spoofchk and wanted.spoofchk != seen.spoofchk:
        requests.append(set_spoofchk(index, vf, True, target=target))
    if wanted.link_state != seen.link_state:
        requests.append(set_link_state(index, vf, wanted.link_state, target=target))
    if wanted.trust is False and wanted.trust != seen.trust:
        requests.append(set_trust(index, vf, False, target=target))
    return tuple(requests)


def _guid_changes(index: int, seen: VfState, wanted: VfState, target: str) -> list[Request]:
    requests = []
    if wanted.node_guid and wanted.node_guid != seen.node_guid:
        requests.append(set_node_guid(index, seen.vf, wanted.node_guid, target=target))
    if wanted.port_guid and wanted.port_guid != seen.port_guid:
        requests.append(set_port_guid(index, seen.vf, wanted.port_guid, target=target))
    return requests


def _guid_number(guid: str) -> int:
    digits = guid.replace(":", "")
    if len(digits) != 16:
        raise ValueError(f"{guid!r} is no GUID such as b8ce:f603:00d2:3b1a")
    return int(digits, 16)


def _on(value: bool) -> str:
    return "on" if value else "off"


def _set(index: int, vf: int, what: str, value: str, kind: int, payload: bytes, target: str) -> Request:
    info = nested(_IFLA_VFINFO_LIST, nested(_VF_INFO, blob(kind, payload)))
    body = _IFINFO.pack(0, 0, index, 0, 0) + info
    return Request(_RTM_NEWLINK, 0, body, f"set {what} {value} on", f"virtual function {vf} of {target or index}")
