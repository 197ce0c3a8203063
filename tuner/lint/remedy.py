"""What to write on a switch to mend a finding, in each operating system's own words. Pure.

SONiC: a JSON patch for ``config apply-patch``. Cumulus: ``nv set`` lines. EOS, NX-OS, Dell Enterprise SONiC: lines for
configuration mode. Names come from switches, which may be hostile, and these lines are pasted into shells: in a patch
they are JSON strings, elsewhere every character but those that names have is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from conf.units import format_length
from tuner.switch.model import Platform, Port, Switch

__all__ = [
    "cable",
    "classify_by_dscp",
    "cnp_queue",
    "dscp_to_tc",
    "ecn",
    "mtu",
    "no_rewrite",
    "pfc",
    "plain",
    "priority_group",
    "sonic_patch",
    "watchdog",
    "weight",
]

_Lines = Mapping[Platform, str]


def plain(name: str) -> str:
    """A name that is safe in a command line: what no port, map or profile is called becomes ``?``."""
    return re.sub(r"[^A-Za-z0-9_./:@|+-]", "?", name)


def sonic_patch(*values: tuple[Sequence[str], object]) -> str:
    """A JSON patch (RFC 6902) that sets each path, table, key and field, to its value."""
    operations = [
        {
            "op": "add",
            "path": "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path),
            "value": value,
        }
        for path, value in values
    ]
    return f"config apply-patch: {json.dumps(operations)}"


def _pick(switch: Switch, sonic: str, others: _Lines) -> str:
    return sonic if switch.platform == "sonic" else others[switch.platform]


def _nv_set(path: str, *settings: tuple[str, object]) -> str:
    """One line for each setting: ``nv set`` takes one."""
    return "; ".join(f"nv set {path} {name} {value}" for name, value in settings)


def dscp_to_tc(switch: Switch, map_name: str, dscp: int, tc: int) -> str:
    """Put a DSCP into a traffic class."""
    return _pick(
        switch,
        sonic_patch((("DSCP_TO_TC_MAP", map_name, str(dscp)), str(tc))),
        {
            "cumulus": f"nv set qos mapping default-global dscp {dscp} switch-priority {tc}",
            "eos": f"qos map dscp {dscp} to traffic-class {tc}",
            "nxos": f"class-map type qos match-any ROCE-{tc}; match dscp {dscp}; "
            f"policy-map type qos ROCE; class ROCE-{tc}; set qos-group {tc}",
            "dell-sonic": f"qos map dscp-tc {plain(map_name) or 'ROCE'}; dscp {dscp} traffic-class {tc}",
        },
    )


def classify_by_dscp(switch: Switch, port: Port, map_name: str = "AZURE") -> str:
    """Let a port classify by DSCP."""
    name = plain(port.name)
    return _pick(
        switch,
        sonic_patch((("PORT_QOS_MAP", port.name, "dscp_to_tc_map"), map_name)),
        {
            "cumulus": "nv set qos mapping default-global trust l3",
            "eos": f"interface {name}; qos trust dscp",
            "nxos": f"interface {name}; service-policy type qos input ROCE",
            "dell-sonic": f"interface {name}; qos-map dscp-tc {plain(map_name)}",
        },
    )


def pfc(switch: Switch, port: Port, priorities: Sequence[int]) -> str:
    """PFC on exactly these priorities of a port."""
    name, several = plain(port.name), [str(each) for each in sorted(priorities)]
    return _pick(
        switch,
        sonic_patch((("PORT_QOS_MAP", port.name, "pfc_enable"), ",".join(several))),
        {
            "cumulus": f"nv set qos pfc default-global switch-priority {','.join(several)}",
            "eos": "; ".join(
                [f"interface {name}", "priority-flow-control on"]
                + [f"priority-flow-control priority {each} no-drop" for each in several]
            ),
            "nxos": f"interface {name}; priority-flow-control mode on; and in the network-qos policy: "
            + "; ".join(f"class type network-qos c-8q-nq{each}; pause pfc-cos {each}" for each in several),
            "dell-sonic": "; ".join(
                [f"interface {name}"] + [f"priority-flow-control priority {each}" for each in several]
            ),
        },
    )


def ecn(switch: Switch, port: Port, queue: int, kmin: int, kmax: int, pmax: float) -> str:
    """Mark on a queue from ``kmin`` bytes, all from ``kmax``, at most ``pmax`` percent in between."""
    name, low, high = plain(port.name), kmin // 1000, kmax // 1000
    profile = {
        "ecn": "ecn_all",
        "wred_green_enable": "true",
        "green_min_threshold": str(kmin),
        "green_max_threshold": str(kmax),
        "green_drop_probability": f"{pmax:g}",
    }
    return _pick(
        switch,
        sonic_patch((("WRED_PROFILE", "ROCE"), profile), (("QUEUE", f"{port.name}|{queue}", "wred_profile"), "ROCE")),
        {
            "cumulus": _nv_set(
                f"qos congestion-control default-global traffic-class {queue}",
                ("ecn", "enable"),
                ("min-threshold", kmin),
                ("max-threshold", kmax),
                ("probability", max(1, round(pmax))),
            ),
            "eos": f"interface {name}; tx-queue {queue}; random-detect ecn minimum-threshold {low} kbytes"
            f" maximum-threshold {high} kbytes max-mark-probability {pmax:g}",
            "nxos": f"in the queuing policy: class type queuing c-out-8q-q{queue}; random-detect minimum-threshold"
            f" {low} kbytes maximum-threshold {high} kbytes drop-probability {pmax:g} weight 0 ecn",
            "dell-sonic": f"qos wred-policy ROCE; green minimum-threshold {low} maximum-threshold {high}"
            f" drop-probability {pmax:g}; ecn green; in the port's scheduler policy: queue {queue}; wred-policy ROCE",
        },
    )


def cnp_queue(switch: Switch, port: Port, queue: int) -> str:
    """Serve a queue before all others."""
    name = plain(port.name)
    return _pick(
        switch,
        sonic_patch(
            (("SCHEDULER", "scheduler.strict"), {"type": "STRICT"}),
            (("QUEUE", f"{port.name}|{queue}", "scheduler"), "scheduler.strict"),
        ),
        {
            "cumulus": f"nv set qos egress-scheduler default-global traffic-class {queue} mode strict",
            "eos": f"interface {name}; tx-queue {queue}; priority strict",
            "nxos": f"in the queuing policy: class type queuing c-out-8q-q{queue}; priority level 1",
            "dell-sonic": f"qos scheduler-policy ROCE; queue {queue}; type strict",
        },
    )


def weight(switch: Switch, port: Port, queue: int, share: int) -> str:
    """Give a queue a weight."""
    return _pick(
        switch,
        sonic_patch(
            (("SCHEDULER", "scheduler.roce"), {"type": "DWRR", "weight": str(share)}),
            (("QUEUE", f"{port.name}|{queue}", "scheduler"), "scheduler.roce"),
        ),
        {
            "cumulus": _nv_set(
                f"qos egress-scheduler default-global traffic-class {queue}", ("mode", "dwrr"), ("bw-percent", share)
            ),
            "eos": f"interface {plain(port.name)}; tx-queue {queue}; bandwidth percent {share}",
            "nxos": f"in the queuing policy: class type queuing c-out-8q-q{queue}; bandwidth remaining percent {share}",
            "dell-sonic": f"qos scheduler-policy ROCE; queue {queue}; type dwrr; weight {share}",
        },
    )


def watchdog(switch: Switch, port: Port, detection: int = 200, restoration: int = 400) -> str:
    """A PFC watchdog that drops a stormed queue after ``detection`` ms."""
    name = plain(port.name)
    row = {"action": "drop", "detection_time": str(detection), "restoration_time": str(restoration)}
    return _pick(
        switch,
        sonic_patch((("PFC_WD", port.name), row), (("PFC_WD", "GLOBAL"), {"POLL_INTERVAL": str(min(detection, 200))})),
        {
            "cumulus": f"nv set interface {name} qos pfc-watchdog state enabled",
            "eos": f"priority-flow-control pause watchdog default timeout {detection / 1000:g}",
            "nxos": "priority-flow-control watch-dog-interval on",
            "dell-sonic": f"interface {name}; priority-flow-control watchdog action drop"
            f" detection-time {detection} restoration-time {restoration}",
        },
    )


def cable(switch: Switch, port: Port, metres: float) -> str:
    """Tell a port the length of its cable."""
    told = format_length(metres)
    return _pick(
        switch,
        sonic_patch((("CABLE_LENGTH", "AZURE", port.name), told)),
        {
            "cumulus": f"nv set qos pfc default-global cable-length {metres:g}",
            "eos": f"interface {plain(port.name)}: give the no-drop class headroom for {told}",
            "nxos": f"interface {plain(port.name)}; priority-flow-control override-interface; cable length {told}",
            "dell-sonic": f"interface {plain(port.name)}; cable-length {told}",
        },
    )


def mtu(switch: Switch, port: Port, bytes: int) -> str:
    """Set a port's MTU."""
    name = plain(port.name)
    return _pick(
        switch,
        sonic_patch((("PORT", port.name, "mtu"), str(bytes))),
        {
            "cumulus": f"nv set interface {name} link mtu {bytes}",
            "eos": f"interface {name}; mtu {bytes}",
            "nxos": f"interface {name}; mtu {bytes}",
            "dell-sonic": f"interface {name}; mtu {bytes}",
        },
    )


def priority_group(switch: Switch, port: Port, group: int) -> str:
    """Make a priority group lossless."""
    name = plain(port.name)
    other = f"interface {name}: a lossless ingress buffer for priority {group}"
    return _pick(
        switch,
        sonic_patch((("BUFFER_PG", f"{port.name}|{group}"), {"profile": "NULL"})),
        {
            "cumulus": "nv set qos roce mode lossless",
            "eos": other,
            "nxos": f"class type network-qos c-8q-nq{group}; pause buffer-size",
            "dell-sonic": other,
        },
    )


def no_rewrite(switch: Switch, port: Port) -> str:
    """Leave DSCP as it came."""
    name = plain(port.name)
    path = "/PORT_QOS_MAP/" + port.name.replace("~", "~0").replace("/", "~1") + "/tc_to_dscp_map"
    return _pick(
        switch,
        f"config apply-patch: {json.dumps([{'op': 'remove', 'path': path}])}",
        {
            "cumulus": "nv unset qos remark default-global rewrite",
            "eos": f"interface {name}; no qos rewrite dscp",
            "nxos": "in the qos policy: no set dscp",
            "dell-sonic": f"interface {name}; no qos-map tc-dscp",
        },
    )
