"""The law of the linter: not knowing never makes a finding, whatever it is that is not known."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tuner.lint.scene import Scene
from tuner.nic import Counters, Ecn, HostQos, NicQos, Tos
from tuner.switch import model
from tuner.switch.model import Port, Switch


def unknowable(kind: type[Any]) -> list[str]:
    """Fields that may be None."""
    return [field.name for field in dataclasses.fields(kind) if field.default is None]


# Silence that says something: a port without LLDP neighbour while others have theirs is a missing link, and a whole
# configuration without a watchdog table has no watchdog. in_use None says that the NIC is free.
SAYS = {"neighbour", "watchdog", "in_use"}
NIC = sorted(set(unknowable(NicQos)) - SAYS)
HOST = sorted(set(unknowable(HostQos)) - SAYS)
PORT = sorted(set(unknowable(Port)) - SAYS)
SWITCH = sorted(set(unknowable(Switch)) - {"operational"} - SAYS)
EMPTY: dict[str, Any] = {"tos": Tos(), "ecn": Ecn(), "counters": Counters(), "sysctls": {}}

Lacks = st.fixed_dictionaries(
    {
        "nic": st.sets(st.sampled_from(NIC + sorted(EMPTY))),
        "host": st.sets(st.sampled_from(HOST)),
        "port": st.sets(st.sampled_from(PORT)),
        "switch": st.sets(st.sampled_from([*SWITCH, "operational"])),
        "everywhere": st.booleans(),
    }
)


def without(scene: Scene, lacks: dict[str, Any]) -> Scene:
    """The scene with fields unknown: in one place, or everywhere."""
    nic = {name: EMPTY.get(name) for name in lacks["nic"]}
    host, port = dict.fromkeys(lacks["host"]), dict.fromkeys(lacks["port"])
    if lacks["everywhere"]:
        scene.nics(**nic).ports(**port)
    else:
        scene.nic("gpu-1", "rail0", **nic).port("leaf-r0", "Ethernet0", **port)
    scene.host("gpu-1", **host)
    return scene.switch("leaf-r0", **dict.fromkeys(lacks["switch"]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(Lacks)
def test_not_knowing_never_makes_a_finding(lacks: dict[str, Any]) -> None:
    assert without(Scene(), lacks).report().findings == ()


@pytest.mark.parametrize("name", NIC + sorted(EMPTY))
def test_one_field_of_a_nic(name: str) -> None:
    assert Scene().nics(**{name: EMPTY.get(name)}).report().findings == ()


@pytest.mark.parametrize("name", PORT)
def test_one_field_of_a_port(name: str) -> None:
    assert Scene().ports(**{name: None}).report().findings == ()


@pytest.mark.parametrize("name", SWITCH)
def test_one_field_of_a_switch(name: str) -> None:
    assert Scene().switch("leaf-r0", **{name: None}).report().findings == ()


def test_nothing_known_at_all() -> None:
    scene = Scene()
    for name in scene.hosts:
        nics = tuple(NicQos(name=f"eth{rail}", rail=f"rail{rail}") for rail in (0, 1))
        scene.hosts[name] = HostQos(node=name, nics=nics)
    for name, each in scene.switches.items():
        ports = {port: Port(port) for port in each.ports}
        scene.switches[name] = model.Switch(name, "sonic", "", role=each.role, ports=ports)
    report = scene.report()
    assert report.findings == ()
    evaluated = {gap.rule for gap in report.gaps if gap.evaluated}
    assert len({gap.rule for gap in report.gaps} - evaluated) > 50
