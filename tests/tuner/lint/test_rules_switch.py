"""S01-S15, T01-T04, R01-R03, READ: a switch alone, and switches against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.tuner.lint.cases import Case, Change, Negative, Positive, Unknown, cases, check
from tests.tuner.lint.scene import DSCP, LOOKUP, MARKS, POOL, PROFILE, SAME, STRICT, Scene, port
from tuner.switch import model
from tuner.switch.model import NO_ECN, UNBOUND, Finding, PriorityGroup, QosMap, Queue, Scheduler, Switch, Watchdog

PORT = port("Ethernet0", 5.0, ("gpu-1", "eth0"))
UNMAPPED = dict.fromkeys(("dscp_to_tc", "dot1p_to_tc", "tc_to_queue", "tc_to_pg", "pfc_to_queue", "pfc_to_pg"), UNBOUND)
GROUP, QUEUE, DOG = "leaf-r0 BUFFER_PG|Ethernet0", "leaf-r0 QUEUE|Ethernet0", "leaf-r0 PFC_WD|Ethernet0"
PFC = "leaf-r0 PORT_QOS_MAP|Ethernet0.pfc_enable"
TRUNK = "leaf-r0 Ethernet8 (spine-0:Ethernet0)"


def one(**changes: Any) -> Change:
    """Port Ethernet0 of leaf-r0, changed."""
    return lambda scene: scene.port("leaf-r0", "Ethernet0", **changes)


def leaf(**changes: Any) -> Change:
    """The switch leaf-r0, changed."""
    return lambda scene: scene.switch("leaf-r0", **changes)


def both(*changes: Change) -> Change:
    """One change after the other."""

    def change(scene: Scene) -> Scene:
        for each in changes:
            scene = each(scene)
        return scene

    return change


def profile(**changes: Any) -> Change:
    """The lossless profile of one port, changed."""
    return one(groups={3: PriorityGroup(replace(PROFILE, **changes))})


def queue(number: int, **changes: Any) -> dict[int, Queue]:
    queues = PORT.queues or {}
    return {**queues, number: replace(queues[number], **changes)}


def marks(**changes: Any) -> Change:
    return one(queues=queue(3, ecn=replace(MARKS, **changes)))


def dog(**changes: Any) -> Change:
    return one(watchdog=Watchdog(**{"enabled": True, "detection": 200.0, **changes}))


def counted(number: int = 3, **changes: Any) -> Change:
    """Counters of one queue of one port."""
    counters = PORT.counters
    assert counters is not None
    queues = {**(counters.queues or {}), number: model.QueueCounters(packets=9, ecn_marked=9, **changes)}
    return one(counters=replace(counters, queues=queues))


def running(**changes: Any) -> Change:
    """What runs on a port differs from what is configured."""

    def change(scene: Scene) -> Scene:
        old = scene.switches["leaf-r0"]
        ports = {**old.ports, "Ethernet0": replace(old.ports["Ethernet0"], **changes)}
        return scene.switch("leaf-r0", operational=Switch("leaf-r0", "sonic", "", ports=ports))

    return change


def told(kind: Any, message: str) -> Change:
    return leaf(findings=(Finding(kind, "QUEUE|Ethernet0|3.scheduler", message, "S14"),))


def a_second_leaf_trunk(scene: Scene) -> Scene:
    """The leaves joined directly."""
    scene.write(
        '  - {from: "leaf-r[0-1]:Ethernet8"',
        '  - {from: "leaf-r0:Ethernet12", to: "leaf-r1:Ethernet12"}\n  - {from: "leaf-r[0-1]:Ethernet8"',
    )
    for name, other in (("leaf-r0", "leaf-r1"), ("leaf-r1", "leaf-r0")):
        ports = {**scene.switches[name].ports, "Ethernet12": port("Ethernet12", 40.0, (other, "Ethernet12"))}
        scene.switch(name, ports=ports, operational=Switch(name, "sonic", "", ports=ports))
    return scene


def no_speed(scene: Scene) -> Scene:
    """Neither the switch nor the fabric tells."""
    scene.text = None
    return scene.ports(speed=None)


def elsewhere(scene: Scene) -> Scene:
    """Every map is a tunnel's."""
    for name, each in scene.switches.items():
        places = frozenset(one.place for maps in (each.maps or {}).values() for one in maps.values())
        scene.switch(name, maps_elsewhere=places)
    return scene


def alone(scene: Scene) -> Scene:
    del scene.switches["leaf-r1"]
    return scene


def bridged(*ports: str) -> Change:
    """Ports of leaf-r0 in one VLAN."""

    def change(scene: Scene) -> Scene:
        for name in ports:
            scene.port("leaf-r0", name, vlans=frozenset({"Vlan10"}))
        return scene

    return change


POSITIVE = [
    Positive(
        "S01", lambda scene: scene.ports(**UNMAPPED), "leaf-r0 PORT_QOS_MAP", "2 maps are defined, no port binds one"
    ),
    Positive("S02", one(groups={}, cable=12.0), GROUP, "PFC is on priority 3, whose priority group is not there"),
    Positive(
        "S02", one(groups={3: PriorityGroup(model.BufferProfile("lossy", POOL, size=0))}), GROUP, "group is lossy"
    ),
    Positive("S02", both(one(groups={}), leaf(platform="eos")), GROUP, "is not there"),
    Positive(
        "S03",
        one(pfc_to_queue=QosMap("M", {**SAME, 3: 4}, "M|M")),
        "leaf-r0 Ethernet0",
        "a pause for priority 3 stops queue 4",
    ),
    Positive(
        "S03", one(tc_to_pg=QosMap("M", {**SAME, 3: 0}, "M|M")), "leaf-r0 Ethernet0", "class 3 is in priority group 0"
    ),
    Positive("S04", profile(xoff=38_911), GROUP, "xoff of pg_lossless is 38911 B; 400G over 5m needs"),
    Positive("S04", both(profile(xoff=77_823), one(cable=40.0)), GROUP, "400G over 40m needs 77824 B"),
    Positive(
        "S05",
        leaf(pools={"p": replace(POOL, name=POOL.name, xoff=79_999)}),
        "leaf-r0 BUFFER_POOL|ingress_lossless_pool",
        "is 79999 B; the largest single group needs 80000 B",
    ),
    Positive(
        "S05",
        leaf(pools={"p": replace(POOL, xoff=100_000)}, over_subscribe_ratio=2),
        "leaf-r0 BUFFER_POOL|ingress_lossless_pool",
        "240000 B of 3 groups at ratio 2 needs 120000 B",
    ),
    Positive("S06", one(queues=queue(3, ecn=NO_ECN)), QUEUE, "lossless queue 3 has no ECN"),
    Positive("S06", marks(kmin=3 << 20), "leaf-r0 WRED_PROFILE|ROCE", "Kmin 3145728 B is above Kmax 2097152 B"),
    Positive(
        "S06",
        lambda scene: one(queues=queue(3, ecn=NO_ECN))(scene.add("qos: {profile: ecn-only}\n")),
        QUEUE,
        "RoCE's queue 3 has no ECN",
    ),
    Positive(
        "S07",
        profile(dynamic_th=None, static_th=1_000_000),
        "leaf-r0 WRED_PROFILE|ROCE",
        "Kmin is 1048576 B, the pause threshold is 1000000 B (static_th of pg_lossless)",
        "high",
    ),
    Positive(
        "S07", profile(dynamic_th=None, size=1_080_000), "leaf-r0 WRED_PROFILE|ROCE", "1000000 B (size − xoff", "high"
    ),
    Positive(
        "S07", profile(dynamic_th=-7), "leaf-r0 WRED_PROFILE|ROCE", "αB/(1+nα) with α 2^-7, B 100000000 B, n 1", "info"
    ),
    Positive(
        "S07",
        lambda scene: profile(dynamic_th=-6)(scene.add("lint: {incast: 100}\n")),
        "leaf-r0 WRED_PROFILE|ROCE",
        "n 100",
        "high",
    ),
    Positive("S08", marks(kmin=2 << 20), "leaf-r0 WRED_PROFILE|ROCE", "Kmin and Kmax are both 2097152 B"),
    Positive("S09", one(watchdog=Watchdog(False)), DOG, "PFC is on, the port has no watchdog"),
    Positive("S09", one(watchdog=None), DOG, "the configuration has no watchdog (no PFC_WD)"),
    Positive(
        "S09", both(dog(detection=200.0), leaf(watchdog_poll=400)), DOG, "200 ms is below the poll interval of 400 ms"
    ),
    Positive("S09", dog(priorities=frozenset({4})), DOG, "the watchdog looks at priority 4, PFC is on 3"),
    Positive("S10", dog(detection=600.0), DOG, "detection time is 600 ms"),
    Positive(
        "S11",
        both(
            one(pfc=frozenset({3, 4}), pfc_oper=None),
            lambda scene: scene.port(
                "leaf-r0",
                "Ethernet0",
                queues={**queue(3, scheduler=Scheduler("a", "dwrr", 20)), 4: Queue(Scheduler("b", "dwrr", 10), MARKS)},
            ),
        ),
        QUEUE,
        "lossless queues have weights 3: 20, 4: 10",
    ),
    Positive(
        "S11",
        one(queues={**queue(3, scheduler=Scheduler("a", "dwrr", 5)), 0: Queue(Scheduler("b", "dwrr", 95))}),
        QUEUE,
        "lossless queue 3 has 5% of the weights",
    ),
    Positive(
        "S12",
        running(mtu=1500),
        "leaf-r0 Ethernet0",
        "MTU is configured as 9100 and runs as 1500; the lossless class has",
    ),
    Positive("S13", running(mtu=1500), "leaf-r0 Ethernet0", "MTU is configured as 9100 and runs as 1500"),
    Positive("S13", one(pfc_oper=frozenset()), "leaf-r0 Ethernet0", "PFC is configured on priority 3 and runs on none"),
    Positive(
        "S14", told("dangling", "s is not in SCHEDULER"), "leaf-r0 QUEUE|Ethernet0|3.scheduler", "s is not in SCHEDULER"
    ),
    Positive("S14", told("duplicate-key", "is there twice"), "leaf-r0 QUEUE|Ethernet0|3.scheduler", "is there twice"),
    Positive(
        "S15",
        a_second_leaf_trunk,
        "leaf-r0 Ethernet12 (leaf-r1:Ethernet12)",
        "PFC 3 on a link between two switches of role leaf",
    ),
    Positive(
        "S15",
        bridged("Ethernet0", "Ethernet4", "Ethernet8"),
        "leaf-r0 VLAN_MEMBER|Vlan10",
        "Vlan10 bridges 3 ports with PFC beside lossless uplinks",
        "medium",
    ),
    Positive("S16", marks(kmin=100_000), "leaf-r0 WRED_PROFILE|ROCE", "Kmin is 100000, wanted 1048576 B"),
    Positive(
        "S16",
        marks(kmax=1 << 30, pmax=100.0),
        "leaf-r0 WRED_PROFILE|ROCE",
        "Kmax is 1073741824, wanted 2097152 B; Pmax is 100, wanted 5",
    ),
    Positive(
        "S16",
        lambda scene: scene.add("qos: {ecn: {kmin: 400KB, kmax: 1600KB}}\n"),
        "leaf-r0 WRED_PROFILE|ROCE",
        "Kmin is 1048576, wanted 400000 B; Kmax is 2097152, wanted 1600000 B",
        "medium",
    ),
    Positive(
        "S16",
        lambda scene: scene.add("qos: {ecn: {enabled: false}}\n"),
        "leaf-r0 WRED_PROFILE|ROCE",
        "fabric.yaml wants no ECN: packets are dropped there instead of marked",
        "high",
    ),
    Positive(
        "T01",
        lambda scene: scene.port("spine-0", "Ethernet0", pfc=frozenset({4}), pfc_oper=None),
        TRUNK,
        "PFC is 3 at one end and 4",
    ),
    Positive(
        "T01", lambda scene: scene.port("spine-0", "Ethernet0", mtu=1500), TRUNK, "MTU is 9100 at one end and 1500"
    ),
    Positive(
        "T01",
        lambda scene: scene.port("spine-0", "Ethernet0", dscp_to_tc=QosMap("B", {**(DSCP.entries or {}), 26: 1})),
        TRUNK,
        "DSCP map: 26 is 3 at one end and 1 at the other",
    ),
    Positive(
        "T02",
        marks(kmin=100_000),
        "leaf-r0",
        "on priority 3 and 1048576/2097152 B at 5.0 % on priority 3; the switches of role leaf do not agree",
    ),
    Positive(
        "T03", profile(dynamic_th=-2), "leaf-r0", "dynamic_th is -2 and 0; the switches of role leaf do not agree"
    ),
    Positive(
        "T04",
        both(one(pfc=frozenset({2, 3, 6})), one(pfc_oper=None)),
        PFC,
        "PFC is on 2,3,6, on other ports of the switch on 3",
    ),
    Positive(
        "R01", counted(dropped=4), "leaf-r0 COUNTERS_DB Ethernet0", "lossless queue of priority 3 has dropped packets"
    ),
    Positive(
        "R01", one(counters=model.Counters(pg_dropped={3: 1})), "leaf-r0 COUNTERS_DB Ethernet0", "no headroom left"
    ),
    Positive(
        "R02",
        counted(status="stormed"),
        "leaf-r0 COUNTERS_DB Ethernet0 queue 3",
        "has the queue as stormed",
        "critical",
    ),
    Positive("R02", counted(deadlocks=2), "leaf-r0 COUNTERS_DB Ethernet0 queue 3", "has detected storms", "high"),
    Positive(
        "R03",
        lambda scene: scene.ports(
            counters=model.Counters(pfc_tx={3: 5000}, queues={3: model.QueueCounters(ecn_marked=0)})
        ),
        "leaf-r0",
        "pauses were sent, no packet",
    ),
    Positive(
        "READ",
        leaf(findings=(Finding("unreadable", "leaf-r0.json", "is not JSON"),)),
        "leaf-r0 leaf-r0.json",
        "is not JSON",
        "high",
    ),
    Positive(
        "READ",
        leaf(findings=(Finding("bad-value", "PORT|Ethernet0.mtu", "x is no MTU"),)),
        "leaf-r0 PORT|Ethernet0.mtu",
        "x is no",
        "medium",
    ),
    Positive(
        "READ", leaf(findings=(Finding("partial", "", "lacks most tables"),)), "leaf-r0", "lacks most tables", "info"
    ),
]

NEGATIVE = [
    Negative(
        "S01",
        "one port binds one",
        lambda scene: (
            scene.ports(**UNMAPPED)
            .port("leaf-r0", "Ethernet0", tc_to_pg=PORT.tc_to_pg)
            .port("leaf-r1", "Ethernet0", tc_to_pg=PORT.tc_to_pg)
            .port("spine-0", "Ethernet0", tc_to_pg=PORT.tc_to_pg)
        ),
    ),
    Negative("S01", "bound elsewhere: by a tunnel", lambda scene: elsewhere(scene.ports(**UNMAPPED))),
    Negative("S02", "the buffer manager has a row", one(groups={})),
    Negative("S02", "profile NULL", one(groups={3: PriorityGroup(None, automatic=True)})),
    Negative("S02", "0m is L08", one(groups={}, cable=0.0)),
    Negative("S02", "a lossy port beside lossless ones", one(groups={}, pfc=frozenset(), pfc_oper=None)),
    Negative("S03", "a lossy class may share what it likes", one(tc_to_queue=QosMap("M", {**SAME, 1: 0, 2: 0}))),
    Negative("S04", "exactly the row", both(profile(xoff=77_824), one(cable=40.0))),
    Negative(
        "S04",
        "the row of another ASIC is smaller than the model",
        both(profile(xoff=40_000), leaf(lookup=(model.LookupRow(400_000, 5.0, 0, 0, 40_000, 0),))),
    ),
    Negative("S05", "half of all at ratio 2", leaf(pools={"p": replace(POOL, xoff=120_000)}, over_subscribe_ratio=2)),
    Negative(
        "S06",
        "ECN off by intent",
        lambda scene: scene.ports(queues=queue(3, ecn=NO_ECN)).add("qos: {ecn: {enabled: false}}\n"),
    ),
    Negative("S06", "equal thresholds are S08", marks(kmin=2 << 20)),
    Negative("S06", "a lossy queue needs none", one(queues=queue(0, ecn=NO_ECN))),
    Negative("S07", "Kmin at the threshold", profile(dynamic_th=None, static_th=1 << 20)),
    Negative("S15", "two ports: nobody to flood to", bridged("Ethernet0", "Ethernet4")),
    Negative(
        "S15",
        "a single switch: no circle",
        lambda scene: bridged("Ethernet0", "Ethernet4", "Ethernet8")(
            scene.port("leaf-r0", "Ethernet8", pfc=frozenset(), pfc_oper=frozenset())
        ),
    ),
    Negative(
        "S15",
        "lossy ports in a VLAN",
        lambda scene: bridged("Ethernet0", "Ethernet4", "Ethernet8")(
            scene.port("leaf-r0", "Ethernet4", pfc=frozenset(), pfc_oper=frozenset())
        ),
    ),
    Negative("S16", "kilobytes of 1000 and of 1024 bytes", marks(kmin=1_024_000, kmax=2_048_000, pmax=5.1)),
    Negative("S16", "no ECN where it is wanted is S06", one(queues=queue(3, ecn=NO_ECN))),
    Negative(
        "S16",
        "ECN off by intent and off",
        lambda scene: scene.ports(queues=queue(3, ecn=NO_ECN)).add("qos: {ecn: {enabled: false}}\n"),
    ),
    Negative(
        "S16",
        "a port that fabric.yaml has no cable for",
        lambda scene: one(pfc=frozenset({3}), queues=queue(3, ecn=replace(MARKS, kmin=100_000)))(
            scene.write('"Ethernet[0-4:4]": "gpu-[1-2]/rail0"', '"Ethernet4": "gpu-2/rail0"')
        ),
    ),
    Negative("S08", "a byte apart", marks(kmax=(1 << 20) + 1)),
    Negative("S09", "no PFC, no watchdog", one(pfc=frozenset(), pfc_oper=None, watchdog=Watchdog(False))),
    Negative(
        "S09",
        "a watchdog on some of the priorities: bounced traffic",
        both(one(pfc=frozenset({2, 3, 6})), dog(priorities=frozenset({3}))),
    ),
    Negative("S10", "within the budget", dog(detection=400.0)),
    Negative(
        "S11",
        "14 and 15, as SONiC has it",
        one(queues={**queue(3, scheduler=Scheduler("a", "dwrr", 15)), 0: Queue(Scheduler("b", "dwrr", 14))}),
    ),
    Negative("S11", "strict has no weight", one(queues=queue(3, scheduler=STRICT))),
    Negative("S12", "nothing waits", one(mtu=1500)),
    Negative("S13", "DCBX decides: L05", one(pfc=None, pfc_mode="auto", pfc_oper=frozenset())),
    Negative("S14", "a table that no rule reads", told("ignored", "no rule reads this table")),
    Negative("S15", "leaf to spine goes up and down", lambda scene: scene),
    Negative(
        "T01",
        "one counts the header",
        lambda scene: (
            scene.switch("spine-0", mtu_is_frame=True)
            .port("spine-0", "Ethernet0", mtu=9118)
            .port("spine-0", "Ethernet4", mtu=9118)
        ),
    ),
    Negative(
        "T02",
        "another role",
        lambda scene: scene.port("spine-0", "Ethernet0", queues=queue(3, ecn=replace(MARKS, kmin=1000))),
    ),
    Negative(
        "T03",
        "another role",
        lambda scene: scene.port("spine-0", "Ethernet0", groups={3: PriorityGroup(replace(PROFILE, dynamic_th=3))}),
    ),
    Negative("T04", "3 and 4 beside 3", both(one(pfc=frozenset({3, 4})), one(pfc_oper=None))),
    Negative("R01", "drops in a lossy queue", counted(0, dropped=9)),
    Negative(
        "R03",
        "marks too",
        lambda scene: scene.ports(
            counters=model.Counters(pfc_tx={3: 5000}, queues={3: model.QueueCounters(ecn_marked=1)})
        ),
    ),
    Negative("READ", "a table that no rule reads", told("ignored", "no rule reads this table")),
]

UNKNOWN = [
    Unknown("S01", leaf(maps=None), "QoS maps of the switch"),
    Unknown("S01", leaf(bindings_known=False), "which port uses which map"),
    Unknown("S02", one(pfc=None), "which priorities of the port have PFC"),
    Unknown("S02", one(groups=None), "priority groups of the port"),
    Unknown(
        "S02",
        both(one(groups={}), leaf(lookup=None)),
        "pg_profile_lookup.ini (whether the buffer manager makes the priority group)",
    ),
    Unknown("S03", one(tc_to_pg=None), "queue or priority group of a lossless traffic class"),
    Unknown("S04", no_speed, "speed of the port"),
    Unknown("S05", leaf(pools=None), "buffer pools of the switch"),
    Unknown("S06", one(queues=queue(3, ecn=None)), "ECN of a lossless queue"),
    Unknown("S06", one(queues=None), "queues of the port"),
    Unknown("S07", profile(pool=None), "size of the buffer pool (the buffer manager works it out)"),
    Unknown("S16", marks(kmin=None), "Kmin of a lossless queue"),
    Unknown("S16", marks(kmax=None, pmax=None), "Kmax, Pmax of a lossless queue"),
    Unknown("S16", one(queues=queue(3, ecn=None)), "ECN of a lossless queue"),
    Unknown("S16", one(queues=None), "queues of the port"),
    Unknown("S16", lambda _: Scene(None), "ECN that is wanted (fabric.yaml)"),
    Unknown("S08", one(queues=queue(3, ecn=None)), "ECN of a lossless queue"),
    Unknown("S09", one(watchdog=None, speed=None), "PFC watchdog of the port"),
    Unknown("S10", dog(detection=None), "detection time of the PFC watchdog"),
    Unknown("S11", one(queues=queue(3, scheduler=None)), "scheduler of a lossless queue"),
    Unknown("S12", both(one(pfc_oper=None), leaf(operational=None)), "what runs on the switch"),
    Unknown("S12", both(one(counters=None), running(mtu=1500)), "counters of the port's queues"),
    Unknown("S13", both(one(pfc_oper=None), leaf(operational=None)), "what runs on the switch"),
    Unknown(
        "S15",
        lambda scene: scene.ports(vlans=None),
        "VLANs of the switch's ports (whether it floods unknown MAC addresses)",
    ),
    Unknown("T01", alone, "configuration of the switch at either end"),
    Unknown("T01", lambda scene: scene.port("spine-0", "Ethernet0", trust=None), "trust of an inter-switch link"),
    Unknown("T02", alone, "ECN of a second switch of the role"),
    Unknown("T03", alone, "dynamic_th of a second switch of the role"),
    Unknown("T04", lambda scene: scene.ports(pfc=None, pfc_oper=None), "which priorities of the ports have PFC"),
    Unknown("R01", one(counters=None), "drop counters of the switch port"),
    Unknown("R02", one(counters=None), "watchdog counters of the switch port"),
    Unknown("R03", lambda scene: scene.ports(counters=None), "PFC counters of the switch"),
    Unknown(
        "R03",
        lambda scene: scene.ports(counters=model.Counters(pfc_tx={3: 9})),
        "ECN counters of the switch's lossless queues",
    ),
]


@cases(*POSITIVE, *NEGATIVE, *UNKNOWN)
def test_a_rule_finds_spares_or_lacks(case: Case) -> None:
    check(case)


def test_an_unreadable_switch_costs_one_finding() -> None:
    report = Scene().switch("leaf-r0", findings=(Finding("unreadable", "leaf-r0.json", "is not JSON"),)).report()
    assert [(finding.rule, finding.where) for finding in report.findings] == [("READ", ("leaf-r0 leaf-r0.json",))]


def test_a_lookup_row_is_needed_only_in_the_traditional_model() -> None:
    assert LOOKUP[0].cable == 5.0
    assert Scene().port("leaf-r0", "Ethernet0", groups={}).findings("L09") == []
