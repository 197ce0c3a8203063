"""The model of a host's QoS: its JSON form says everything, and only what the classes know."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.nic import (
    App,
    Applied,
    Buffer,
    Counters,
    Dcbx,
    Ecn,
    Ets,
    Gid,
    HostQos,
    HostWanted,
    InUse,
    Link,
    NicQos,
    NicWanted,
    Pause,
    Pci,
    Peer,
    Pfc,
    Tos,
)
from tuner.record import MOST_SHARED


def full() -> HostQos:
    """A host on which every field says something."""
    apps = (App(selector="dscp", protocol=26, priority=3), App(selector="ethertype", protocol=0x8915, priority=4))
    eight = tuple(range(8))
    nic = NicQos(
        name="eth2",
        rail="rail0",
        ifindex=7,
        driver="mlx5_core",
        firmware="28.39.1002",
        function="pf",
        rdma="mlx5_0",
        mac="02:00:00:00:00:01",
        addresses=("10.200.0.1/24",),
        in_use=InUse(reason="upper-elsewhere", detail="macvlan in another namespace"),
        dcb=True,
        dcbx=Dcbx(host=True, ieee=True),
        trust="dscp",
        apptrust=("dscp", "pcp"),
        apps=apps,
        rewrite=(),
        ets=Ets(prio_tc=eight, tsa=("ets",) * 6 + ("strict", "vendor"), tc_bw=(14, 14, 14, 16, 14, 14, 0, 14)),
        pfc=Pfc(enabled=(3,), delay=7),
        buffer=Buffer(prio_buffer=(0, 0, 0, 1, 0, 0, 0, 0), size=(1, 2, 0, 0, 0, 0, 0, 0), total=262016),
        maxrate=(0,) * 8,
        peer=Peer(pfc=Pfc(enabled=(3, 4)), apps=apps),
        fw_lldp=False,
        pause=Pause(autoneg=False, rx=True, tx=True),
        mtu=9000,
        active_mtu=4096,
        tos=Tos(rdma_cm=106, rdma_cm_mode="RoCE v2", traffic_class=106),
        ecn=Ecn(np=(True,) * 8, rp=(False,) * 8, cnp_dscp=48, cnp_prio=6, params={"rp_ai_rate": 5}),
        cable_m=7.0,
        gids=(Gid(index=3, type="RoCE v2", address="10.200.0.1", netdev="eth2"),),
        pci=Pci(address="0000:18:00.0", width=16, max_width=16, speed=32.0, acs_enabled=("RR",)),
        link=Link(up=True, carrier=True, speed=400_000, changes=2),
        sysctls={"arp_ignore": 1},
        counters=Counters(rx_bytes=eight, port={"link_downs": 1}, rdma={"np_cnp_sent": 4}),
    )
    applied = Applied(at="2026-01-01T00:00:00Z", boot_id="x", complete=True, gids={"eth2": {"10.200.0.1": 3}})
    return HostQos(node="gpu-001", nics=(nic, NicQos(name="eth3")), agents=("lldpad",), applied=applied, ucx_tc=106)


def test_json_says_everything() -> None:
    assert HostQos.from_json(json.loads(json.dumps(full().to_json()))) == full()


def test_unknown_stays_unknown_and_is_not_empty() -> None:
    host = HostQos(node="n", nics=(NicQos(name="a"), NicQos(name="b", apps=(), pfc=Pfc())))
    again = HostQos.from_json(json.loads(json.dumps(host.to_json())))
    assert again == host
    assert again.nics[0].apps is None
    assert again.nics[1].apps == ()


def test_absent_fields_are_unknown() -> None:
    assert HostQos.from_json({"node": "n", "nics": [{"name": "a"}]}) == HostQos(node="n", nics=(NicQos(name="a"),))


def test_wanted_round_trip() -> None:
    wanted = HostWanted(
        node="n",
        nics=(NicWanted(nic="eth2", rail="rail0", dscp_prio=((26, 3), (48, 6)), pfc=(3,), tos=106, ecn=True),),
    )
    assert HostWanted.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "host: [] is not an object"),
        ({"node": "n", "nics": [{"name": "a", "mtu": "9000"}]}, "host.nics[].mtu: '9000' is not int"),
        ({"node": "n", "nics": [{"name": "a", "mtu": True}]}, "host.nics[].mtu: True is not int"),
        ({"node": "n", "nics": [{"name": "a", "trust": "both"}]}, "host.nics[].trust: 'both' is not one of dscp, pcp"),
        ({"node": "n", "nics": [{"name": "a", "colour": 1}]}, "host.nics[]: unknown field colour"),
        ({"node": "n", "nics": [{}]}, "host.nics[]: missing 1 required keyword-only argument: 'name'"),
        ({"node": "n", "nics": [{"name": "a", "sysctls": [1]}]}, "host.nics[].sysctls: [1] is not an object"),
        ({"node": "n", "nics": [{"name": "a", "sysctls": {"x": "1"}}]}, "host.nics[].sysctls.x: '1' is not int"),
        ({"node": "n", "nics": [{"name": "a", "cable_m": 10**400}]}, "is not float"),
    ],
)
def test_what_is_no_host_is_refused_with_its_place(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        HostQos.from_json(value)


def test_equal_values_of_other_types_are_not_taken_for_each_other() -> None:
    def pause(autoneg: object) -> Any:
        return {"node": "n", "nics": [{"name": "a", "pause": {"autoneg": autoneg, "rx": False, "tx": False}}]}

    first, second = (HostQos.from_json(pause(True)) for _ in range(2))
    assert first.nics[0].pause is second.nics[0].pause  # one object: thousands of NICs have the same few
    for number in (1, 1.0):
        with pytest.raises(ValueError, match=re.escape("host.nics[].pause.autoneg: 1")):
            HostQos.from_json(pause(number))


def test_more_different_values_than_are_shared_are_read_all_the_same() -> None:
    for index in range(2 * MOST_SHARED):
        gid = Gid(index=index, type="RoCE v2", address="10.0.0.1")
        host = HostQos(node="n", nics=(NicQos(name="a", gids=(gid,)),))
        assert HostQos.from_json(host.to_json()) == host


def test_one_dscp_can_have_two_priorities() -> None:
    apps = tuple(App(selector="dscp", protocol=26, priority=priority) for priority in (4, 3))
    nic = NicQos(name="a", apps=apps)
    assert nic.priorities_of(26) == (3, 4)
    assert nic.dscp_map() == {26: (3, 4)}
    assert nic.priorities_of(48) == ()
    assert NicQos(name="b").priorities_of(26) is None


@given(st.lists(st.integers(0, 7), min_size=8, max_size=8), st.sets(st.integers(0, 7)), st.booleans())
def test_any_ets_and_pfc_survive_json(classes: list[int], enabled: set[int], willing: bool) -> None:
    nic = NicQos(
        name="a",
        ets=Ets(prio_tc=tuple(classes), willing=willing),
        pfc=Pfc(enabled=tuple(sorted(enabled))),
    )
    host = HostQos(node="n", nics=(nic,))
    assert HostQos.from_json(json.loads(json.dumps(host.to_json()))) == host


def test_a_nic_is_found_by_name_address_or_rail() -> None:
    host = full()
    assert [nic.name for key in ("eth2", "0000:18:00.0", "rail0") if (nic := host.nic(key))] == ["eth2"] * 3
    assert host.nic("eth9") is None
