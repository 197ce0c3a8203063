"""Cisco NX-OS: MQC in a running configuration, NX-API answers with rows as objects or lists."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tuner.switch import nxos
from tuner.switch.model import UNBOUND, Switch

CONFIG = """\
hostname n9k-1
class-map type qos match-all ROCE-DATA
  match dscp af31
class-map type qos match-all ROCE-CNP
  match dscp 48
class-map type qos match-all ROCE-TAGGED
  match cos 3
policy-map type qos ROCE-INGRESS
  class ROCE-DATA
    set qos-group 3
  class ROCE-CNP
    set qos-group 7
  class class-default
    set qos-group 0
policy-map type qos TAGGED
  class ROCE-TAGGED
    set qos-group 3
  class MISSING
    set qos-group 4
policy-map type queuing ROCE-EGRESS
  class type queuing c-out-8q-q7
    priority level 1
  class type queuing c-out-8q-q3
    bandwidth remaining percent 60
    random-detect minimum-threshold 150 kbytes maximum-threshold 3000 kbytes drop-probability 7 weight 0 ecn
  class type queuing c-out-8q-q-default
    bandwidth remaining percent 40
policy-map type network-qos ROCE-NETWORK-QOS
  class type network-qos c-8q-nq3
    mtu 9216
    pause pfc-cos 3
  class type network-qos c-8q-nq-default
    mtu 9216
system qos
  service-policy type network-qos ROCE-NETWORK-QOS
  service-policy type queuing output ROCE-EGRESS
priority-flow-control watch-dog-interval value 200
priority-flow-control watch-dog shutdown-multiplier 2
vlan 1

interface Ethernet1/1-2
  service-policy type qos input ROCE-INGRESS
  priority-flow-control mode on
  priority-flow-control watch-dog-interval on
  speed 400000
  mtu 9216
interface Ethernet1/3
  service-policy type qos input TAGGED
interface Ethernet1/4
  priority-flow-control mode off
  shutdown
interface mgmt0
  ip address 10.0.0.1/24
"""


def from_text() -> Switch:
    return nxos.read("n9k-1", {"show running-config": CONFIG.encode()})


def test_a_roce_port_of_a_range() -> None:
    switch = from_text()
    assert {*switch.ports} == {"Ethernet1/1", "Ethernet1/2", "Ethernet1/3", "Ethernet1/4"}
    port = switch.ports["Ethernet1/2"]
    assert (port.mtu, port.speed, port.trust) == (9216, 400_000, frozenset({"dscp"}))
    assert [port.tc_of(dscp) for dscp in (26, 48, 0, 46)] == [3, 7, 0, 0]
    assert (port.queue_of(3), port.pfc, port.pfc_mode) == (3, frozenset({3}), "on")
    assert port.pfc_to_queue is not None
    assert port.pfc_to_queue.entries == {3: 3}
    assert port.watchdog is not None
    assert (port.watchdog.enabled, port.watchdog.detection, switch.watchdog_poll) == (True, 400, 200)


def test_queues_of_the_system_policy() -> None:
    port = from_text().ports["Ethernet1/1"]
    queues = [port.queue(number) for number in (7, 3, 0, 5)]
    kinds = [queue.scheduler.kind if queue and queue.scheduler else None for queue in queues]
    assert kinds == ["strict", "dwrr", "dwrr", None]
    roce = queues[1]
    assert roce is not None
    assert roce.ecn is not None
    assert (roce.ecn.enabled, roce.ecn.kmin, roce.ecn.kmax, roce.ecn.pmax) == (True, 150_000, 3_000_000, 7)
    assert [queue.ecn.enabled if queue and queue.ecn else None for queue in queues] == [False, True, False, False]


def test_a_port_that_classifies_by_cos_and_negotiates() -> None:
    port = from_text().ports["Ethernet1/3"]
    assert (port.trust, port.dscp_to_tc, port.pfc_mode) == (frozenset({"pcp"}), UNBOUND, "auto")
    assert port.dot1p_to_tc is not None
    assert port.dot1p_to_tc.get(3) == 3
    assert port.watchdog is not None
    assert not port.watchdog.enabled


def test_pfc_that_is_off_and_a_port_without_a_policy() -> None:
    port = from_text().ports["Ethernet1/4"]
    assert (port.pfc, port.trust, port.admin_up) == (frozenset[int](), frozenset[str](), False)


def test_what_dangles_and_what_no_rule_reads() -> None:
    found = {(finding.kind, finding.place) for finding in from_text().findings}
    assert ("dangling", "policy-map type qos TAGGED class MISSING") in found
    assert ("ignored", "vlan 1") in found
    assert any(kind == "ignored" and "ip address" in place for kind, place in found)


PFC_ROWS = [
    {"if_name_str": "Ethernet1/1", "admin": "Auto", "oper": "On  (8)", "rx-stats": "12", "tx-stats": "3"},
    {"if_name_str": "Ethernet1/2", "admin": "On", "oper": "Off", "rx-stats": 0, "tx-stats": 0},
]


def pfc_body(rows: Any) -> dict[str, Any]:
    return {"TABLE_module": {"ROW_module": {"TABLE_pfc_interface": {"ROW_pfc_interface": rows}}}}


@pytest.mark.parametrize("wrap", ["body", "jsonrpc", "ins_api", "list of modules"])
def test_pfc_in_every_wrapping(wrap: str) -> None:
    body = pfc_body(PFC_ROWS)
    wrapped: dict[str, Any] = {
        "body": body,
        "jsonrpc": {"jsonrpc": "2.0", "result": {"body": body}, "id": 1},
        "ins_api": {"ins_api": {"type": "cli_show", "outputs": {"output": {"body": body, "code": "200"}}}},
        "list of modules": {"TABLE_module": {"ROW_module": [body["TABLE_module"]["ROW_module"]]}},
    }
    ports = nxos.read("s", {"f": json.dumps(wrapped[wrap]).encode()}).ports
    one, other = ports["Ethernet1/1"], ports["Ethernet1/2"]
    assert (one.pfc_mode, one.pfc_oper, other.pfc_mode, other.pfc_oper) == (
        "auto",
        frozenset({3}),
        "on",
        frozenset[int](),
    )
    assert one.counters is not None
    assert (one.counters.pfc_rx_total, one.counters.pfc_tx_total) == (12, 3)


def test_a_single_row_is_an_object() -> None:
    assert {*nxos.read("s", {"f": json.dumps(pfc_body(PFC_ROWS[0])).encode()}).ports} == {"Ethernet1/1"}


def test_links_queues_and_neighbours() -> None:
    entries = [
        {"eq-stat-type": "Tx", "eq-stat-units": "Pkts", "eq-uc-stat-value": "10", "eq-mc-stat-value": "2"},
        {"eq-stat-type": "Dropped", "eq-stat-units": "Pkts", "eq-uc-stat-value": "1"},
    ]
    group = {"eq-qosgrp": "3", "TABLE_qosgrp_egress_stats_entry": {"ROW_qosgrp_egress_stats_entry": entries}}
    queuing = {
        "if_name_str": "Ethernet1/1",
        "TABLE_qosgrp_egress_stats": {"ROW_qosgrp_egress_stats": group},
    }
    documents = {
        "show interface": {
            "TABLE_interface": {
                "ROW_interface": [
                    {"interface": "Ethernet1/1", "state": "up", "eth_mtu": "9216", "eth_bw": 400_000_000},
                    {"interface": "mgmt0", "state": "up"},
                ]
            }
        },
        "show queuing interface": {
            "TABLE_module": {"ROW_module": {"TABLE_queuing_interface": {"ROW_queuing_interface": queuing}}}
        },
        "show lldp neighbors detail": {
            "TABLE_nbor_detail": {
                "ROW_nbor_detail": {
                    "l_port_id": "Eth1/1",
                    "sys_name": "gpu-001",
                    "port_id": "b8ce.f600.0001",
                    "chassis_id": "b8ce.f600.0001",
                }
            }
        },
    }
    switch = nxos.read("s", {label: json.dumps(body).encode() for label, body in documents.items()})
    (port,) = switch.ports.values()
    assert (port.mtu, port.speed, port.oper_up) == (9216, 400_000, True)
    assert port.neighbour is not None
    assert (port.neighbour.system, port.neighbour.port) == ("gpu-001", "b8:ce:f6:00:00:01")
    assert port.counters is not None
    assert (port.counters.queues or {})[3].packets == 12
    assert (port.counters.queues or {})[3].dropped == 1
