"""Network devices over rtnetlink: RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_NEWLINKPROP.

Kernel documents: ``rtnetlink(7)``, ``include/uapi/linux/if_link.h``, ``Documentation/networking/ip-sysctl.rst`` for
the per-device IPv4 settings, which rtnetlink carries as IFLA_AF_SPEC/AF_INET/IFLA_INET_CONF and so sets and reads
in the same messages as the link itself.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from host.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    Request,
    Route,
    attributes,
    blob,
    nested,
    repeated,
    string,
    text,
    u32,
)

__all__ = [
    "CONF4",
    "NetDev",
    "add_altnames",
    "create",
    "delete",
    "delete_group",
    "devices",
    "move",
    "parse",
    "remove_altnames",
    "rename",
    "update",
]

_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_RTM_NEWLINKPROP, _RTM_DELLINKPROP = 108, 109
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_LINK, _IFLA_MASTER = 1, 3, 4, 5, 10
_IFLA_OPERSTATE, _IFLA_LINKINFO, _IFLA_AF_SPEC, _IFLA_GROUP = 16, 18, 26, 27
_IFLA_NET_NS_FD, _IFLA_EXT_MASK, _IFLA_CARRIER, _IFLA_LINK_NETNSID = 28, 29, 33, 37
_IFLA_PROP_LIST, _IFLA_ALT_IFNAME = 52, 53
_IFLA_PERM_ADDRESS, _IFLA_PARENT_DEV_NAME, _IFLA_PARENT_DEV_BUS_NAME = 54, 56, 57
_IFLA_INFO_KIND, _IFLA_INFO_DATA = 1, 2
_IFLA_MACVLAN_MODE, _MACVLAN_MODE_BRIDGE = 1, 4
_IFLA_IPVLAN_MODE, _IPVLAN_MODE_L2 = 1, 0
_IFLA_INET_CONF = 1
_RTEXT_FILTER_SKIP_STATS = 1 << 3
_AF_INET = 2
_IFF_UP = 0x1
_OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")

# struct ifinfomsg: family, (pad), type, index, flags, change
_IFINFO = struct.Struct("=BxHiII")

CONF4: Mapping[str, int] = {  # IPV4_DEVCONF_*, include/uapi/linux/ip.h; the names of net.ipv4.conf.<dev>.*
    "rp_filter": 8,
    "arp_announce": 18,
    "arp_ignore": 19,
    "arp_notify": 22,
}


class NetDev(NamedTuple):
    """One network device as the kernel shows it in one namespace."""

    ifindex: int
    name: str
    kind: str
    """IFLA_INFO_KIND (macvlan, veth, …); empty for a physical device."""
    mac: str
    mtu: int
    """Bytes."""
    up: bool
    """Administratively up (IFF_UP)."""
    operstate: str
    """RFC 2863 state. The kernel computes it in the background, up to a second after a change."""
    carrier: bool
    """Whether the device has a link now (netif_carrier_ok)."""
    group: int
    altnames: tuple[str, ...]
    pci: str
    """PCI address (``0000:18:00.0``), empty for a device that has none. Kernel 5.14 and later."""
    permanent_mac: str
    parent: int
    """Index of the lower device (macvlan, ipvlan) or of the veth peer; 0 for none."""
    parent_elsewhere: bool
    """Whether ``parent`` is an index in another namespace."""
    master: int
    """Index of the bridge or bond that it is a port of; 0 for none."""
    conf4: tuple[tuple[str, int], ...]
    """The settings named in CONF4."""


def devices(route: Route) -> tuple[NetDev, ...]:
    """Every device of the socket's namespace, by index."""
    body = _IFINFO.pack(0, 0, 0, 0, 0) + u32(_IFLA_EXT_MASK, _RTEXT_FILTER_SKIP_STATS)
    return tuple(parse(data) for data in route.dump(Request(_RTM_GETLINK, 0, body, "list", "links")))


def parse(data: bytes) -> NetDev:
    """One RTM_NEWLINK payload (struct ifinfomsg and attributes)."""
    _, _, index, flags, _ = _IFINFO.unpack_from(data)
    attrs = attributes(data, _IFINFO.size)
    info = attributes(attrs.get(_IFLA_LINKINFO, b""))
    on_pci = string(attrs.get(_IFLA_PARENT_DEV_BUS_NAME, b"")) == "pci"
    props = repeated(attrs.get(_IFLA_PROP_LIST, b""))
    state = attrs.get(_IFLA_OPERSTATE, b"\0")[0]
    return NetDev(
        ifindex=index,
        name=string(attrs.get(_IFLA_IFNAME, b"")),
        kind=string(info.get(_IFLA_INFO_KIND, b"")),
        mac=_mac_text(attrs.get(_IFLA_ADDRESS, b"")),
        mtu=_number(attrs.get(_IFLA_MTU)),
        up=bool(flags & _IFF_UP),
        operstate=_OPERSTATES[state] if state < len(_OPERSTATES) else "unknown",
        carrier=attrs.get(_IFLA_CARRIER) != b"\0",
        group=_number(attrs.get(_IFLA_GROUP)),
        altnames=tuple(string(value) for kind, value in props if kind == _IFLA_ALT_IFNAME),
        pci=string(attrs.get(_IFLA_PARENT_DEV_NAME, b"")) if on_pci else "",
        permanent_mac=_mac_text(attrs.get(_IFLA_PERM_ADDRESS, b"")),
        parent=_number(attrs.get(_IFLA_LINK)),
        parent_elsewhere=_IFLA_LINK_NETNSID in attrs,
        master=_number(attrs.get(_IFLA_MASTER)),
        conf4=_conf4(attrs.get(_IFLA_AF_SPEC, b"")),
    )


def _number(payload: bytes | None) -> int:
    return int(struct.unpack("=I", payload)[0]) if payload is not None and len(payload) == 4 else 0


def _mac_text(payload: bytes) -> str:
    return payload.hex(":")


def _conf4(af_spec: bytes) -> tuple[tuple[str, int], ...]:
    values = attributes(attributes(af_spec).get(_AF_INET, b"")).get(_IFLA_INET_CONF, b"")
    return tuple(
        (name, struct.unpack_from("=i", values, 4 * (number - 1))[0])
        for name, number in CONF4.items()
        if len(values) >= 4 * number
    )


def create(
    name: str, kind: str, parent: int, *, netns_fd: int, mtu: int, group: int, mac: str = "", target: str = ""
) -> Request:
    """Create a macvlan (bridge mode) or ipvlan (L2) on device ``parent``, straight into another namespace."""
    data = {
        "macvlan": u32(_IFLA_MACVLAN_MODE, _MACVLAN_MODE_BRIDGE),
        "ipvlan": blob(_IFLA_IPVLAN_MODE, struct.pack("=H", _IPVLAN_MODE_L2)),
    }[kind]
    body = b"".join(
        [
            _IFINFO.pack(0, 0, 0, 0, 0),
            text(_IFLA_IFNAME, name),
            u32(_IFLA_LINK, parent),
            u32(_IFLA_MTU, mtu),
            u32(_IFLA_GROUP, group),
            u32(_IFLA_NET_NS_FD, netns_fd),
            blob(_IFLA_ADDRESS, bytes.fromhex(mac.replace(":", ""))) if mac else b"",
            nested(_IFLA_LINKINFO, text(_IFLA_INFO_KIND, kind), nested(_IFLA_INFO_DATA, data)),
        ]
    )
    return Request(_RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"create {kind}", target or name)


def move(index: int, name: str, netns_fd: int, *, target: str = "") -> Request:
    """Move a device into another namespace under its new name, in one message: no instant with another name."""
    body = _IFINFO.pack(0, 0, index, 0, 0) + text(_IFLA_IFNAME, name) + u32(_IFLA_NET_NS_FD, netns_fd)
    return Request(_RTM_NEWLINK, 0, body, "move", target or name)


def rename(index: int, name: str) -> Request:
    """Give a device another name (older kernels want it down)."""
    body = _IFINFO.pack(0, 0, index, 0, 0) + text(_IFLA_IFNAME, name)
    return Request(_RTM_NEWLINK, 0, body, "rename to", name)


def update(
    index: int,
    *,
    up: bool | None = None,
    mtu: int | None = None,
    mac: str | None = None,
    conf4: Sequence[tuple[str, int]] = (),
    target: str = "",
) -> Request:
    """Change what is given; the rest stays."""
    flags, change = (0, 0) if up is None else (_IFF_UP if up else 0, _IFF_UP)
    body = _IFINFO.pack(0, 0, index, flags, change)
    if mtu is not None:
        body += u32(_IFLA_MTU, mtu)
    if mac is not None:
        body += blob(_IFLA_ADDRESS, bytes.fromhex(mac.replace(":", "")))
    if conf4:
        values = nested(_IFLA_INET_CONF, *(u32(CONF4[name], value) for name, value in conf4))
        body += nested(_IFLA_AF_SPEC, nested(_AF_INET, values))
    return Request(_RTM_NEWLINK, 0, body, "configure", target or str(index))


def delete(index: int, *, target: str = "") -> Request:
    """Delete one device."""
    return Request(_RTM_DELLINK, 0, _IFINFO.pack(0, 0, index, 0, 0), "delete", target or str(index))


def delete_group(group: int) -> Request:
    """Delete every device of a group at once: the kernel waits one RCU grace period for all, not one for each."""
    body = _IFINFO.pack(0, 0, 0, 0, 0) + u32(_IFLA_GROUP, group)
    return Request(_RTM_DELLINK, 0, body, "delete link group", f"{group:#x}")


def add_altnames(index: int, names: Sequence[str], *, target: str = "") -> Request:
    """Give a device further names (IFLA_ALT_IFNAME)."""
    return Request(
        _RTM_NEWLINKPROP,
        NLM_F_CREATE | NLM_F_EXCL,
        _IFINFO.pack(0, 0, index, 0, 0) + nested(_IFLA_PROP_LIST, *(text(_IFLA_ALT_IFNAME, name) for name in names)),
        "add alternative names to",
        target or str(index),
    )


def remove_altnames(index: int, names: Sequence[str], *, target: str = "") -> Request:
    """Take further names away."""
    return Request(
        _RTM_DELLINKPROP,
        0,
        _IFINFO.pack(0, 0, index, 0, 0) + nested(_IFLA_PROP_LIST, *(text(_IFLA_ALT_IFNAME, name) for name in names)),
        "remove alternative names from",
        target or str(index),
    )
