"""Reads a host's NICs through the doors of ``host`` into the model. Decides nothing; what it cannot read is None."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar

from host import addr, dcbnl, ethtool, link, pci, rdma, roce
from host.errors import HostError
from host.netlink import Route
from tuner import nic as model
from tuner.counters import counters
from tuner.dcb import dcbx_in, fields
from tuner.drivers import adapter
from tuner.machine import facts, integer, number, sysctls
from tuner.nic import Ecn, HostQos, NicQos, Pause, Tos
from tuner.users import ABSENT, has_driver, users

__all__ = ["Doors", "gather", "place", "refresh"]

_T = TypeVar("_T")
_LLDP_FLAGS = ("fw-lldp-agent",)


class Doors:
    """The open doors of one look at a host; close them. They belong to the network namespace of their maker."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.route = Route()
        self.dcb = dcbnl.Dcb()
        self.ethtool = ethtool.Ethtool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the sockets."""
        self.route.close()
        self.dcb.close()
        self.ethtool.close()

    @property
    def sysfs(self) -> str:
        """The host's sysfs."""
        return os.path.join(self.root, "sys")


def gather(
    doors: Doors,
    names: Sequence[str] | None = None,
    rails: Mapping[str, str] | None = None,
    *,
    in_use: bool = True,
    absent: bool = False,
) -> HostQos:
    """The host's NICs as they are now.

    ``names`` are NICs by netdev, PCI address or alternative name; None: every NIC that is no virtual function and has
    DCB or an RDMA device of its own. ``rails`` gives the rail of each name. A named VF stands for its physical
    function, whose QoS it has. ``in_use`` False spares the look into other network namespaces. HostError for a name
    that is no NIC here; with ``absent`` it is left out.
    """
    netdevs = link.devices(doors.route)
    devices = {port.pci: port for port in rdma.devices(sysfs=doors.sysfs) if port.pci}
    if names is None:
        wanted = [("", each) for each in _all(doors, netdevs, devices)]
    else:
        wanted = [(name, found) for name in names if (found := _resolve(doors, name, netdevs, absent)) is not None]
    held = users(doors.root, [address for _, (_, address) in wanted], netdevs) if in_use else {}
    addresses = addr.addresses(doors.route)
    nics = []
    for name, (netdev, address) in wanted:
        seen = _nic(doors, netdev, address, devices.get(address), addresses)
        nics.append(replace(seen, rail=(rails or {}).get(name), in_use=held.get(address) or seen.in_use))
    return HostQos(node=platform.node(), nics=tuple(nics), **facts(doors.root))


Found = tuple[link.NetDev | None, str]
"""A NIC's netdev (None: it is in another namespace) and PCI address (empty: it has none)."""


def _resolve(doors: Doors, name: str, netdevs: Sequence[link.NetDev], absent: bool) -> Found | None:
    found = next((dev for dev in netdevs if name in (dev.name, dev.pci, *dev.altnames)), None)
    address = found.pci if found else name.lower()
    device = _try(lambda: pci.read(address, doors.root)) if address else None
    if found is None and device is None:
        if absent:
            return None
        raise HostError("find", name, 19, f"no such NIC; this host has {_list(netdevs)}")
    if device is not None and device.pf:
        address = device.pf
        found = next((dev for dev in netdevs if dev.pci == address), None)
    return found, address


def _list(netdevs: Iterable[link.NetDev]) -> str:
    return ", ".join(sorted(dev.name for dev in netdevs if dev.pci)) or "no NIC on PCI"


def _all(doors: Doors, netdevs: Sequence[link.NetDev], devices: Mapping[str, rdma.Device]) -> list[Found]:
    """Physical functions with an Ethernet RDMA device, or with DCB; ordered by PCI address."""
    found: list[Found] = []
    for dev in netdevs:
        if not dev.pci or _is_vf(doors.root, dev.pci):
            continue
        device = devices.get(dev.pci)
        ethernet = device is not None and any(port.link_layer == "Ethernet" for port in device.ports)
        if ethernet or doors.dcb.get(dev.name) is not None:
            found.append((dev, dev.pci))
    return sorted(found, key=lambda each: pci.order(each[1]))


def _is_vf(root: str, address: str) -> bool:
    return os.path.lexists(os.path.join(root, "sys/bus/pci/devices", address, "physfn"))


def _try(action: Callable[[], _T]) -> _T | None:
    """What the door gives; None where it refuses or the thing is not there."""
    try:
        return action()
    except (HostError, ValueError):
        return None


def place(seen: NicQos, root: str = "/") -> roce.Place:
    """Where a NIC's RoCE settings are."""
    address = seen.pci.address if seen.pci else ""
    return roce.Place(seen.name if seen.ifindex is not None else "", address, seen.rdma or "", root)


def _nic(
    doors: Doors,
    netdev: link.NetDev | None,
    address: str,
    device: rdma.Device | None,
    addresses: Sequence[addr.Address],
) -> NicQos:
    name = netdev.name if netdev else address
    driver = doors.ethtool.driver(name) if netdev else None
    bare = NicQos(
        name=name,
        ifindex=netdev.ifindex if netdev else None,
        driver=driver.name if driver else (_try(lambda: pci.read(address, doors.root).driver) or None),
        firmware=(driver.firmware or None) if driver else None,
        function="vf" if _is_vf(doors.root, address) else "pf" if address else None,
        rdma=device.name if device else None,
        pci=_pci(doors.root, address) if address else None,
    )
    if netdev is None:
        return replace(bare, in_use=ABSENT if has_driver(doors.root, address) else None)
    statistics = doors.ethtool.statistics(name)
    hw = rdma.hw_counters(device.name, sysfs=doors.sysfs) if device else {}
    standing = replace(
        bare,
        mac=netdev.mac,
        addresses=tuple(each.prefix for each in addresses if each.ifindex == netdev.ifindex and each.scope == 0),
        fw_lldp=_fw_lldp(doors.ethtool.flags(name)),
        active_mtu=_active_mtu(netdev, device),
        gids=_gids(doors, device),
        counters=counters(statistics, hw),
    )
    return _changeable(doors, standing, netdev)


def refresh(doors: Doors, before: NicQos) -> NicQos:
    """A NIC whose settings may have changed, seen again: what no step changes (counters, GIDs, PCI) is as ``before``.

    HostError where its network device is gone.
    """
    netdev = next((dev for dev in link.devices(doors.route) if dev.ifindex == before.ifindex), None)
    if netdev is None:
        raise HostError("find", before.name, 19, "it is gone")
    return _changeable(doors, before, netdev)


def _changeable(doors: Doors, standing: NicQos, netdev: link.NetDev) -> NicQos:
    """The settings that steps change, and the link."""
    name = netdev.name
    settings = _settings(doors, standing)
    shown = replace(
        standing,
        mtu=netdev.mtu,
        pause=_pause(doors.ethtool.pause(name)),
        link=model.Link(
            up=netdev.up,
            carrier=netdev.carrier,
            speed=doors.ethtool.speed(name),
            changes=integer(doors.root, f"sys/class/net/{name}/carrier_changes"),
        ),
        tos=_tos(settings),
        ecn=_ecn(settings),
        sysctls=sysctls(doors.root, name),
        **_dcb(doors.dcb, name),
    )
    return replace(shown, trust=_trust(shown, settings), cable_m=_cable(shown))


def _dcb(dcb: dcbnl.Dcb, name: str) -> dict[str, Any]:
    ieee = dcb.get(name)
    return {"dcb": False} if ieee is None else {"dcb": True, "dcbx": dcbx_in(dcb.dcbx(name)), **fields(ieee)}


def _pause(seen: ethtool.Pause | None) -> Pause | None:
    return None if seen is None else Pause(autoneg=seen.autoneg, rx=seen.rx, tx=seen.tx)


def _fw_lldp(flags: Mapping[str, bool]) -> bool | None:
    return next((flags[name] for name in _LLDP_FLAGS if name in flags), None)


def _active_mtu(netdev: link.NetDev, device: rdma.Device | None) -> int | None:
    if device is None:
        return None
    told = next((port.active_mtu for port in device.ports if port.active_mtu), None)
    return told or rdma.mtu_for(netdev.mtu) or None


def _gids(doors: Doors, device: rdma.Device | None) -> tuple[model.Gid, ...] | None:
    table = None if device is None else _try(lambda: rdma.gids(device.name, sysfs=doors.sysfs))
    if table is None:
        return None
    return tuple(model.Gid(index=each.slot, type=each.type, address=each.address, netdev=each.netdev) for each in table)


def _settings(doors: Doors, bare: NicQos) -> dict[str, str]:
    where = place(bare, doors.root)
    values = {name: roce.read(where, name) for name in roce.names(where)}
    return {name: value for name, value in values.items() if value is not None}


def _tos(settings: Mapping[str, str]) -> Tos:
    return Tos(
        rdma_cm=number(settings.get("tos")),
        rdma_cm_mode=settings.get("mode"),
        traffic_class=number(settings.get("traffic_class")),
    )


def _ecn(settings: Mapping[str, str]) -> Ecn:
    numbers = {name.partition(".")[2]: number(value) for name, value in settings.items() if name.startswith("param.")}
    return Ecn(
        np=_switches(settings, "np"),
        rp=_switches(settings, "rp"),
        single="ecn" in settings and "np.0" not in settings,
        cnp_dscp=number(settings.get("cnp_dscp")),
        cnp_prio=number(settings.get("cnp_prio")),
        params={name: value for name, value in numbers.items() if value is not None},
    )


def _switches(settings: Mapping[str, str], kind: str) -> tuple[bool, ...] | None:
    """By priority where the driver has it so, one switch for all where it has one, else unknown."""
    single = number(settings.get("ecn"))
    values = [number(settings.get(f"{kind}.{priority}")) for priority in range(8)]
    if all(value is None for value in values):
        return None if single is None else (bool(single),) * 8
    return tuple(bool(value) for value in values)


def _trust(seen: NicQos, settings: Mapping[str, str]) -> Literal["dscp", "pcp"] | None:
    told = settings.get("trust")
    if told in ("dscp", "pcp"):
        return "dscp" if told == "dscp" else "pcp"
    if not seen.dcb:
        return None
    ordered = seen.apptrust is not None and "dscp" in seen.apptrust
    by = adapter(seen).trust_by
    if by == "apps":
        return "dscp" if ordered or any(app.selector == "dscp" for app in seen.apps or ()) else "pcp"
    if by == "apptrust" and seen.apptrust is not None:
        return "dscp" if ordered else "pcp"
    return None


def _cable(seen: NicQos) -> float | None:
    return float(seen.pfc.delay) if seen.pfc is not None and adapter(seen).cable_in_delay else None


def _pci(root: str, address: str) -> model.Pci | None:
    device = _try(lambda: pci.read(address, root))
    if device is None:
        return None
    own = _try(lambda: pci.config(address, root))
    known = own is not None and own.port_type != ""
    return model.Pci(
        address=device.address,
        vendor=device.vendor,
        device=device.device,
        numa_node=device.numa_node if device.numa_node >= 0 else None,
        width=device.link.width or None,
        max_width=device.max_link.width or None,
        speed=device.link.speed or None,
        max_speed=device.max_link.speed or None,
        max_read_request=own.max_read_request if known and own else None,
        max_payload=own.max_payload if known and own else None,
        relaxed_ordering=own.relaxed_ordering if own else None,
        acs_enabled=_acs(root, device.chain),
    )


def _acs(root: str, chain: Sequence[str]) -> tuple[str, ...] | None:
    """Services enabled on any port above the function; None where no port's configuration space can be read."""
    ports = [found for above in chain[:-1] if (found := _try(lambda above=above: pci.config(above, root)))]  # type: ignore[misc]
    if not any(port.port_type for port in ports):
        return None
    return tuple(service for service in pci.ACS if any(service in port.acs_enabled for port in ports))
