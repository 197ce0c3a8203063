"""L01-L11, R05: a NIC, its cable and its switch port."""

from __future__ import annotations

from typing import Any

from tests.tuner.lint.cases import Case, Change, Negative, Positive, Unknown, cases, check
from tests.tuner.lint.scene import DSCP, Scene, nic, port
from tuner.nic import App, Counters, Pfc
from tuner.switch.model import UNBOUND, Neighbour, QosMap, Queue, Scheduler

WELL, PORT = nic(1, 0), port("Ethernet0", 5.0, ("gpu-1", "eth0"))
HERE = "leaf-r0 PORT_QOS_MAP|Ethernet0.pfc_enable (gpu-1/rail0)"
CABLE = "leaf-r0 Ethernet0 (gpu-1/rail0)"
MAP = "leaf-r0 DSCP_TO_TC_MAP|AZURE"
TRUNK = "leaf-r0 Ethernet8 (spine-0:Ethernet0)"


def one(**changes: Any) -> Change:
    """Port Ethernet0 of leaf-r0, changed."""
    return lambda scene: scene.port("leaf-r0", "Ethernet0", **changes)


def host(**changes: Any) -> Change:
    """The NIC at the other end, changed."""
    return lambda scene: scene.nic("gpu-1", "rail0", **changes)


def dscps(**entries: int) -> QosMap:
    """The DSCP map with some entries changed: ``dscps(d26=1)``."""
    changed = {int(name[1:]): tc for name, tc in entries.items()}
    return QosMap("AZURE", {**(DSCP.entries or {}), **changed}, DSCP.place)


def weighted(**weights: int) -> dict[int, Queue]:
    """Queues with DWRR weights: ``weighted(q6=5)``."""
    changed = {int(name[1:]): Queue(Scheduler("w", "dwrr", weight)) for name, weight in weights.items()}
    return {**(PORT.queues or {}), **changed}


def hears(system: str, other: str) -> Change:
    return one(neighbour=Neighbour(system, other))


def no_host(scene: Scene) -> Scene:
    scene.hosts.clear()
    return scene


def no_switch(scene: Scene) -> Scene:
    scene.switches.clear()
    return scene


UPLINK_PFC = "leaf-r0 PORT_QOS_MAP|Ethernet8.pfc_enable"


def uplinks(scene: Scene, **changes: Any) -> Scene:
    """Both ends of every cable between switches, changed alike."""
    ends = (("leaf-r0", "Ethernet8"), ("leaf-r1", "Ethernet8"), ("spine-0", "Ethernet0"), ("spine-0", "Ethernet4"))
    for switch, name in ends:
        scene.port(switch, name, **changes)
    return scene


def no_intent(scene: Scene) -> Scene:
    """Take the intent's own complaints away: a fabric that runs RoCE without PFC."""
    return scene.add("qos: {lossless: {pfc: false}}\n")


POSITIVE = [
    Positive(
        "L01",
        lambda scene: uplinks(scene, pfc=frozenset(), pfc_oper=None),
        UPLINK_PFC,
        "PFC: fabric.yaml 3, the switch port none",
        "critical",
    ),
    Positive(
        "L02", lambda scene: uplinks(scene, dscp_to_tc=dscps(d26=1)), "leaf-r0 DSCP_TO_TC_MAP|AZURE", "no PFC protects"
    ),
    Positive(
        "L02",
        one(dscp_to_tc=UNBOUND, trust=frozenset()),
        "leaf-r0 Ethernet0 (gpu-1/rail0)",
        "the port binds no map, others",
    ),
    Positive(
        "L07", lambda scene: uplinks(scene, mtu=1500), "leaf-r0 Ethernet8", "fabric.yaml 9000, the switch port 1500"
    ),
    Positive("L01", one(pfc=frozenset({4})), HERE, "PFC: host and fabric.yaml 3, the switch port 4", "critical"),
    Positive("L01", one(pfc=frozenset()), HERE, "the switch port none", "critical"),
    Positive("L01", one(pfc=frozenset({3, 4})), HERE, "the switch port 3,4", "medium"),
    Positive("L01", host(pfc=Pfc(enabled=(3, 4))), HERE, "PFC: the host 3,4, the switch port 3", "critical"),
    Positive("L02", one(dscp_to_tc=dscps(d26=1)), MAP, "goes to traffic class 1 on the switch, which no PFC protects"),
    Positive("L02", one(dscp_to_tc=QosMap("AZURE", {3: 3}, DSCP.place)), MAP, "is not mapped (traffic class 0)"),
    Positive(
        "L02",
        one(dscp_to_tc=dscps(d26=4), pfc=frozenset({3, 4}), tc_to_pg=UNBOUND),
        MAP,
        "class 4 on the switch, which PFC 4",
    ),
    Positive("L02", lambda scene: no_host(one(dscp_to_tc=dscps(d26=1))(scene)), MAP, "DSCP 26, priority 3, goes"),
    Positive("L03", one(dscp_to_tc=dscps(d48=3)), MAP, "DSCP 48 of CNPs goes to traffic class 3, which PFC 3 pauses"),
    Positive(
        "L03", one(queues=weighted(q6=5, q0=45, q3=50)), "leaf-r0 QUEUE|Ethernet0 (gpu-1/rail0)", "best effort with 5%"
    ),
    Positive("L04", one(trust=frozenset({"pcp"})), "leaf-r0 Ethernet0", "classifies by 802.1p alone"),
    Positive(
        "L05", one(pfc_mode="auto", dcbx_peer=False, pfc_oper=frozenset()), HERE[:-14], "PFC is auto, and no DCBX peer"
    ),
    Positive(
        "L05",
        one(pfc_mode="auto", dcbx_peer=None, pfc_oper=frozenset()),
        HERE[:-14],
        "PFC is auto, and PFC does not run",
    ),
    Positive("L06", one(dcbx="cee"), "gpu-1 rail0 (eth0)", "the NIC speaks IEEE, the switch port CEE"),
    Positive("L07", one(mtu=8192), "leaf-r0 Ethernet0 (gpu-1/rail0)", "fabric.yaml 9000, the switch port 8192"),
    Positive(
        "L07",
        lambda scene: scene.switch("leaf-r0", mtu_is_frame=True).port("leaf-r0", "Ethernet0", mtu=9017),
        "leaf-r0 Ethernet0 (gpu-1/rail0)",
        "the switch port 9017 with the Ethernet header",
    ),
    Positive("L08", one(cable=0.0), "leaf-r0 CABLE_LENGTH|AZURE.Ethernet0", 'the cable length is "0m"', "high"),
    Positive(
        "L08",
        lambda scene: one(cable=5.0)(scene.write("cable: 5m,", "cable: 12m,")),
        "leaf-r0 CABLE_LENGTH|AZURE.Ethernet0",
        "reckons with 5m, the cable has 12m",
        "high",
    ),
    Positive("L08", one(cable=300.0), "leaf-r0 CABLE_LENGTH|AZURE.Ethernet0", "buffer is wasted", "medium"),
    Positive("L09", one(cable=12.0, groups={}), "leaf-r0 CABLE_LENGTH|AZURE.Ethernet0", "no row for 400G and 12m"),
    Positive(
        "L10",
        one(tc_to_dscp=QosMap("REMARK", {3: 24}, "TC_TO_DSCP_MAP|REMARK")),
        "leaf-r0 Ethernet0",
        "DSCP 26 (traffic class 3) leaves the port as 24",
    ),
    Positive("L11", hears("gpu-2", "eth0"), CABLE, "LLDP hears gpu-2 eth0 where gpu-1 should be", "high"),
    Positive(
        "L11", hears("gpu-1", "eth1"), CABLE, "the host's NIC of rail1 is plugged in where rail0 should be", "high"
    ),
    Positive("L11", hears("gpu-1", "b8:ce:f6:00:01:01"), CABLE, "NIC of rail1", "high"),
    Positive("L11", one(neighbour=None, oper_up=False), CABLE, "the link is down", "high"),
    Positive("L11", one(neighbour=None), CABLE, "no LLDP neighbour, while other ports", "medium"),
    Positive(
        "L11",
        lambda scene: scene.port("leaf-r0", "Ethernet8", neighbour=Neighbour("spine-0", "Ethernet4")),
        TRUNK,
        "LLDP hears spine-0 Ethernet4 where spine-0:Ethernet0 should be",
        "high",
    ),
    Positive(
        "L11",
        lambda scene: scene.ports(neighbour=None).port(
            "leaf-r0", "Ethernet0", neighbour=None, expected_neighbour=Neighbour("gpu-9", "eth0")
        ),
        CABLE,
        "records have gpu-9 eth0",
        "medium",
    ),
    Positive(
        "R05",
        host(counters=Counters(tx_pause=(0, 0, 0, 5000, 0, 0, 0, 0), rx_pause=(0,) * 8)),
        CABLE,
        "pauses of priority 3 sent by the NIC: the ends count more than twice apart",
    ),
]

NEGATIVE = [
    Negative(
        "L01",
        "more priorities on uplinks are usual",
        lambda scene: uplinks(scene, pfc=frozenset({2, 3, 6}), pfc_oper=None),
    ),
    Negative("L01", "DCBX agreed on it", one(pfc=None, pfc_mode="auto", pfc_oper=frozenset({3}))),
    Negative("L02", "the host protects nothing itself: H06", lambda scene: no_intent(scene).nics(pfc=Pfc(enabled=()))),
    Negative(
        "L03",
        "no ECN, no CNPs",
        lambda scene: one(dscp_to_tc=dscps(d48=3))(scene).add("qos: {ecn: {enabled: false}}\n"),
    ),
    Negative("L03", "weighted with a tenth", one(queues=weighted(q0=45, q3=45, q6=10))),
    Negative("L04", "both: IP goes by DSCP", one(trust=frozenset({"dscp", "pcp"}))),
    Negative(
        "L04",
        "a lossy port that faces nobody",
        lambda scene: scene.port("spine-0", "Ethernet0", trust=frozenset({"dscp"}), pfc=frozenset()),
    ),
    Negative("L05", "DCBX agreed", one(pfc_mode="auto", pfc_oper=frozenset({3}))),
    Negative("L05", "a port without link", one(pfc_mode="auto", pfc_oper=frozenset(), oper_up=False)),
    Negative("L06", "the switch has DCBX off", one(dcbx="off")),
    Negative("L07", "IP MTU, exactly the host's", one(mtu=9000)),
    Negative(
        "L07",
        "with the header, exactly",
        lambda scene: scene.switch("leaf-r0", mtu_is_frame=True).port("leaf-r0", "Ethernet0", mtu=9018),
    ),
    Negative("L08", "the next longer row", lambda scene: scene.ports(cable=40.0).write("cable: 5m,", "cable: 12m,")),
    Negative("L08", "a lossy port needs no length", one(cable=0.0, pfc=frozenset())),
    Negative("L09", "a profile of its own needs no row", one(cable=12.0)),
    Negative(
        "L09",
        "the dynamic model has no rows",
        lambda scene: one(cable=12.0, groups={})(scene).switch("leaf-r0", buffer_model="dynamic"),
    ),
    Negative("L10", "rewritten to itself", one(tc_to_dscp=QosMap("R", {3: 26, 6: 48}, "TC_TO_DSCP_MAP|R"))),
    Negative("L11", "with its domain", hears("GPU-1.cluster.example", "eth0")),
    Negative("L11", "by MAC address", hears("gpu-1", "b8:ce:f6:00:01:00")),
    Negative(
        "R05", "a few frames apart", host(counters=Counters(tx_pause=(0, 0, 0, 900, 0, 0, 0, 0), rx_pause=(0,) * 8))
    ),
]


UNKNOWN = [
    *(Unknown(rule, no_switch, "configuration of the switch") for rule in ("L01", "L02", "L03", "L06", "L07", "L11")),
    Unknown("L01", one(pfc=None), "which priorities of the port have PFC"),
    Unknown("L02", one(trust=None, dscp_to_tc=None), "trust and DSCP map of the switch port"),
    Unknown("L03", one(queues=None), "scheduler of the CNPs' queue"),
    Unknown("L04", one(trust=None), "trust of the port"),
    Unknown(
        "L05",
        lambda scene: one(pfc_mode=None)(scene.switch("leaf-r0", platform="nxos")),
        "PFC mode of the port (on, off or auto)",
    ),
    Unknown("L06", no_host, "DCBX of the NIC"),
    Unknown("L06", one(dcbx=None), "DCBX of the switch port"),
    Unknown("L07", one(mtu=None), "MTU of the switch port or of the NIC"),
    Unknown(
        "L07",
        lambda scene: scene.switch("leaf-r0", mtu_is_frame=None).port("leaf-r0", "Ethernet0", mtu=9000),
        "whether the switch's MTU counts the Ethernet header",
    ),
    Unknown("L08", one(cable=None), "cable length of the port"),
    Unknown("L09", lambda scene: one(groups={})(scene).switch("leaf-r0", lookup=None), "pg_profile_lookup.ini"),
    Unknown("L10", one(tc_to_dscp=None), "whether the port rewrites DSCP"),
    Unknown("L11", lambda scene: scene.ports(neighbour=None), "LLDP neighbours of the switch"),
    Unknown("R05", no_host, "counters of both ends of the cable"),
]


@cases(*POSITIVE, *NEGATIVE, *UNKNOWN)
def test_a_rule_finds_spares_or_lacks(case: Case) -> None:
    check(case)


def test_host_and_fabric_that_differ_are_told_apart() -> None:
    scene = Scene().nic("gpu-1", "rail0", apps=(App(selector="dscp", protocol=26, priority=4),), pfc=Pfc(enabled=(4,)))
    found = scene.findings("L01")
    assert [each.evidence for each in found] == ["PFC: the host 4, the switch port 3"]


def test_one_map_of_many_ports_is_one_place() -> None:
    scene = Scene().ports(dscp_to_tc=dscps(d26=1))
    (finding,) = scene.findings("L02")
    assert finding.where == tuple(f"{switch} DSCP_TO_TC_MAP|AZURE" for switch in ("leaf-r0", "leaf-r1", "spine-0"))


def test_one_cause_on_many_ports_is_one_finding() -> None:
    scene = Scene().ports(cable=0.0)
    (finding,) = scene.findings("L08")
    assert len(finding.where) == 8


def test_two_platforms_have_two_fixes() -> None:
    scene = Scene().ports(trust=frozenset({"pcp"})).switch("leaf-r1", platform="nxos")
    fixes = {finding.where[0].split()[0]: finding.fix for finding in scene.findings("L04")}
    assert fixes["leaf-r0"].startswith("config apply-patch: [")
    assert fixes["leaf-r1"].startswith("interface Ethernet0; service-policy type qos input")


def test_priorities_beyond_roces_own_are_expected_where_the_profile_has_them() -> None:
    scene = Scene().add("qos: {profile: sonic-default}\n")
    scene.hosts.clear()
    evidence = {finding.evidence for finding in scene.findings("L01")}
    assert evidence == {"PFC: fabric.yaml 3,4, the switch port 3"}
