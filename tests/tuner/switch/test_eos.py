"""Arista EOS: a running configuration as text and as eAPI's JSON, and eAPI answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tuner.switch import eos
from tuner.switch.model import Switch

CONFIG = """\
! device: leaf-1 (DCS-7060X6, EOS-4.34.2F)
hostname leaf-1
qos map dscp 24 26 to traffic-class 3
qos map dscp cs6 to traffic-class 6
qos map traffic-class 3 to tx-queue 3
qos map traffic-class 6 to tx-queue 5
priority-flow-control pause watchdog default timeout 0.20
priority-flow-control pause watchdog default polling-interval 0.10
priority-flow-control pause watchdog action drop
!
qos profile ROCE-LEAF
   priority-flow-control on
   priority-flow-control priority 3 no-drop
   uc-tx-queue 1
      no priority
      bandwidth percent 5
   uc-tx-queue 3
      no priority
      bandwidth percent 95
      random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes max-mark-probability 100 weight 0
   uc-tx-queue 5
      priority strict
!
interface Ethernet1
   description gpu-001
   mtu 9214
   speed 400g-8
   no switchport
   service-profile ROCE-LEAF
   uc-tx-queue 3
      random-detect ecn count
!
interface Ethernet2
   qos trust cos
   dcbx mode ieee
   priority-flow-control on
   flowcontrol receive on
   shutdown
!
interface Ethernet3
   service-profile NOWHERE
!
interface Management1
   mtu 1500
!
router bgp 65000
   neighbor 10.0.0.1 remote-as 65001
"""


def from_text(text: str = CONFIG) -> Switch:
    return eos.read("leaf-1", {"show running-config": text.encode()})


def as_json(text: str) -> dict[str, Any]:
    """The text as ``show running-config | json`` has it."""
    root: dict[str, Any] = {}
    stack = [(-1, root)]
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("!"):
            continue
        indent = len(line) - len(line.lstrip())
        while stack[-1][0] >= indent:
            stack.pop()
        below: dict[str, Any] = {}
        stack[-1][1].setdefault("cmds", {})[line.strip()] = below
        stack.append((indent, below))
    return root


@pytest.mark.parametrize("form", ["text", "eapi text", "eapi json"])
def test_a_port_with_a_profile(form: str) -> None:
    documents: dict[str, bytes] = {
        "text": CONFIG.encode(),
        "eapi text": json.dumps({"jsonrpc": "2.0", "id": "1", "result": [{"output": CONFIG}]}).encode(),
        "eapi json": json.dumps({"result": [as_json(CONFIG)]}).encode(),
    }
    switch = eos.read("leaf-1", {"f": documents[form]})
    port = switch.ports["Ethernet1"]
    assert switch.hostname == "leaf-1"
    assert (port.mtu, port.speed, port.admin_up, port.dcbx) == (9214, 400_000, True, "off")
    assert (port.trust, port.pfc) == (frozenset({"dscp"}), frozenset({3}))
    assert [port.tc_of(dscp) for dscp in (26, 48, 0, 8, 46)] == [3, 6, 1, 0, 5]  # EOS has 0-7 in class 1
    assert [port.queue_of(tc) for tc in (3, 6)] == [3, 5]
    assert port.watchdog is not None
    assert (port.watchdog.enabled, port.watchdog.detection, port.watchdog.action) == (True, 200, "drop")
    assert switch.watchdog_poll == 100
    assert "Management1" not in switch.ports


def test_the_profiles_marking_survives_what_the_interface_adds() -> None:
    queue = from_text().ports["Ethernet1"].queue(3)
    assert queue is not None
    assert queue.ecn is not None
    assert queue.scheduler is not None
    assert (queue.ecn.enabled, queue.ecn.kmin, queue.ecn.kmax, queue.ecn.pmax) == (True, 256_000, 512_000, 100)
    assert (queue.scheduler.kind, queue.scheduler.weight) == ("dwrr", 95)
    strict = from_text().ports["Ethernet1"].queue(5)
    assert strict is not None
    assert strict.scheduler is not None
    assert strict.scheduler.kind == "strict"


def test_a_switched_port_that_trusts_cos() -> None:
    port = from_text().ports["Ethernet2"]
    assert (port.trust, port.pfc, port.dcbx) == (frozenset({"pcp"}), frozenset[int](), "ieee")
    assert (port.global_pause, port.admin_up) == (True, False)


def test_a_switched_port_that_does_not_say_is_unknown() -> None:
    assert from_text().ports["Ethernet3"].trust is None


def test_a_profile_that_is_not_there_and_what_no_rule_reads() -> None:
    found = {(finding.kind, finding.place) for finding in from_text().findings}
    assert ("dangling", "interface Ethernet3 service-profile") in found
    assert ("ignored", "router bgp 65000") in found


def test_status_links_and_neighbours() -> None:
    answers = {
        "show priority-flow-control": {
            "interfaceStatuses": {
                "Ethernet1": {"enabled": True, "active": False, "priorities": [3], "note": "DCBX disabled"}
            }
        },
        "show interfaces": {
            "interfaces": {
                "Ethernet1": {
                    "bandwidth": 400_000_000_000,
                    "mtu": 9214,
                    "lineProtocolStatus": "up",
                    "interfaceCounters": {"inDiscards": 7, "outDiscards": 0},
                }
            }
        },
        "show lldp neighbors detail": {
            "lldpNeighbors": {
                "Ethernet1": {
                    "lldpNeighborInfo": [
                        {
                            "systemName": "gpu-001",
                            "chassisId": "b8ce.f600.0001",
                            "neighborInterfaceInfo": {"interfaceId": '"enp24s0np0"'},
                        }
                    ]
                }
            }
        },
    }
    switch = eos.read("s", {label: json.dumps(answer).encode() for label, answer in answers.items()})
    port = switch.ports["Ethernet1"]
    assert (port.pfc, port.pfc_oper, port.oper_up) == (frozenset({3}), frozenset[int](), True)
    assert port.neighbour is not None
    assert (port.neighbour.system, port.neighbour.port, port.neighbour.chassis) == (
        "gpu-001",
        "enp24s0np0",
        "b8:ce:f6:00:00:01",
    )
    assert port.counters is not None
    assert port.counters.rx_discards == 7
    assert switch.partial


def test_neighbours_without_detail() -> None:
    rows = {"lldpNeighbors": [{"port": "Ethernet1", "neighborDevice": "gpu-001", "neighborPort": "eth2", "ttl": 120}]}
    neighbour = eos.read("s", {"f": json.dumps(rows).encode()}).ports["Ethernet1"].neighbour
    assert neighbour is not None
    assert (neighbour.system, neighbour.port) == ("gpu-001", "eth2")


def test_thresholds_without_a_unit_are_a_finding_and_unknown() -> None:
    text = CONFIG.replace("256 kbytes", "256 segments")
    queue = from_text(text).ports["Ethernet1"].queue(3)
    assert queue is not None
    assert queue.ecn is not None
    assert (queue.ecn.enabled, queue.ecn.kmin) == (True, None)
    assert any(finding.kind == "bad-value" and "thresholds" in finding.message for finding in from_text(text).findings)
