"""H16-H20: MTU, GIDs, PCIe, ARP and firmware: what is not QoS and hurts RoCE as much."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_interface

from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.majority import odd
from tuner.lint.rules.words import apply
from tuner.lint.subjects import HostAt, NicAt
from tuner.nic import Pci

__all__ = ["RULES"]

_ROCE_HEADERS = 96  # GRH 40, UDP 8, BTH 12, XRC 4, atomic 28, ICRC 4: include/rdma/ib_addr.h, iboe_get_mtu
_BEST_READ_REQUEST = 4096  # bytes; the PCIe maximum, and the NIC vendors' advice
_DEFAULT_READ_REQUEST = 512


@rule(
    "H16",
    Severity.HIGH,
    Scope.HOST,
    title="MTU too small for 4096-byte RoCE packets, or different between rails",
    why="With an MTU below 4192, RoCE falls back to 2048-byte packets: twice the headers and interrupts. Rails that"
    " differ make a collective as slow as the worst one.",
    source="Linux include/rdma/ib_addr.h, iboe_get_mtu: 4096 bytes of payload and 96 of headers",
    fix="ip link set NIC mtu 9000: `roceway-tune apply`.",
)
def mtu(at: HostAt) -> Verdict:
    known = [nic for nic in at.nics if nic.nic.mtu is not None]
    if len(known) < len(at.nics):
        yield Missing("MTU of the NIC")
    usual = _usual_mtu(known)
    for nic in known:
        own, need = nic.nic.mtu or 0, max(4096 + _ROCE_HEADERS, nic.mtu or 0)
        fix = apply(nic, f"ip link set {nic.nic.name} mtu {nic.mtu or 9000}")
        if own < need:
            evidence = (
                f"MTU is {own}, wanted is {nic.mtu}" if nic.mtu and own < nic.mtu else f"MTU {own} is below {need}"
            )
            yield Hit(nic.place, evidence, fix)
        elif own != usual:
            yield Hit(nic.place, f"MTU is {own}, the other rails' is {usual}", fix)


def _usual_mtu(nics: list[NicAt]) -> int | None:
    """The one that most have; where as many have another, the wanted one."""
    counts = Counter(nic.nic.mtu for nic in nics)
    return max(counts, key=lambda mtu: (counts[mtu], mtu == nics[0].mtu), default=None)


@rule(
    "H17",
    Severity.HIGH,
    Scope.NIC,
    title="GID index moved",
    why="Whoever configured a GID index (NCCL_IB_GID_INDEX) now sends from another address, or with RoCE v1. A flap"
    " or a driver reload reorders the table.",
    source="Linux drivers/infiniband/core/cache.c: slots are given in the order of addresses",
    fix="Do not set NCCL_IB_GID_INDEX (NCCL 2.21 and later finds the RoCE v2 GID), or set it anew.",
)
def gid_moved(at: NicAt) -> Verdict:
    applied = at.host.applied
    before = applied.gids.get(at.nic.name) if applied else None
    if before is None:
        yield Missing("GID indices of an earlier time (roceway-tune apply)")
    elif at.nic.gids is None:
        yield Missing("GID table of the NIC")
    else:
        now = {gid.address: gid.index for gid in at.nic.gids if gid.type == "RoCE v2"}
        for address, index in before.items():
            if address in now and now[address] != index:
                evidence = f"the RoCE v2 GID was at index {index} and is at {now[address]}"
                yield Hit(
                    at.place, evidence, f"on {at.host.node}: unset NCCL_IB_GID_INDEX, or set it to {now[address]}"
                )


@rule(
    "H18",
    Severity.HIGH,
    Scope.NIC,
    title="PCIe holds the NIC back",
    why="Fewer lanes, a lower generation, small read requests, no relaxed ordering, or ACS sending GPU to NIC"
    " traffic through the CPU: each takes a constant share of bandwidth that looks like a network problem.",
    source="PCIe Base Specification 7.5.3.4, 6.12 (ACS); NVIDIA, Understanding PCIe Configuration for Maximum"
    " Performance",
    fix="Reseat or replace the card; setpci for the read request size; ACS and relaxed ordering in firmware set-up.",
)
def pcie(at: NicAt) -> Verdict:
    pci = at.nic.pci
    if pci is None:
        yield Missing("PCIe settings of the NIC")
        return
    yield from _slower(at, pci)
    if pci.acs_enabled is None:
        yield Missing("ACS of the bridges above the NIC")
    elif pci.acs_enabled:
        fix = f"on {at.host.node}: disable ACS in firmware set-up, or setpci -s BRIDGE ECAP_ACS+6.w=0 for each bridge"
        yield Hit(at.place, f"ACS redirects peer traffic: {', '.join(pci.acs_enabled)}", fix)
    if pci.relaxed_ordering is None:
        yield Missing("relaxed ordering of the NIC")
    elif not pci.relaxed_ordering:
        fix = f"on {at.host.node}: in firmware set-up, or setpci -s {pci.address} CAP_EXP+8.w=10:10"
        yield Hit(at.place, "relaxed ordering is off", fix)
    if pci.max_read_request is None:
        yield Missing("read request size of the NIC")
    elif pci.max_read_request < _BEST_READ_REQUEST:
        severity = Severity.HIGH if pci.max_read_request < _DEFAULT_READ_REQUEST else Severity.MEDIUM
        fix = f"on {at.host.node}: setpci -s {pci.address} CAP_EXP+8.w=5000:7000 (4096 B)"
        yield Hit(at.place, f"PCIe read requests are at most {pci.max_read_request} B", fix, severity)


def _slower(at: NicAt, pci: Pci) -> Verdict:
    for word, now, best in (("x{:g} lanes", pci.width, pci.max_width), ("{:g} GT/s", pci.speed, pci.max_speed)):
        if now is None or best is None:
            yield Missing("PCIe width and speed of the NIC")
        elif now < best:
            evidence = f"PCIe link runs at {word.format(now)}, the card can do {word.format(best)}"
            yield Hit(
                at.place, evidence, f"on {at.host.node}: reseat {pci.address}, check the slot, riser and firmware"
            )


@rule(
    "H19",
    Severity.HIGH,
    Scope.HOST,
    title="Rails in one subnet without ARP settings",
    why="Linux answers ARP for any of its addresses on any port. With two rails in a subnet, peers learn one MAC for"
    " both: all traffic runs over one NIC, or is dropped by strict reverse-path filtering.",
    source="Linux Documentation/networking/ip-sysctl.rst: arp_ignore, arp_announce, rp_filter",
    fix="arp_ignore=1, arp_announce=2, rp_filter=2 on the rails (nics.sysctls in fabric.yaml), or a subnet for each.",
)
def same_subnet(at: HostAt) -> Verdict:
    subnets: dict[object, list[NicAt]] = {}
    for nic in at.nics:
        if nic.nic.addresses is None:
            yield Missing("addresses of the NIC")
        for network in {ip_interface(each).network for each in nic.nic.addresses or () if ":" not in each}:
            subnets.setdefault(network, []).append(nic)
    for nics in subnets.values():
        for nic in nics if len(nics) > 1 else ():
            yield from _arp(at, nic)


def _arp(at: HostAt, nic: NicAt) -> Verdict:
    wanted = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}
    values = {}
    for name in wanted:
        both = [each[name] for each in (at.host.sysctls, nic.nic.sysctls) if name in each]
        if len(both) < 2:  # the kernel takes the larger one
            yield Missing("ARP settings of host and NIC")
            return
        values[name] = max(both)
    if values["arp_ignore"] < 1 or values["arp_announce"] < 2 or values["rp_filter"] == 1:
        steps = "; ".join(f"sysctl net.ipv4.conf.{nic.nic.name}.{name}={value}" for name, value in wanted.items())
        evidence = "two rails in one subnet, " + ", ".join(f"{name} is {value}" for name, value in values.items())
        yield Hit(nic.place, evidence, f"on {at.host.node}: {steps}")


@rule(
    "H20",
    Severity.MEDIUM,
    Scope.HOST,
    title="Firmware differs between one host's NICs",
    why="Defaults of congestion control and of buffers change between versions: one rail behaves unlike the others,"
    " and every comparison of rails is off.",
    source="vendors' release notes",
    fix="Update the NICs to one version.",
)
def firmware(at: HostAt) -> Verdict:
    groups: dict[tuple[str | None, int | None], list[NicAt]] = {}
    for nic in at.nics:
        if nic.nic.firmware is None:
            yield Missing("firmware version of the NIC")
        else:
            groups.setdefault((nic.nic.driver, nic.nic.pci.device if nic.nic.pci else None), []).append(nic)
    for nics in groups.values():
        for nic, own, usual, _ in odd([(nic, nic.nic.firmware) for nic in nics]):
            evidence = f"firmware is {own}, " + (f"most other NICs' is {usual}" if usual else "the NICs do not agree")
            yield Hit(nic.place, evidence, f"on {at.host.node}: update the NICs to one version")


RULES: tuple[Rule, ...] = (mtu, gid_moved, pcie, same_subnet, firmware)
