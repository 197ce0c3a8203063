"""Virtual functions in a plan: what the PF is told, and when a driver is bound again for a node GUID."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from cni.netconf import Rail
from cni.plan import VF_STATE, HostView, Lease, VfSeat, plan, problems
from cni.steps import AwaitGid, BindVf, HostRdma, MoveLink, MoveRdma, SetVf, Step, UnbindVf
from cni.vfconf import VfSettings
from host.sriov import VfState
from tests.cni.hosts import netdev

PF, VF = "0000:18:00.0", "0000:18:00.1"
UNSET, OF_ZEROS, GUID = "0000:0000:0000:0000", "0000:00ff:fe00:0000", "02aa:00ff:fe00:0001"
NO_MAC, MAC = "00:00:00:00:00:00", "02:aa:00:00:00:01"


def host(guid: str = UNSET, admin: str = NO_MAC, *, exclusive: bool = True, rdma: bool = True) -> HostView:
    """A PF with one VF."""
    state = VfState(0, admin, 0, 0, "802.1q", 0, 0, False, False, "auto", "", "")
    device = HostRdma(4, "mlx5_4", guid, VF)
    return HostView(
        (netdev("pf0", 2, pci=PF), netdev("pf0v0", 3, pci=VF)),
        (),
        frozenset(),
        rdma=MappingProxyType({3: device} if rdma else {}),
        vfs=MappingProxyType({VF: VfSeat(VF, "mlx5_core", PF, "pf0", True, tuple(state))}),
        exclusive=exclusive,
    )


def rail(**more: Any) -> Rail:
    return Rail(name="rail0", nic=VF, mode="sriov", mtu=None, mac="", ranges=(), routes=())._replace(**more)


def steps(wanted: Rail, view: HostView) -> tuple[Step, ...]:
    assert problems([wanted], view, frozenset()) == []
    return plan([wanted], view, {"rail0": []}, group=1, table_base=None, numbers={"rail0": 0})


def test_a_vf_with_a_mac_and_without_a_node_guid_is_bound_again_before_it_moves() -> None:
    found = [step for step in steps(rail(mac=MAC), host()) if type(step).__name__ not in ("SetConf", "Bring")]
    assert [type(step) for step in found] == [SetVf, UnbindVf, BindVf, MoveLink, MoveRdma]
    assert found[1:3] == [UnbindVf("rail0", VF, "mlx5_core"), BindVf("rail0", VF, "mlx5_core", "mlx5_4")]


@pytest.mark.parametrize(
    ("wanted", "view", "again"),
    [
        (rail(mac=MAC), host(OF_ZEROS), True),
        (rail(mac=MAC), host(GUID), False),
        (rail(mac=MAC), host(exclusive=False), True),
        (rail(mac=MAC), host(rdma=False), False),
        (rail(), host(admin=MAC), True),
        (rail(), host(), False),
        (rail(mac=MAC), host(""), False),
        (rail(mac=MAC, vf=VfSettings(guid_of="off")), host(), False),
        (rail(vf=VfSettings(guid_of="own-mac")), host(), True),
        (rail(vf=VfSettings(guid_of="own-mac")), host(GUID), False),
    ],
    ids=[
        "GUID of zeros",
        "has one",
        "shared mode",
        "no RDMA",
        "the PF's own MAC",
        "no MAC",
        "GUID unknown",
        "off",
        "own-mac",
        "own-mac and has one",
    ],
)
def test_the_driver_is_bound_again_only_where_that_brings_a_node_guid(
    wanted: Rail, view: HostView, again: bool
) -> None:
    assert any(isinstance(step, BindVf) for step in steps(wanted, view)) is again


def test_what_is_not_asked_for_keeps_the_pfs_word() -> None:
    view = host(GUID, MAC)
    (told,) = (step for step in steps(rail(vf=VfSettings(vlan=7, trust=True)), view) if isinstance(step, SetVf))
    wanted = dict(zip(VF_STATE, told.wanted, strict=True))
    assert wanted == {**dict(zip(VF_STATE, told.seen, strict=True)), "vlan": 7, "trust": True}


@pytest.mark.parametrize(
    ("view", "mac"),
    [(host(), "02:00:00:00:00:03"), (host(admin=MAC), MAC), (host(GUID), NO_MAC), (host(rdma=False), NO_MAC)],
    ids=["none said", "one said", "has a node GUID", "no RDMA"],
)
def test_own_mac_is_said_by_the_pf_only_where_a_node_guid_needs_it(view: HostView, mac: str) -> None:
    (told,) = (each for each in steps(rail(vf=VfSettings(guid_of="own-mac")), view) if isinstance(each, SetVf))
    assert dict(zip(VF_STATE, told.wanted, strict=True))["mac"] == mac


@pytest.mark.parametrize("mode", ["host-device", "sriov"])
def test_infiniband_is_no_rail(mode: str) -> None:
    view = host()
    ipoib = view.devices[1]._replace(mac=":".join(["80"] * 20))
    (finding,) = problems([rail(mode=mode)], view._replace(devices=(view.devices[0], ipoib)), frozenset())
    assert str(finding) == "rail rail0: NIC pf0v0 is InfiniBand (IPoIB), not Ethernet; a rail is RoCE"


PORT = netdev("enp65s0", 5, pci="0000:41:00.0"), netdev("enp65s0d1", 6, pci="0000:41:00.0")


def dual(*, exclusive: bool = True) -> HostView:
    """A NIC with two ports and one RDMA device."""
    device = HostRdma(0, "mlx4_0", GUID, "0000:41:00.0")
    ports = {5: device, 6: device._replace(port=2)}
    return HostView(PORT, (), frozenset(), rdma=MappingProxyType(ports), exclusive=exclusive)


def ports(*names: str) -> list[Rail]:
    """The two ports as rails; ``names``: their RDMA devices' in the pod."""
    found = [rail(name=f"rail{n}", nic=each.name, mode="host-device") for n, each in enumerate(PORT)]
    return [each._replace(rdma_name=name) for each, name in zip(found, names, strict=False)]


def test_both_ports_of_a_device_go_under_one_name_and_await_their_own_gids() -> None:
    rails = ports("r", "")
    assert problems(rails, dual(), frozenset()) == []
    leases = {each.name: [Lease(each.name, f"10.20{n}.0.2/24", "", "")] for n, each in enumerate(rails)}
    done = plan(rails, dual(), leases, group=1, table_base=None, numbers={"rail0": 0, "rail1": 1})
    assert [(step.rail, step.name) for step in done if isinstance(step, MoveRdma)] == [("rail0", "r"), ("rail1", "r")]
    assert [str(step) for step in done if isinstance(step, AwaitGid)] == [
        "await the RoCE v2 GID of 10.200.0.2 on r",
        "await the RoCE v2 GID of 10.201.0.2 on r port 2",
    ]


@pytest.mark.parametrize(
    ("rails", "view", "told"),
    [
        (ports("", "")[:1], dual(exclusive=False), []),
        (
            ports("", "")[1:],
            dual(),
            [
                "rail rail1: RDMA device mlx4_0 is also that of enp65s0 and would go into the pod with it; "
                "give the pod all of its ports, or share RDMA devices"
            ],
        ),
        (
            ports("r", "s"),
            dual(),
            [
                "rail rail0: rdmaName: mlx4_0 cannot be r and s",
                "rail rail1: rdmaName: mlx4_0 cannot be r and s",
            ],
        ),
    ],
    ids=["shared", "one port", "two names"],
)
def test_a_device_of_two_ports_is_one(rails: list[Rail], view: HostView, told: list[str]) -> None:
    assert [str(finding) for finding in problems(rails, view, frozenset())] == told
