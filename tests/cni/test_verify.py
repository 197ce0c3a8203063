"""Each kind of difference between the steps and the pod is one line that names it."""

from __future__ import annotations

from typing import Any

import pytest

from cni.steps import (
    AddAddress,
    AddRoute,
    AddRule,
    AwaitGid,
    BindVf,
    Bring,
    CreateLink,
    HostNic,
    HostRdma,
    MoveLink,
    MoveRdma,
    SetConf,
    SetSysctl,
    Step,
)
from cni.verify import PodView, differences
from host.addr import Address
from host.route import KernelRoute
from host.rule import Rule
from tests.cni.hosts import netdev

ARP = (("arp_ignore", 1), ("rp_filter", 2))
STEPS: tuple[Step, ...] = (
    CreateLink("rail0", "macvlan", "eth2", 3, 9000, "02:aa:00:00:00:00", 0x4ABCDEF0),
    SetConf("rail0", 0, "", ARP),
    SetSysctl("rail0", "ipv6", "accept_ra", "0"),
    AddAddress("rail0", "10.200.0.2/24"),
    Bring("rail0"),
    AddRoute("rail0", "default", "10.200.0.1", 1000, "10.200.0.2"),
    AddRule("10.200.0.2/32", 1000, 1000),
)
RAIL = netdev("rail0", 7, kind="macvlan", mac="02:aa:00:00:00:00", mtu=9000, conf4=ARP)
ADDRESS = Address(7, "10.200.0.2/24", 0, usable=True, permanent=True)
ROUTE = KernelRoute(2, 1000, "default", "10.200.0.1", 7, (), "10.200.0.2", 82, 1)
RULE = Rule("10.200.0.2/32", 1000, 1000, 82)
AS_WANTED = PodView((RAIL,), (ADDRESS,), (ROUTE,), (RULE,), {("ipv6", "rail0", "accept_ra"): "0"})


def rail(**fields: Any) -> PodView:
    return AS_WANTED._replace(devices=(RAIL._replace(**fields),))


def test_as_wanted_is_no_difference() -> None:
    assert differences(STEPS, AS_WANTED) == []


DIFFERENT: dict[str, tuple[PodView, str]] = {
    "gone": (AS_WANTED._replace(devices=()), "rail0: the interface is gone"),
    "kind": (rail(kind="ipvlan"), "rail0: kind: wanted macvlan, got ipvlan"),
    "mtu": (rail(mtu=1500), "rail0: mtu: wanted 9000, got 1500"),
    "mac": (rail(mac="02:bb:00:00:00:00"), "rail0: mac: wanted 02:aa:00:00:00:00, got 02:bb:00:00:00:00"),
    "arp": (rail(conf4=(("arp_ignore", 0), ("rp_filter", 2))), "rail0: arp_ignore: wanted 1, got 0"),
    "arp unread": (rail(conf4=(("rp_filter", 2),)), "rail0: arp_ignore: wanted 1, got unknown"),
    "sysctl": (
        AS_WANTED._replace(sysctls={("ipv6", "rail0", "accept_ra"): "1"}),
        "rail0: accept_ra: wanted 0, got 1",
    ),
    "sysctl unread": (AS_WANTED._replace(sysctls={}), "rail0: accept_ra: wanted 0, got unknown"),
    "address": (AS_WANTED._replace(addresses=()), "rail0: address: wanted 10.200.0.2/24, got none"),
    "address elsewhere": (
        AS_WANTED._replace(addresses=(ADDRESS._replace(ifindex=8),)),
        "rail0: address: wanted 10.200.0.2/24, got none",
    ),
    "duplicate address": (
        AS_WANTED._replace(addresses=(ADDRESS._replace(usable=False),)),
        "rail0: address 10.200.0.2/24: not usable (duplicate address detection)",
    ),
    "down": (rail(up=False), "rail0: link: wanted up, got down"),
    "route": (
        AS_WANTED._replace(routes=()),
        "rail0: route: wanted default via 10.200.0.1 dev rail0 table 1000 src 10.200.0.2, got none",
    ),
    "route on another device": (
        AS_WANTED._replace(routes=(ROUTE._replace(device=8),)),
        "rail0: route: wanted default via 10.200.0.1 dev rail0 table 1000 src 10.200.0.2, got none",
    ),
    "route's source": (
        AS_WANTED._replace(routes=(ROUTE._replace(source="10.200.0.9"),)),
        "rail0: route default via 10.200.0.1 dev rail0 table 1000 src 10.200.0.2: wanted 10.200.0.2, got 10.200.0.9",
    ),
    "rule": (
        AS_WANTED._replace(rules=()),
        "rule: wanted from 10.200.0.2/32 lookup 1000 priority 1000, got none",
    ),
    "rule of another priority": (
        AS_WANTED._replace(rules=(RULE._replace(priority=5),)),
        "rule: wanted from 10.200.0.2/32 lookup 1000 priority 1000, got none",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_each_difference_is_exactly_one_line(what: str) -> None:
    view, line = DIFFERENT[what]
    lines = differences(STEPS, view)
    if what == "gone":
        assert lines == [line], "what hung on the interface is not told again"
    else:
        assert lines == [line]


def test_a_link_without_a_carrier_says_what_may_be_the_matter() -> None:
    (line,) = differences(STEPS, rail(carrier=False))
    assert line.startswith("rail0: link: wanted carrier, got none (cable")


def test_differences_come_in_the_order_of_the_steps() -> None:
    view = rail(mtu=1500, up=False)._replace(rules=())
    assert [line.split(":")[1].strip() for line in differences(STEPS, view)] == [
        *("mtu", "link", "wanted from 10.200.0.2/32 lookup 1000 priority 1000, got none")
    ]


NIC = HostNic(3, "eth2", "", "0000:18:00.0", "", "02:00:00:00:00:03", 9000, True, (), (), ())


def test_a_moved_nic_is_known_by_its_pci_address() -> None:
    view = PodView((RAIL._replace(pci="0000:2a:00.0"),), (), (), (), {})
    (line,) = differences([MoveLink("rail0", NIC)], view)
    assert line == "rail0: PCI address: wanted 0000:18:00.0, got 0000:2a:00.0"


def test_a_moved_nics_mtu_and_mac_are_those_of_the_rail() -> None:
    steps: list[Step] = [MoveLink("rail0", NIC), SetConf("rail0", 4200, "02:cc:00:00:00:00", ())]
    view = PodView((RAIL._replace(pci="0000:18:00.0"),), (), (), (), {})
    assert differences(steps, view) == [
        "rail0: mtu: wanted 4200, got 9000",
        "rail0: mac: wanted 02:cc:00:00:00:00, got 02:aa:00:00:00:00",
    ]


RDMA: tuple[Step, ...] = (
    BindVf("rail0", "0000:18:00.1", "mlx5_core", "mlx5_4"),
    MoveRdma("rail0", HostRdma(4, "mlx5_4", "0000:0000:0000:0000", "0000:18:00.1"), "mlx5_r0"),
    AwaitGid("rail0", "mlx5_r0", "10.200.0.2", True),
)
READY = AS_WANTED._replace(rdma={"mlx5_r0": "02aa:00ff:fe00:0001"}, gids=frozenset({("mlx5_r0", "10.200.0.2")}))


@pytest.mark.parametrize(
    ("view", "lines"),
    [
        (READY, []),
        (READY._replace(rdma={}), ["rail0: RDMA device: wanted mlx5_r0, got none"]),
        (
            READY._replace(rdma={"mlx5_r0": "0000:0000:0000:0000"}),
            ["rail0: node GUID: wanted one on mlx5_r0, got none"],
        ),
        (READY._replace(gids=frozenset()), ["rail0: RoCE v2 GID: wanted one for 10.200.0.2 on mlx5_r0, got none"]),
    ],
    ids=["ready", "device gone", "no node GUID", "no GID"],
)
def test_what_rdma_lacks_is_named(view: PodView, lines: list[str]) -> None:
    assert differences(RDMA, view) == lines
