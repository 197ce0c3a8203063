"""Cumulus Linux: an NVUE configuration with and without ``qos roce``, answers of ``nv show``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tuner.switch import nvue
from tuner.switch.model import Switch


def configured(qos: dict[str, Any], interface: dict[str, Any] | None = None, wrap: str = "bare") -> Switch:
    tree = {"qos": qos, "interface": interface or {"swp1-2": {"link": {"mtu": 9216}}}, "system": {"hostname": "leaf1"}}
    wrapped: dict[str, Any] = {
        "bare": tree,
        "config show": [{"header": {"version": "5.14"}}, {"set": tree}],
        "set": {"set": tree},
    }
    return nvue.read("leaf1", {"f": json.dumps(wrapped[wrap]).encode()})


@pytest.mark.parametrize("wrap", ["bare", "config show", "set"])
def test_roce_alone_is_nvidias_defaults(wrap: str) -> None:
    switch = configured({"roce": {"enable": "on"}}, wrap=wrap)
    assert (switch.hostname, {*switch.ports}) == ("leaf1", {"swp1", "swp2"})
    port = switch.ports["swp2"]
    assert (port.mtu, port.pfc, port.cable) == (9216, frozenset({3}), 100.0)
    assert port.trust == frozenset({"pcp", "dscp"})
    assert [(port.tc_of(dscp), port.queue_of(port.tc_of(dscp) or 0)) for dscp in (26, 48, 46, 0)] == [
        (3, 3),
        (6, 6),
        (5, 0),
        (0, 0),
    ]
    roce, cnp = port.queue(3), port.queue(6)
    assert roce is not None
    assert cnp is not None
    assert roce.ecn is not None
    assert roce.scheduler is not None
    assert cnp.scheduler is not None
    assert (roce.ecn.kmin, roce.ecn.kmax, roce.ecn.pmax, roce.scheduler.weight) == (150_000, 1_501_500, 100, 50)
    assert cnp.scheduler.kind == "strict"
    assert port.watchdog is not None
    assert not port.watchdog.enabled


def test_lossy_roce_has_no_pfc() -> None:
    assert configured({"roce": {"mode": "lossy"}}).ports["swp1"].pfc == frozenset()


def test_without_roce_pfc_is_off_and_trust_is_not_known() -> None:
    port = configured({"pfc-watchdog": {"polling-interval": 100}}).ports["swp1"]
    assert (port.pfc, port.trust) == (frozenset[int](), None)
    assert port.queue_of(3) == 3


def test_profiles_and_who_uses_them() -> None:
    switch = configured(
        {
            "roce": {"enable": "on", "cable-length": 10},
            "mapping": {"default-global": {"trust": "l3", "dscp": {"10,11": {"switch-priority": 4}}}},
            "pfc": {
                "long": {"switch-priority": {"3": {}, "4": {}}, "tx": "enable", "rx": "enable", "cable-length": 300}
            },
            "congestion-control": {
                "default-global": {"traffic-class": {"3": {"min-threshold": "40000 B", "max-threshold": 200000}}}
            },
            "egress-scheduler": {"default-global": {"traffic-class": {"2,6": {"mode": "dwrr", "bw-percent": 30}}}},
            "pfc-watchdog": {"polling-interval": 200, "robustness": 2},
        },
        {
            "swp1": {"qos": {"pfc": {"profile": "long"}, "pfc-watchdog": {"state": "enable"}}},
            "swp2": {"qos": {"pfc": {"profile": "gone"}}},
            "eth0": {"link": {"mtu": 1500}},
        },
    )
    one, other = switch.ports["swp1"], switch.ports["swp2"]
    assert (one.pfc, one.cable, one.trust, one.tc_of(11)) == (frozenset({3, 4}), 300.0, frozenset({"dscp"}), 4)
    assert one.watchdog is not None
    assert (one.watchdog.enabled, one.watchdog.detection, switch.watchdog_poll) == (True, 400, 200)
    queue, six = one.queue(3), one.queue(6)
    assert queue is not None
    assert queue.ecn is not None
    assert (queue.ecn.enabled, queue.ecn.kmin, queue.ecn.kmax, queue.ecn.pmax) == (True, 40_000, 200_000, 100)
    assert six is not None
    assert six.scheduler is not None
    assert (six.scheduler.kind, six.scheduler.weight) == ("dwrr", 30)
    assert other.pfc is None
    assert [finding.place for finding in switch.findings if finding.kind == "dangling"] == [
        "f/interface/swp2/qos/pfc/profile"
    ]
    assert "eth0" not in switch.ports


def test_one_direction_of_pfc_is_asymmetric() -> None:
    pfc = {"default-global": {"switch-priority": "3", "tx": "enable", "rx": "disable"}}
    port = configured({"roce": {"enable": "on"}, "pfc": pfc}).ports["swp1"]
    assert (port.pfc, port.pfc_asymmetric) == (frozenset[int](), True)


def test_dscp_that_is_rewritten_at_egress() -> None:
    remark = {"default-global": {"rewrite": "l3", "switch-priority": {"3": {"dscp": 0}}}}
    port = configured({"roce": {"enable": "on"}, "remark": remark}).ports["swp1"]
    assert port.tc_to_dscp is not None
    assert port.tc_to_dscp.entries == {3: 0}


def test_links_and_neighbours() -> None:
    answer = {
        "swp1": {
            "type": "swp",
            "link": {"mtu": 9216, "speed": "400G", "oper-status": "up"},
            "lldp": {
                "neighbor": {
                    "gpu-001": {
                        "chassis": {"chassis-id": "B8:CE:F6:00:00:01", "system-name": "gpu-001"},
                        "port": {"name": "enp24s0np0", "type": "ifname"},
                    }
                }
            },
        },
        "lo": {"type": "loopback"},
    }
    switch = nvue.read("leaf1", {"nv show interface": json.dumps(answer).encode()})
    port = switch.ports["swp1"]
    assert (port.speed, port.mtu, port.oper_up, port.pfc) == (400_000, 9216, True, None)
    assert port.neighbour is not None
    assert (port.neighbour.system, port.neighbour.port, port.neighbour.chassis) == (
        "gpu-001",
        "enp24s0np0",
        "b8:ce:f6:00:00:01",
    )
    assert switch.partial


def test_show_qos_roce_as_json() -> None:
    answer = {
        "mode": "lossless",
        "pfc": {"pfc-priority": "3", "rx-enabled": "yes", "tx-enabled": "yes", "cable-length": 100},
        "congestion-control": {
            "congestion-mode": "ecn, absolute",
            "enabled-tc": "0,3",
            "min-threshold": 150000,
            "max-threshold": "1501500 B",
            "probability": 100,
        },
        "trust": {"trust-mode": "pcp,dscp"},
        "tc-map": {"roce": {"switch-prio": "3", "traffic-class": "3", "scheduler-weight": "dwrr-50%"}},
        "prio-map": {"roce": {"pcp": "3", "dscp": "26", "switch-prio": "3"}},
    }
    port = nvue.read("leaf1", {"f": json.dumps(answer).encode()}).ports[nvue.EVERY_PORT]
    queue = port.queue(3)
    assert queue is not None
    assert queue.ecn is not None
    assert (port.pfc, port.tc_of(26), queue.ecn.kmin, queue.ecn.kmax) == (frozenset({3}), 3, 150_000, 1_501_500)
    assert port.watchdog is None  # this answer does not tell


def test_what_the_operational_column_says_is_kept_apart() -> None:
    text = (
        "                    operational            applied\n------------------  -----------  --------\n"
        "enable                                     on\npfc\n"
        "  pfc-priority      4                      3\n  rx-enabled        enabled\n  tx-enabled        enabled\n"
    )
    switch = nvue.read("leaf1", {"f": text.encode()})
    assert switch.ports[nvue.EVERY_PORT].pfc == frozenset({3})
    assert switch.operational is not None
    assert switch.operational.ports[nvue.EVERY_PORT].pfc == frozenset({4})


@pytest.mark.parametrize("text", ["Error: unauthorized", "[]", '"text"', '{"message": "not found"}'])
def test_anything_else_is_refused(text: str) -> None:
    (finding,) = nvue.read("leaf1", {"f": text.encode()}).findings
    assert finding.kind == "unreadable"
