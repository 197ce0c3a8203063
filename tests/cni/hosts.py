"""Hosts and pods as text, for tests of what is pure: one line for each device."""

from __future__ import annotations

from cni.plan import HostView
from host.addr import Address
from host.link import NetDev

ARP = (("rp_filter", 1), ("arp_announce", 0), ("arp_ignore", 0), ("arp_notify", 0))


def netdev(name: str, index: int = 2, **fields: object) -> NetDev:
    """A device that is up and has nothing special."""
    plain = NetDev(
        ifindex=index,
        name=name,
        kind="",
        mac=f"02:00:00:00:00:{index:02x}",
        mtu=9000,
        up=True,
        operstate="up",
        carrier=True,
        master=0,
        group=0,
        altnames=(),
        pci="",
        permanent_mac="",
        parent=0,
        parent_elsewhere=False,
        conf4=ARP,
    )
    return plain._replace(**fields)  # type: ignore[arg-type]


def view(text: str) -> HostView:
    """A host from lines ``INDEX NAME [word value]… [flag]…``.

    Words: mtu, pci, altname, addr, kind, on (the device below), master. Flags: down, uplink.
    """
    devices, addresses, uplinks = [], [], set()
    for line in text.strip().splitlines():
        number, name, *words = line.split()
        index = int(number)
        device = netdev(name, index)
        while words:
            match words.pop(0):
                case "mtu":
                    device = device._replace(mtu=int(words.pop(0)))
                case "pci":
                    device = device._replace(pci=words.pop(0), permanent_mac=f"04:00:00:00:00:{index:02x}")
                case "altname":
                    device = device._replace(altnames=(*device.altnames, words.pop(0)))
                case "kind":
                    device = device._replace(kind=words.pop(0))
                case "on":
                    device = device._replace(parent=int(words.pop(0)))
                case "master":
                    device = device._replace(master=int(words.pop(0)))
                case "addr":
                    addresses.append(Address(index, words.pop(0), 0, usable=True, permanent=True))
                case "dynamic":
                    addresses.append(Address(index, words.pop(0), 0, usable=True, permanent=False))
                case "down":
                    device = device._replace(up=False)
                case "uplink":
                    uplinks.add(index)
                case word:
                    raise AssertionError(f"{line}: {word}?")
        devices.append(device)
    return HostView(tuple(devices), tuple(addresses), frozenset(uplinks))
