"""X01-X05: NICs of one rail against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.tuner.lint.cases import Case, Change, Negative, Positive, Unknown, cases, check
from tests.tuner.lint.scene import Scene, nic
from tuner.nic import Ecn, Pfc, Tos

WELL = nic(1, 0)
RAIL0 = "gpu-3 rail0 (eth0)"


def third(**changes: Any) -> Change:
    """A third host, whose NIC on rail0 is changed."""

    def change(scene: Scene) -> Scene:
        scene.hosts["gpu-3"] = replace(scene.hosts["gpu-1"], node="gpu-3")
        scene.write('"gpu-[1-2]", type', '"gpu-[1-3]", type')
        return scene.nic("gpu-3", "rail0", **changes)

    return change


def alone(scene: Scene) -> Scene:
    del scene.hosts["gpu-2"]
    return scene


def ecn(**changes: Any) -> Ecn:
    return replace(WELL.ecn, **changes)


POSITIVE = [
    Positive("X01", third(pfc=Pfc(enabled=(3, 4))), RAIL0, "PFC is 3,4; 2 NICs of rail0 have 3"),
    Positive("X01", third(trust="pcp"), RAIL0, "trust is pcp; 2 NICs of rail0 have dscp"),
    Positive(
        "X02",
        third(tos=Tos(rdma_cm=96, traffic_class=96)),
        RAIL0,
        "RoCE's DSCP by traffic_class is 24; 2 NICs of rail0 have 26",
    ),
    Positive("X03", third(ecn=ecn(cnp_dscp=46)), RAIL0, "DSCP of CNPs is 46; 2 NICs of rail0 have 48"),
    Positive("X04", third(active_mtu=1024), RAIL0, "active_mtu is 1024; 2 NICs of rail0 have 4096"),
    Positive("X05", third(ecn=ecn(params={"rp_ai_rate": 50})), RAIL0, "DCQCN rp_ai_rate is 50; 2 NICs"),
]

NEGATIVE = [
    Negative(
        "X01",
        "rails may differ from each other",
        lambda scene: scene.nic("gpu-1", "rail1", mtu=9216).nic("gpu-2", "rail1", mtu=9216),
    ),
    Negative("X02", "104 and 106 are one DSCP", third(tos=Tos(rdma_cm=104, traffic_class=104))),
    Negative("X02", "a host whose nccl.conf sets none", lambda scene: third()(scene).host("gpu-3", nccl_ib_tc=None)),
    Negative("X03", "what is unknown does not differ", third(ecn=ecn(cnp_dscp=None))),
    Negative("X04", "alike on all hosts", third()),
    Negative("X05", "a parameter that one driver does not have", third(ecn=ecn(params={}))),
]

UNKNOWN = [Unknown(rule, alone, "a second host on the rail") for rule in ("X01", "X02", "X03", "X04", "X05")]


@cases(*POSITIVE, *NEGATIVE, *UNKNOWN)
def test_a_rule_finds_spares_or_lacks(case: Case) -> None:
    check(case)
