"""OpenConfig QoS of Dell Enterprise SONiC: RESTCONF trees and parts of them, gNMI notifications, CONFIG_DB."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuner.switch.fabrics import fabric
from tuner.switch import openconfig
from tuner.switch.intended import intended
from tuner.switch.model import UNBOUND, Switch
from tuner.switch.render import render

TREE: dict[str, Any] = json.loads(render(intended(fabric("dell-sonic"), "leaf0")))


def tree(document: Any) -> Switch:
    return openconfig.read("leaf0", {"f": json.dumps(document).encode()})


def check(switch: Switch) -> None:
    port = switch.ports["Ethernet4"]
    assert (port.pfc, port.trust, port.tc_of(26), port.queue_of(6)) == (frozenset({3}), frozenset({"dscp"}), 3, 6)
    queue = port.queue(3)
    assert queue is not None
    assert queue.ecn is not None
    assert queue.scheduler is not None
    assert (queue.ecn.enabled, queue.ecn.kmin, queue.scheduler.weight) == (True, 1 << 20, 50)


def test_a_whole_tree() -> None:
    switch = tree(TREE)
    check(switch)
    port = switch.ports["Ethernet4"]
    assert (port.mtu, port.speed, port.cable, port.pg_of(3), port.pg_of(4)) == (9216, 400_000, 3.0, 3, 0)
    assert port.watchdog is not None
    assert (port.watchdog.enabled, port.watchdog.action, port.watchdog.detection) == (True, "drop", 200)
    assert (switch.watchdog_poll, switch.findings) == (100, ())


def test_a_tree_in_parts_and_without_module_names() -> None:
    qos = TREE["openconfig-qos:qos"]
    parts = {
        name: json.dumps({name if ":" in name else f"openconfig-qos:{name}": value}).encode()
        for name, value in qos.items()
    }
    check(openconfig.read("leaf0", parts))
    bare = json.loads(json.dumps(TREE).replace("openconfig-qos-maps-ext:", "").replace("openconfig-qos-ext:", ""))
    check(tree({"qos": bare["openconfig-qos:qos"]}))


@pytest.mark.parametrize("form", ["whole", "by member", "by list entry"])
def test_gnmi_notifications(form: str) -> None:
    qos = TREE["openconfig-qos:qos"]
    updates: list[dict[str, Any]] = [{"path": "openconfig-qos:qos", "val": qos}]
    if form == "by member":
        updates = [{"path": f"/openconfig-qos:qos/{name}", "val": value} for name, value in qos.items()]
    elif form == "by list entry":
        rest = {name: value for name, value in qos.items() if name != "interfaces"}
        updates = [{"path": "openconfig-qos:qos", "val": rest}]
        for entry in qos["interfaces"]["interface"]:
            path = f"openconfig-qos:qos/interfaces/interface[interface-id={entry['interface-id']}]"
            updates.append({"path": path, "val": entry})
    check(tree({"notification": [{"timestamp": 1, "update": updates}]}))


def test_what_is_bound_but_not_defined_dangles_and_is_unknown() -> None:
    broken = json.loads(json.dumps(TREE))
    broken["openconfig-qos:qos"]["openconfig-qos-maps-ext:dscp-maps"] = {"dscp-map": []}
    switch = tree(broken)
    assert switch.ports["Ethernet0"].tc_of(26) is None
    assert [(each.kind, each.rule) for each in switch.findings] == [("dangling", "S14")]
    assert "and 4 more" in switch.findings[0].message


def test_an_interface_that_binds_nothing() -> None:
    port = tree({"openconfig-qos:qos": {"interfaces": {"interface": [{"interface-id": "Ethernet0"}]}}}).ports[
        "Ethernet0"
    ]
    assert (port.trust, port.pfc, port.dscp_to_tc) == (frozenset[str](), frozenset[int](), UNBOUND)


def test_standard_classifiers_and_queue_management() -> None:
    qos = {
        "classifiers": {
            "classifier": [
                {
                    "name": "IN",
                    "terms": {
                        "term": [
                            {
                                "id": "1",
                                "conditions": {"ipv4": {"config": {"dscp-set": [24, 26]}}},
                                "actions": {"config": {"target-group": "fg3"}},
                            }
                        ]
                    },
                }
            ]
        },
        "queue-management-profiles": {
            "queue-management-profile": [
                {
                    "name": "ECN",
                    "wred": {
                        "uniform": {
                            "config": {
                                "min-threshold": "80000",
                                "max-threshold": "3000000",
                                "enable-ecn": True,
                                "max-drop-probability-percent": 100,
                            }
                        }
                    },
                }
            ]
        },
        "interfaces": {
            "interface": [
                {
                    "interface-id": "Ethernet1",
                    "input": {"classifiers": {"classifier": [{"type": "IPV4", "config": {"name": "IN"}}]}},
                    "output": {
                        "queues": {
                            "queue": [{"name": "q3", "config": {"name": "q3", "queue-management-profile": "ECN"}}]
                        }
                    },
                }
            ]
        },
    }
    port = tree({"openconfig-qos:qos": qos}).ports["Ethernet1"]
    assert (port.tc_of(26), port.trust) == (3, frozenset({"dscp"}))
    queue = port.queue(3)
    assert queue is not None
    assert queue.ecn is not None
    assert (queue.ecn.enabled, queue.ecn.kmin, queue.ecn.kmax, queue.ecn.pmax) == (True, 80_000, 3_000_000, 100)


def test_buffers_and_neighbours() -> None:
    buffer = {
        "buffer-pools": {
            "buffer-pool": [
                {"name": "p", "config": {"name": "p", "type": "INGRESS", "mode": "DYNAMIC", "size": "1000"}}
            ]
        },
        "buffer-profiles": {
            "buffer-profile": [
                {"name": "l", "config": {"pool": "p", "size": "0", "dynamic-threshold": -2, "pause-threshold": "77824"}}
            ]
        },
        "buffer-priority-groups": {
            "buffer-priority-group": [{"ifname": "Ethernet0", "priority-group": "3-4", "config": {"profile": "l"}}]
        },
    }
    lldp = {
        "interfaces": {
            "interface": [
                {
                    "name": "Ethernet0",
                    "neighbors": {"neighbor": [{"id": "1", "state": {"system-name": "gpu-001", "port-id": "eth2"}}]},
                }
            ]
        }
    }
    switch = tree({"openconfig-qos:qos": {"openconfig-qos-buffer:buffer": buffer}, "openconfig-lldp:lldp": lldp})
    port = switch.ports["Ethernet0"]
    assert port.groups is not None
    profile = port.groups[4].profile
    assert profile is not None
    assert (profile.xoff, profile.dynamic_th, profile.pool and profile.pool.size) == (77824, -2, 1000)
    assert port.neighbour is not None
    assert (port.neighbour.system, port.neighbour.port) == ("gpu-001", "eth2")


def test_a_config_db_of_the_same_switch() -> None:
    switch = tree({"PORT": {"Ethernet0": {"speed": "400000"}}, "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}}})
    assert (switch.platform, switch.ports["Ethernet0"].pfc) == ("dell-sonic", frozenset({3}))
