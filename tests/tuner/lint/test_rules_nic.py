"""H01-H11, H15, H22, H23: the rules about one NIC."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.tuner.lint.cases import Case, Change, Negative, Positive, Unknown, cases, check
from tests.tuner.lint.scene import Scene, nic
from tuner.nic import App, Ecn, Ets, Pause, Pfc, Tos

WELL = nic(1, 0)
ETS, ECN, BUFFER = WELL.ets, WELL.ecn, WELL.buffer
assert ETS is not None
assert BUFFER is not None
RAIL0 = "gpu-1 rail0 (eth0)"


def one(**changes: Any) -> Change:
    """The NIC of rail0 on gpu-1, changed."""
    return lambda scene: scene.nic("gpu-1", "rail0", **changes)


def apps(*pairs: tuple[int, int]) -> tuple[App, ...]:
    """A DSCP map."""
    return tuple(App(selector="dscp", protocol=dscp, priority=priority) for dscp, priority in pairs)


def ecn(**changes: Any) -> Ecn:
    return replace(ECN, **changes)


def ets(**changes: Any) -> Ets:
    assert ETS is not None
    return replace(ETS, **changes)


def ecn_by_intent_off(scene: Scene) -> Scene:
    return scene.add("qos: {ecn: {enabled: false}}\n")


POSITIVE = [
    Positive("H01", one(trust="pcp"), RAIL0, "trust is pcp"),
    Positive("H01", one(apps=()), RAIL0, "no DSCP entry"),
    Positive("H02", one(apps=apps((26, 2), (48, 6))), RAIL0, "DSCP 26 maps to priority 2; PFC is on priority 3"),
    Positive("H02", one(apps=apps((48, 6))), RAIL0, "is not mapped (priority 0)"),
    Positive("H03", one(tos=Tos(rdma_cm=0, traffic_class=None)), RAIL0, "rdma_cm 0"),
    Positive("H03", lambda scene: scene.host("gpu-1", nccl_ib_tc=24), RAIL0, "NCCL_IB_TC 6"),
    Positive("H04", one(tos=Tos(traffic_class=107)), RAIL0, "traffic_class is 107: DSCP 26 with ECN bits 3 (CE)"),
    Positive("H04", one(tos=Tos(rdma_cm=104), driver="bnxt_en"), RAIL0, "ECN bits 0 (not ECT)"),
    Positive("H05", one(pause=Pause(autoneg=False, rx=True, tx=False)), RAIL0, "802.3x pause rx is on"),
    Positive("H06", one(pfc=Pfc(enabled=())), RAIL0, "PFC is on no priority"),
    Positive("H06", one(pfc=Pfc(enabled=(0, 3))), RAIL0, "0 among them"),
    Positive("H06", one(pfc=Pfc(enabled=(4,))), RAIL0, "PFC is on priority 4, wanted is 3"),
    Positive("H06", one(pfc=Pfc(enabled=(3, 4), cap=1)), RAIL0, "on 2 priorities, the NIC can do 1"),
    Positive("H07", one(buffer=replace(BUFFER, prio_buffer=(0,) * 8)), RAIL0, "shares receive buffer 0 with lossy"),
    Positive(
        "H07",
        one(buffer=replace(BUFFER, size=(200_000, 158_007, 0, 0, 0, 0, 0, 0))),
        RAIL0,
        "has 158007 B; xoff + MTU + cell is 158008 B",
    ),
    Positive("H08", one(cable_m=100.0), RAIL0, "reckons with 100 m, the cable has 5 m"),
    Positive("H09", one(ets=ets(tc_bw=(50, 0, 0, 40, 0, 0, 0, 0))), RAIL0, "add up to 90 %"),
    Positive("H09", one(ets=ets(tc_bw=(100, 0, 0, 0, 0, 0, 0, 0))), RAIL0, "traffic class 3, which has 0 %"),
    Positive(
        "H09", one(ets=ets(prio_tc=(0, 0, 0, 3, 3, 0, 6, 0))), RAIL0, "shares traffic class 3 with lossy priority 4"
    ),
    Positive("H10", one(apps=apps((26, 3), (48, 3))), RAIL0, "DSCP 48 of CNPs maps to priority 3, which has PFC"),
    Positive("H10", one(apps=apps((26, 3))), RAIL0, "DSCP 48 of CNPs is not mapped"),
    Positive("H10", one(ecn=ecn(cnp_prio=5)), RAIL0, "802.1p priority 5, their DSCP 48 maps to 6"),
    Positive("H10", one(ecn=ecn(cnp_dscp=46)), RAIL0, "CNPs have DSCP 46, wanted is 48"),
    Positive(
        "H11",
        one(ecn=ecn(np=(True, True, True, False, True, True, True, True))),
        RAIL0,
        "(NP) is off on lossless priority 3",
    ),
    Positive("H11", one(ecn=ecn(rp=(False,) * 8)), RAIL0, "(RP) is off"),
    Positive(
        "H15", one(maxrate=(0, 0, 0, 0, 0, 0, 500_000_000, 0)), RAIL0, "500 Gb/s on a 400 Gb/s link: 125 times 4 Gb/s"
    ),
    Positive("H22", one(function="vf"), RAIL0, "a VF with 2 DSCP entries"),
    Positive("H23", one(apps=apps((26, 0), (26, 3), (48, 6))), RAIL0, "DSCP 26 maps to priorities 0,3"),
]

NEGATIVE = [
    Negative("H01", "PCP is what the fabric wants", lambda scene: scene.nics(trust="pcp").add("qos: {trust: pcp}\n")),
    Negative("H02", "no PFC at all is H06", one(pfc=Pfc(enabled=()))),
    Negative("H02", "more lossless priorities", one(pfc=Pfc(enabled=(3, 4)))),
    Negative("H03", "104 and 106 are one DSCP", one(tos=Tos(rdma_cm=104, traffic_class=106))),
    Negative("H03", "traffic_class overrides an unset rdma_cm", one(tos=Tos(rdma_cm=0, traffic_class=106))),
    Negative("H04", "mlx5 ORs the ECN bit in", one(tos=Tos(rdma_cm=104, traffic_class=104))),
    Negative("H04", "nobody set rdma_cm: H03", one(tos=Tos(rdma_cm=0), driver="bnxt_en")),
    Negative(
        "H05",
        "pause without PFC is another choice",
        one(pfc=Pfc(enabled=()), pause=Pause(autoneg=True, rx=True, tx=True)),
    ),
    Negative("H06", "a second lossless priority", one(pfc=Pfc(enabled=(3, 5)))),
    Negative(
        "H07",
        "exactly enough: xoff 148880 + 9000 + 128",
        one(mtu=9000, buffer=replace(BUFFER, size=(0, 158_008, 0, 0, 0, 0, 0, 0))),
    ),
    Negative("H08", "the driver rounds up to whole metres", one(cable_m=5.5)),
    Negative(
        "H09", "power-on state of mlx5: vendor", one(ets=ets(tsa=("vendor",) * 8, prio_tc=(1, 0, 2, 3, 4, 5, 6, 7)))
    ),
    Negative("H10", "no ECN, no CNPs", lambda scene: ecn_by_intent_off(scene.nics(apps=apps((26, 3))))),
    Negative("H11", "ECN off by intent", lambda scene: ecn_by_intent_off(scene.nics(ecn=ecn(np=(False,) * 8)))),
    Negative("H11", "off on another priority", one(ecn=ecn(np=(False, True, True, True, True, True, True, True)))),
    Negative("H15", "a limit below the link's speed", one(maxrate=(125_000_000, 0, 0, 0, 0, 0, 0, 0))),
    Negative("H22", "a VF that nobody gave a map", one(function="vf", apps=())),
    Negative("H23", "two DSCPs, one priority", one(apps=apps((26, 3), (27, 3), (48, 6)))),
]

UNKNOWN = [
    Unknown("H01", one(trust=None), "trust of the NIC"),
    Unknown("H02", one(apps=None), "the DSCP map (IEEE APP table) of the NIC"),
    Unknown("H02", one(pfc=None), "PFC of the NIC"),
    Unknown(
        "H03",
        lambda scene: scene.nics(tos=Tos()).host("gpu-1", nccl_ib_tc=None, ucx_tc=None),
        "ToS of RoCE (rdma_cm, traffic_class, nccl.conf, ucx.conf)",
    ),
    Unknown("H04", one(tos=Tos(rdma_cm=104), driver=None), "driver of the NIC"),
    Unknown("H05", one(pause=None), "global pause of the NIC"),
    Unknown("H06", one(pfc=None), "PFC of the NIC"),
    Unknown("H07", one(buffer=None), "receive buffers of the NIC"),
    Unknown("H08", one(cable_m=None), "cable length of the NIC"),
    Unknown("H08", lambda scene: scene.write("cable: 5m, ", ""), "cable length in fabric.yaml (nodeTypes.*.cable)"),
    Unknown("H09", one(ets=None), "ETS of the NIC"),
    Unknown("H10", one(apps=None), "the DSCP map (IEEE APP table) of the NIC"),
    Unknown("H11", one(ecn=ecn(np=None)), "ECN notification point (NP) of the NIC"),
    Unknown("H15", one(maxrate=None), "rate limits of the NIC"),
    Unknown("H22", one(function=None), "whether the NIC is a physical or a virtual function"),
    Unknown("H23", one(apps=None), "the DSCP map (IEEE APP table) of the NIC"),
]


@cases(*POSITIVE, *NEGATIVE, *UNKNOWN)
def test_a_rule_finds_spares_or_lacks(case: Case) -> None:
    check(case)


def test_a_host_without_a_fabric_file_is_judged_by_its_own_tos() -> None:
    scene = Scene(None).nic("gpu-1", "rail0", apps=apps((26, 2), (48, 6)))
    assert [each.evidence for each in scene.findings("H02")] == ["DSCP 26 maps to priority 2; PFC is on priority 3"]


def test_the_fix_names_host_and_nic() -> None:
    (finding,) = Scene().nic("gpu-1", "rail0", pause=Pause(autoneg=True, rx=True, tx=True)).findings("H05")
    assert finding.fix == "on gpu-1: roceway-tune apply -f fabric.yaml (ethtool -A eth0 autoneg off rx off tx off)"
