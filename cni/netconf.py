"""The plugin's configuration as values, with every mistake found and its place.

Shape: docs/cni.md. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple

from cni.errors import UnsupportedFieldError
from cni.ipam import Range, disjoint, hands_out, parse_ranges
from cni.podconf import Nccl, Policy, parse_nccl, parse_policy
from cni.spec import DEFAULT_STATE_DIR, Json, ifname_problem, network_name_problem
from cni.vfconf import VF_KEYS, VfSettings, parse_vf
from conf.errors import ConfigError, Finding

__all__ = ["MODES", "WHOLE", "NetConf", "Rail", "parse"]

MODES = ("macvlan", "ipvlan", "host-device", "sriov")
WHOLE = ("host-device", "sriov")
"""Modes in which a pod has a NIC to itself."""

_TOP_KEYS = frozenset(
    {"attach", "rails", "routing", "resultIPs", "stateDir", "agent", "policy", "nccl", "runDir", "kubeletDir"}
)
# What the specification, libcni and Multus put beside the plugin's own keys.
_FOREIGN_KEYS = frozenset(
    {"cniVersion", "name", "type", "prevResult", "capabilities", "runtimeConfig", "args", "dns", "ipam"}
    | {"deviceID", "pciBusID", "disableCheck", "disableGC"}
)
_RAIL_KEYS = frozenset({"name", "netdev", "pci", "mode", "mtu", "mac", "ipam", "rdmaName", "pf"})
_IPAM_KEYS = frozenset({"ranges", "routes"})
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-1][0-9a-fA-F]\.[0-7]")
_MAC = re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")
_RDMA_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{0,62}")
_MTU_MIN, _MTU_MAX = 576, 65535
_TABLE_MAX = 2**32 - 1
_RESERVED_TABLES = range(253, 256)  # default, main, local
_DEFAULT_TABLE_BASE = 1000
_DEFAULT_AGENT = "/run/roceway/agent.sock"
_DEFAULT_RUN_DIR = "/run/roceway/pods"
_DEFAULT_KUBELET_DIR = "/var/lib/kubelet"
_UNKNOWN = "unknown key"


class Rail(NamedTuple):
    """One rail as the operator wants it."""

    name: str
    nic: str
    """The host's NIC: a netdev name or a PCI address."""
    mode: str
    mtu: int | None
    """Bytes; None keeps the NIC's."""
    mac: str
    ranges: tuple[Range, ...]
    routes: tuple[tuple[str, str], ...]
    """(destination, gateway) beyond the rail's subnets."""
    pf: str = ""
    """Mode sriov: the physical function (PCI address or netdev) whose VFs are the pool; empty when ``nic`` is a VF."""
    vf: VfSettings = VfSettings()
    rdma_name: str = ""
    """Name of the RDMA device in the pod, where it moves; empty keeps the host's."""


class NetConf(NamedTuple):
    """The whole configuration."""

    version: str
    name: str
    attach: str
    rails: tuple[Rail, ...]
    table_base: int | None
    """None: no routing tables and rules."""
    result_ips: bool
    state_dir: str
    agent: str
    """Empty: never ask an agent."""
    previous: Json | None
    runtime_config: Json
    policy: Policy = Policy()
    nccl: Nccl = Nccl()
    run_dir: str = _DEFAULT_RUN_DIR
    kubelet_dir: str = _DEFAULT_KUBELET_DIR


def parse(raw: Json, version: str) -> NetConf:
    """The configuration, or ConfigError with every finding."""
    findings = _unknown(raw, _TOP_KEYS | _FOREIGN_KEYS, "")
    problem = network_name_problem(raw.get("name"))
    if problem:
        findings.append(Finding("name", problem))
    rails, wrong = _rails(raw.get("rails"))
    findings += wrong
    table_base, wrong = _table_base(raw.get("routing", {}), len(rails))
    findings += wrong
    findings += _choice(raw, "attach", ("auto", "always"))
    findings += _choice(raw, "resultIPs", ("all", "none"))
    findings += _absolute(raw, "stateDir", off_allowed=False)
    findings += _absolute(raw, "agent", off_allowed=True)
    findings += _absolute(raw, "runDir", off_allowed=False)
    findings += _absolute(raw, "kubeletDir", off_allowed=False)
    policy, wrong = parse_policy(raw.get("policy", {}))
    findings += wrong
    nccl, wrong = parse_nccl(raw.get("nccl", {}))
    findings += wrong
    findings += _previous(raw.get("prevResult"))
    if not isinstance(raw.get("runtimeConfig") or {}, Mapping):
        findings.append(Finding("runtimeConfig", "must be an object"))
    rails, wrong = _delegated(raw, rails)
    findings += wrong
    if findings:
        unknown_only = all(finding.message.startswith(_UNKNOWN) for finding in findings)
        raise (UnsupportedFieldError if unknown_only else ConfigError)("network configuration", findings)
    return NetConf(
        version=version,
        name=raw["name"],
        attach=raw.get("attach", "auto"),
        rails=rails,
        table_base=table_base,
        result_ips=raw.get("resultIPs", "all") == "all",
        state_dir=raw.get("stateDir", DEFAULT_STATE_DIR),
        agent=raw.get("agent", _DEFAULT_AGENT) or "",
        previous=raw.get("prevResult"),
        runtime_config=raw.get("runtimeConfig") or {},
        policy=policy,
        nccl=nccl,
        run_dir=raw.get("runDir", _DEFAULT_RUN_DIR),
        kubelet_dir=raw.get("kubeletDir", _DEFAULT_KUBELET_DIR),
    )


def _previous(raw: object) -> list[Finding]:
    """A result is passed on, so what would break on the way must be told before anything is attached."""
    if raw is None:
        return []
    parts = [raw.get(key) or [] for key in ("interfaces", "ips")] if isinstance(raw, Mapping) else [None]
    sound = all(isinstance(part, list) and all(isinstance(each, Mapping) for each in part) for part in parts)
    return [] if sound else [Finding("prevResult", "must be an object with lists of objects: interfaces, ips")]


def _delegated(raw: Json, rails: tuple[Rail, ...]) -> tuple[tuple[Rail, ...], list[Finding]]:
    """The device and the MAC that a meta-plugin chose for this attachment, which go before the configuration's.

    They name one device, so they are an error beside several rails: which one is meant would be a guess.
    """
    runtime = raw.get("runtimeConfig")
    runtime = runtime if isinstance(runtime, Mapping) else {}
    device = raw.get("deviceID") or raw.get("pciBusID") or runtime.get("deviceID")
    if _is_cdi(device):
        device = None  # names of devices that the pod has; they select rails, and are none themselves
    mac = runtime.get("mac")
    given = [name for name, value in (("deviceID", device), ("runtimeConfig.mac", mac)) if value]
    if not given or not rails:
        return rails, []
    if len(rails) > 1:
        return rails, [Finding(name, f"names one device, but there are {len(rails)} rails") for name in given]
    findings = []
    if device and not (isinstance(device, str) and _PCI.fullmatch(device)):
        findings.append(Finding("deviceID", f"{_short(device)} is no PCI address such as 0000:18:00.0"))
    if mac and not _is_mac(mac):
        findings.append(Finding("runtimeConfig.mac", f"{_short(mac)} is no unicast MAC address"))
    if findings:
        return rails, findings
    rail = rails[0]
    return (rail._replace(nic=str(device).lower() if device else rail.nic, mac=str(mac or rail.mac).lower()),), []


def _is_cdi(device: object) -> bool:
    """Whether it is CDI names, ``vendor.com/class=device``: one, or a list of them."""
    names = device if isinstance(device, list) else [device]
    return bool(names) and all(isinstance(name, str) and "=" in name for name in names)


def _is_mac(value: object) -> bool:
    return isinstance(value, str) and bool(_MAC.fullmatch(value)) and not int(value[:2], 16) & 1


def _unknown(raw: Mapping[str, Any], known: frozenset[str], path: str) -> list[Finding]:
    return [
        Finding(f"{path}{key}", f"{_UNKNOWN} (value {_short(raw[key])})")
        for key in raw
        if key not in known and not key.startswith("cni.dev/")
    ]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _choice(raw: Json, key: str, allowed: Sequence[str]) -> list[Finding]:
    value = raw.get(key, allowed[0])
    return [] if value in allowed else [Finding(key, f"{_short(value)} is none of {', '.join(allowed)}")]


def _absolute(raw: Json, key: str, *, off_allowed: bool) -> list[Finding]:
    value = raw.get(key, "/")
    if (off_allowed and value is False) or (isinstance(value, str) and value.startswith("/") and value.isprintable()):
        return []
    return [Finding(key, f"{_short(value)} is no absolute path{' and not false' if off_allowed else ''}")]


def _table_base(raw: object, rails: int) -> tuple[int | None, list[Finding]]:
    if raw is False:
        return None, []
    if not isinstance(raw, Mapping):
        return None, [Finding("routing", "must be an object {tableBase: 1000}, or false")]
    findings = _unknown(raw, frozenset({"tableBase"}), "routing.")
    base = raw.get("tableBase", _DEFAULT_TABLE_BASE)
    if not isinstance(base, int) or isinstance(base, bool) or not 1 <= base <= _TABLE_MAX - rails:
        return None, [*findings, Finding("routing.tableBase", f"{_short(base)} is no routing table number")]
    if any(table in _RESERVED_TABLES for table in range(base, base + max(rails, 1))):
        findings.append(Finding("routing.tableBase", f"{base} would use the kernel's own tables 253 to 255"))
    return base, findings


def _rails(raw: object) -> tuple[tuple[Rail, ...], list[Finding]]:
    if not isinstance(raw, list) or not raw:
        return (), [Finding("rails", "at least one rail is needed")]
    rails: list[tuple[int, Rail]] = []
    findings: list[Finding] = []
    for number, item in enumerate(raw):
        rail, wrong = _rail(item, f"rails[{number}]")
        findings += wrong
        if rail is not None:
            rails.append((number, rail))
    findings += _duplicates(raw)
    for place, (number, rail) in enumerate(rails):
        for _, earlier in rails[:place]:
            findings += _clashes(f"rails[{number}].ipam", rail, earlier)
    return tuple(rail for _, rail in rails), findings


def _duplicates(raw: Sequence[object]) -> list[Finding]:
    findings = []
    for key, what in (("name", "rail name"), ("netdev", "NIC"), ("pci", "NIC")):
        seen: dict[str, int] = {}
        for number, item in enumerate(raw):
            value = item.get(key) if isinstance(item, Mapping) else None
            if not isinstance(value, str):
                continue
            if value in seen:
                findings.append(
                    Finding(f"rails[{number}].{key}", f"duplicate {what} {value!r}, first at rails[{seen[value]}]")
                )
            seen.setdefault(value, number)
    return findings


def _clashes(path: str, rail: Rail, earlier: Rail) -> list[Finding]:
    ranges = [
        Finding(f"{path}.ranges[{number}]", f"{reason} (rail {earlier.name})")
        for number, each in enumerate(rail.ranges)
        for other in earlier.ranges
        if (reason := disjoint(each, other))
    ]
    taken = {destination for destination, _ in earlier.routes}
    return ranges + [
        Finding(f"{path}.routes[{number}].dst", f"{destination} is routed by rail {earlier.name} already")
        for number, (destination, _) in enumerate(rail.routes)
        if destination in taken
    ]


def _rail(raw: object, path: str) -> tuple[Rail | None, list[Finding]]:
    if not isinstance(raw, Mapping):
        return None, [Finding(path, "must be an object")]
    findings = _unknown(raw, _RAIL_KEYS | frozenset(VF_KEYS), f"{path}.")
    findings += [
        Finding(f"{path}.{key}", f"belongs to mode sriov, not to {_short(raw.get('mode', 'macvlan'))}")
        for key in (*VF_KEYS, "pf")
        if key in raw and raw.get("mode") != "sriov"
    ]
    name = raw.get("name")
    problem = ifname_problem(name) if isinstance(name, str) else "is missing or no string"
    if problem:
        findings.append(Finding(f"{path}.name", f"{_short(name)} {problem}"))
    elif name in ("lo", "all", "default") or "%" in str(name):
        findings.append(Finding(f"{path}.name", f"{name!r} has a meaning of its own to the kernel"))
    nic, pf, wrong = _nic(raw, path)
    findings += wrong + _mode(raw, path) + _mtu(raw, path)
    mac = raw.get("mac", "")
    if mac != "" and not _is_mac(mac):
        findings.append(Finding(f"{path}.mac", f"{_short(mac)} is no unicast MAC address"))
    elif mac and raw.get("mode") == "ipvlan":
        findings.append(Finding(f"{path}.mac", "an ipvlan has its NIC's MAC address"))
    rdma_name = raw.get("rdmaName", "")
    if rdma_name != "" and (not isinstance(rdma_name, str) or not _RDMA_NAME.fullmatch(rdma_name)):
        findings.append(
            Finding(f"{path}.rdmaName", f"{_short(rdma_name)} is no name of up to 63 letters, digits, _ or -")
        )
    elif rdma_name and raw.get("mode", "macvlan") not in WHOLE:
        findings.append(Finding(f"{path}.rdmaName", "is only for a pod that has the NIC to itself (mode host-device)"))
    vf, wrong = parse_vf(raw, path) if raw.get("mode") == "sriov" else (VfSettings(), [])
    findings += wrong
    ranges, routes, wrong = _ipam(raw.get("ipam"), f"{path}.ipam")
    findings += wrong
    if findings:
        return None, findings
    rail = Rail(
        str(name), nic, raw.get("mode", "macvlan"), raw.get("mtu"), mac.lower(), ranges, routes, pf, vf, rdma_name
    )
    return rail, []


def _nic(raw: Mapping[str, Any], path: str) -> tuple[str, str, list[Finding]]:
    """The NIC, or the PF whose VFs are the pool to choose from."""
    given = [key for key in ("netdev", "pci", "pf") if raw.get(key) is not None]
    if len(given) != 1:
        ways = "netdev, pci (the VF) and pf (any free VF of it)" if raw.get("mode") == "sriov" else "netdev and pci"
        return "", "", [Finding(path, f"name the NIC by exactly one of {ways}")]
    key, value = given[0], raw[given[0]]
    if key == "pci" or (key == "pf" and isinstance(value, str) and ":" in value):
        problem = "" if isinstance(value, str) and _PCI.fullmatch(value) else "is no PCI address such as 0000:18:00.0"
    else:
        problem = ifname_problem(value) if isinstance(value, str) else "is no string"
    if problem:
        return "", "", [Finding(f"{path}.{key}", f"{_short(value)} {problem}")]
    name = value.lower() if ":" in value else value
    return ("", name, []) if key == "pf" else (name, "", [])


def _mode(raw: Mapping[str, Any], path: str) -> list[Finding]:
    mode = raw.get("mode", "macvlan")
    if mode in MODES:
        return []
    return [Finding(f"{path}.mode", f"{_short(mode)} is none of {', '.join(MODES)}")]


def _mtu(raw: Mapping[str, Any], path: str) -> list[Finding]:
    mtu = raw.get("mtu")
    if mtu is None or (isinstance(mtu, int) and not isinstance(mtu, bool) and _MTU_MIN <= mtu <= _MTU_MAX):
        return []
    return [Finding(f"{path}.mtu", f"{_short(mtu)} is no MTU between {_MTU_MIN} and {_MTU_MAX} bytes")]


def _ipam(raw: object, path: str) -> tuple[tuple[Range, ...], tuple[tuple[str, str], ...], list[Finding]]:
    if not isinstance(raw, Mapping):
        return (), (), [Finding(path, "is missing: {ranges: [{subnet: …}]}")]
    findings = _unknown(raw, _IPAM_KEYS, f"{path}.")
    ranges, wrong = parse_ranges(raw.get("ranges"), f"{path}.ranges")
    findings += wrong
    routes, found = _routes(raw.get("routes", []), None if wrong else ranges, f"{path}.routes")
    return ranges, routes, findings + found


def _routes(
    raw: object, ranges: Sequence[Range] | None, path: str
) -> tuple[tuple[tuple[str, str], ...], list[Finding]]:
    """``ranges`` is None when they are wrong themselves: what depends on them is not judged."""
    if not isinstance(raw, list):
        return (), [Finding(path, "must be a list of {dst, gw}")]
    routes, findings = [], []
    for number, item in enumerate(raw):
        place = f"{path}[{number}]"
        if not isinstance(item, Mapping):
            findings.append(Finding(place, "must be an object {dst, gw}"))
            continue
        findings += _unknown(item, frozenset({"dst", "gw"}), f"{place}.")
        try:
            network = ip_network(_string(item.get("dst")))
            gateway = _string(item.get("gw")) or _gateway_of(ranges or (), network.version)
            if network.prefixlen == 0:
                findings.append(Finding(f"{place}.dst", "a default route belongs to the pod's primary interface"))
            if ranges is None:
                continue
            problem = _gateway_problem(ip_address(gateway), network.version, ranges)
            if problem:
                findings.append(Finding(f"{place}.gw", f"{gateway} {problem}"))
        except ValueError as error:
            findings.append(Finding(place, f"{error} (dst is a subnet; gw an address, or the range's gateway)"))
            continue
        routes.append((str(network), str(ip_address(gateway))))
    return tuple(routes), findings


def _gateway_problem(gateway: IPv4Address | IPv6Address, family: int, ranges: Sequence[Range]) -> str:
    """Why a route cannot go through ``gateway``; empty when it can."""
    if gateway.version != family:
        return "is not of the destination's family"
    near = [each for each in ranges if each.family == family and gateway in ip_network(each.subnet)]
    if not near and not gateway.is_link_local:
        return "is in none of the rail's subnets"
    if any(hands_out(each, int(gateway)) for each in near):
        return "is an address that the rail hands out: make it the range's gateway, or exclude it"
    return ""


def _string(value: object) -> str:
    """Text, empty for None; ValueError otherwise: ipaddress would take the number 5 for 0.0.0.5, and zones (%eth0)."""
    if value is None:
        return ""
    if not isinstance(value, str) or "%" in value:
        raise ValueError(f"{_short(value)} is no address")
    return value


def _gateway_of(ranges: Sequence[Range], family: int) -> str:
    for each in ranges:
        if each.family == family and each.gateway is not None:
            return str(ip_address(each.gateway))
    return ""
