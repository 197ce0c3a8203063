"""GPUs and NICs: goldens on whole machines, and what must hold on any machine."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni.policy import Policy, check_policy, pod_rails
from cni.topology import (
    Assignment,
    Distance,
    Gpu,
    Nic,
    Outcome,
    Pairing,
    distance,
    gpus,
    neighbours,
    nics,
    pair,
    rails_auto,
    rails_named,
)
from host import pci, rdma
from host.link import NetDev
from tests.fixtures.machines.archive import MACHINES, unpack

RAILS = tuple(f"rail{number}" for number in range(8))


class Node(NamedTuple):
    tree: dict[str, pci.Device]
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]

    def nic(self, netdev: str) -> Nic:
        return next(nic for nic in self.nics if nic.netdev == netdev)


def netdevs(root: str) -> list[NetDev]:
    """The machine's network devices as rtnetlink would show them."""
    found = []
    for index, name in enumerate(sorted(os.listdir(f"{root}/sys/class/net")), 1):
        place = os.path.basename(os.path.realpath(f"{root}/sys/class/net/{name}/device"))
        on_pci = place if place.count(":") == 2 else ""
        found.append(
            NetDev(index, name, "", "", 9000, True, "up", True, 0, (), on_pci, "", 0, False, 0, ()),
        )
    return found


def node(name: str, folder: Path, uplinks: Sequence[str] = ()) -> Node:
    root = unpack(name, folder)
    devices = pci.devices(root)
    tree = {device.address: device for device in devices}
    links = netdevs(root)
    up = [link.ifindex for link in links if link.name in uplinks]
    return Node(tree, gpus(devices), nics(links, rdma.devices(sysfs=f"{root}/sys"), tree, uplinks=up))


def table(pairings: Iterable[Pairing]) -> list[str]:
    return [
        f"{each.gpu.pci} {each.nic.netdev} {each.distance.name}"
        if each.nic and each.distance
        else f"{each.gpu.pci} none"
        for each in pairings
    ]


def rails(outcome: Outcome) -> list[str]:
    return [f"{each.rail} {each.nic.netdev} {each.gpu.pci if each.gpu else 'no GPU'}" for each in outcome.rails] + [
        str(finding) for finding in outcome.findings
    ]


def test_hgx_pairs_each_gpu_with_the_nic_above_its_switch(tmp_path: Path) -> None:
    hgx = node("hgx-h100", tmp_path, uplinks=["eno3"])
    assert table(pair(hgx.gpus, hgx.nics, hgx.tree)) == [
        "0000:1b:00.0 enp24s0np0 PXB",
        "0000:43:00.0 enp64s0np0 PXB",
        "0000:52:00.0 enp79s0np0 PXB",
        "0000:61:00.0 enp94s0np0 PXB",
        "0000:9d:00.0 enp154s0np0 PXB",
        "0000:c3:00.0 enp192s0np0 PXB",
        "0000:d1:00.0 enp206s0np0 PXB",
        "0000:df:00.0 enp220s0np0 PXB",
    ]
    reasons = {nic.netdev: nic.reason for nic in hgx.nics if nic.reason}
    assert reasons == {
        "eno3": "carries the host's default route",
        "eno4": "has no RDMA device",
        "enp24s0v0": "is a virtual function of 0000:18:00.0",
    }


def test_dual_port_nics_serve_two_gpus_each(tmp_path: Path) -> None:
    server = node("dual-port", tmp_path)
    assert table(pair(server.gpus, server.nics, server.tree)) == [
        "0000:01:00.0 enp65s0 NODE",
        "0000:25:00.0 enp65s0d1 NODE",
        "0000:81:00.0 enp193s0f0np0 NODE",
        "0000:a1:00.0 enp193s0f1np1 NODE",
    ]
    assert {nic.netdev: nic.rdma for nic in server.nics} == {
        "enp65s0": "mlx4_0",
        "enp65s0d1": "mlx4_0",
        "enp193s0f0np0": "mlx5_0",
        "enp193s0f1np1": "mlx5_1",
    }


def test_a_flat_guest_pairs_in_order(tmp_path: Path) -> None:
    guest = node("cloud-vm-kvm", tmp_path)
    assert table(pair(guest.gpus, guest.nics, guest.tree)) == [
        "0000:00:05.0 rdma0 PHB",
        "0000:00:06.0 rdma1 PHB",
        "0000:00:07.0 rdma2 PHB",
        "0000:00:08.0 rdma3 PHB",
    ]


def test_a_guest_of_many_domains_pairs_by_numa_node(tmp_path: Path) -> None:
    guest = node("cloud-vm-hyperv", tmp_path)
    assert table(pair(guest.gpus, guest.nics, guest.tree)) == [
        "0001:00:00.0 enP259s2 NODE",
        "0002:00:00.0 enP260s2 NODE",
        "0003:00:00.0 enP257s2 NODE",
        "0004:00:00.0 enP258s2 NODE",
    ]


def test_infiniband_beside_roce_is_no_rail(tmp_path: Path) -> None:
    server = node("infiniband-beside-roce", tmp_path)
    assert table(pair(server.gpus, server.nics, server.tree)) == [
        "0000:34:00.0 enp54s0f0np0 PIX",
        "0000:35:00.0 enp54s0f1np1 PIX",
        "0000:b4:00.0 enp182s0f0np0 PIX",
        "0000:b5:00.0 enp182s0f1np1 PIX",
    ]
    assert "InfiniBand" in server.nic("ibp51s0").reason


def test_nvlink_management_is_no_rail(tmp_path: Path) -> None:
    server = node("nvlink-b200", tmp_path)
    assert [nic.netdev for nic in server.nics if nic.reason] == ["ibp3s0f0", "ibp3s0f1", "ibp4s0f0", "ibp4s0f1"]
    assert table(pair(server.gpus, server.nics, server.tree)) == [
        "0000:14:00.0 enp19s0np0 PIX",
        "0000:54:00.0 enp83s0np0 PIX",
        "0000:94:00.0 enp147s0np0 PIX",
        "0000:d4:00.0 enp211s0np0 PIX",
    ]


def test_a_node_without_gpus_has_rails_by_address(tmp_path: Path) -> None:
    server = node("no-gpu", tmp_path)
    assert server.gpus == ()
    assert pair(server.gpus, server.nics, server.tree) == ()
    assert rails(rails_auto(RAILS[:2], server.gpus, server.nics, server.tree)) == [
        "rail0 enp59s0np0 no GPU",
        "rail1 enp175s0np0 no GPU",
    ]


def test_an_rdma_device_without_a_netdev_is_told(tmp_path: Path) -> None:
    root = unpack("no-gpu", tmp_path)
    tree = {device.address: device for device in pci.devices(root)}
    away = [link for link in netdevs(root) if link.name != "enp59s0np0"]
    found = nics(away, rdma.devices(sysfs=f"{root}/sys"), tree)
    assert [(nic.pci, nic.rdma) for nic in found if "no network device here" in nic.reason] == [
        ("0000:3b:00.0", "mlx5_0")
    ]


def test_a_port_of_a_bridge_is_no_rail(tmp_path: Path) -> None:
    root = unpack("no-gpu", tmp_path)
    tree = {device.address: device for device in pci.devices(root)}
    links = [link._replace(master=9 if link.name == "enp59s0np0" else 0) for link in netdevs(root)]
    found = {nic.netdev: nic.reason for nic in nics(links, rdma.devices(sysfs=f"{root}/sys"), tree)}
    assert found["enp59s0np0"] == "is a port of a bridge or bond"
    assert found["enp175s0np0"] == ""


def test_distances_on_hgx(tmp_path: Path) -> None:
    tree = node("hgx-h100", tmp_path).tree
    assert distance("0000:18:00.0", "0000:18:00.1", tree) is Distance.PIX
    assert distance("0000:29:00.0", "0000:29:00.1", tree) is Distance.PIX
    assert distance("0000:1b:00.0", "0000:18:00.0", tree) is Distance.PXB
    assert distance("0000:0b:00.0", "0000:02:00.0", tree) is Distance.PHB
    assert distance("0000:1b:00.0", "0000:40:00.0", tree) is Distance.NODE
    assert distance("0000:1b:00.0", "0000:dc:00.0", tree) is Distance.SYS
    with pytest.raises(ValueError, match="no PCI device 0000:ff"):
        distance("0000:1b:00.0", "0000:ff:00.0", tree)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_reading_changes_nothing(name: str, seed: int, tmp_path: Path) -> None:
    machine = node(name, tmp_path)
    shuffle = random.Random(seed).sample
    some_gpus, some_nics = shuffle(machine.gpus, len(machine.gpus)), shuffle(machine.nics, len(machine.nics))
    some_tree = dict(shuffle(list(machine.tree.items()), len(machine.tree)))
    assert pair(some_gpus, some_nics, some_tree) == pair(machine.gpus, machine.nics, machine.tree)
    assert rails_auto(RAILS, some_gpus, some_nics, some_tree) == rails_auto(
        RAILS, machine.gpus, machine.nics, machine.tree
    )


# rails


def test_auto_rails_follow_the_gpus(tmp_path: Path) -> None:
    hgx = node("hgx-h100", tmp_path, uplinks=["eno3"])
    outcome = rails_auto(RAILS, hgx.gpus, hgx.nics, hgx.tree)
    buses = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")
    assert [each.rail for each in outcome.rails] == list(RAILS)
    assert [each.nic.pci for each in outcome.rails] == [f"0000:{bus}:00.0" for bus in buses]
    assert outcome.findings == ()


def test_a_dead_nic_moves_no_rail_and_its_stand_in_is_told(tmp_path: Path) -> None:
    hgx = node("hgx-h100", tmp_path, uplinks=["eno3"])
    alive = [nic for nic in hgx.nics if nic.netdev != "enp79s0np0"]
    outcome = rails_auto(RAILS, hgx.gpus, alive, hgx.tree)
    assert [each.nic.pci for each in outcome.rails][3:] == [
        "0000:5e:00.0",
        "0000:9a:00.0",
        "0000:c0:00.0",
        "0000:ce:00.0",
        "0000:dc:00.0",
    ]
    assert [str(finding) for finding in outcome.findings] == [
        "GPU 0000:52:00.0: NIC 0000:29:00.0 (enp41s0f0np0) is NODE, most pairs are PXB: is a NIC missing?"
    ]


def test_a_dead_nic_without_stand_in_leaves_its_rail_out(tmp_path: Path) -> None:
    server = node("infiniband-beside-roce", tmp_path)
    alive = [nic for nic in server.nics if nic.netdev != "enp54s0f1np1"]
    assert rails(rails_auto(RAILS[:4], server.gpus, alive, server.tree)) == [
        "rail0 enp54s0f0np0 0000:34:00.0",
        "rail2 enp182s0f0np0 0000:b4:00.0",
        "rail3 enp182s0f1np1 0000:b5:00.0",
        "rail rail1: no NIC is left for GPU 0000:35:00.0",
    ]


def test_fewer_nics_than_gpus_are_rails_in_the_order_of_their_gpus(tmp_path: Path) -> None:
    guest = node("cloud-vm-hyperv", tmp_path)
    two = [nic for nic in guest.nics if nic.netdev in ("enP257s2", "enP260s2")]
    assert rails(rails_auto(RAILS[:2], guest.gpus, two, guest.tree)) == [
        "rail0 enP260s2 0001:00:00.0",
        "rail1 enP257s2 0003:00:00.0",
    ]


def test_a_dead_gpu_leaves_no_guess(tmp_path: Path) -> None:
    server = node("nvlink-b200", tmp_path)
    assert rails(rails_auto(RAILS[:4], server.gpus[1:], server.nics, server.tree)) == [
        "rails: 4 rails, 3 GPUs and 4 usable NICs do not tell which NIC is which rail; name the NICs"
    ]


def test_a_nic_keeps_its_gpu_while_a_pod_has_it(tmp_path: Path) -> None:
    server = node("hgx-h100", tmp_path)
    before = neighbours(server.gpus, server.nics, (), server.tree)
    assert len(before) == 8
    held = list(before)[2:5]
    there = [nic for nic in server.nics if nic.pci not in held]
    now = neighbours(server.gpus, there, held, server.tree)
    assert {pci: each.gpu for pci, each in now.items()} == {pci: each.gpu for pci, each in before.items()}
    assert {each.distance for each in now.values()} == {each.distance for each in before.values()}


def test_a_virtual_function_has_the_gpu_of_its_nic(tmp_path: Path) -> None:
    server = node("hgx-h100", tmp_path)
    found = neighbours(server.gpus, server.nics, ["0000:18:00.1", "0000:ff:1f.7"], server.tree)
    assert found["0000:18:00.1"].gpu == found["0000:18:00.0"].gpu
    assert "0000:ff:1f.7" not in found


def test_named_rails_stay_whatever_is_near(tmp_path: Path) -> None:
    guest = node("cloud-vm-kvm", tmp_path)
    outcome = rails_named([("rail0", "rdma3"), ("rail1", "0000:00:0B.0")], guest.gpus, guest.nics, guest.tree)
    assert rails(outcome) == ["rail0 rdma3 0000:00:06.0", "rail1 rdma1 0000:00:05.0"]


def test_named_rails_that_cannot_be_are_told(tmp_path: Path) -> None:
    server = node("dual-port", tmp_path)
    broken = [nic._replace(reason="has no RDMA device") if nic.netdev == "enp65s0" else nic for nic in server.nics]
    outcome = rails_named(
        [
            ("rail0", "enp65s0"),
            ("rail1", "0000:41:00.0"),
            ("rail2", "eth9"),
            ("rail3", "0000:c1:00.0"),
            ("rail4", "enp193s0f0np0"),
        ],
        server.gpus,
        broken,
        server.tree,
    )
    assert [each.rail for each in outcome.rails] == ["rail3"]
    assert [str(finding) for finding in outcome.findings] == [
        "rail rail0: NIC 0000:41:00.0 (enp65s0) cannot be a rail: has no RDMA device",
        "rail rail1: NIC 0000:41:00.0 has several ports; name one by its netdev: enp65s0, enp65s0d1",
        "rail rail2: this node has no NIC eth9",
        "rail rail4: NIC 0000:c1:00.0 (enp193s0f0np0) is another rail already",
    ]


# policy


@pytest.fixture
def rails_of_hgx(tmp_path: Path) -> tuple[Assignment, ...]:
    hgx = node("hgx-h100", tmp_path, uplinks=["eno3"])
    known = [Gpu(gpu.pci, f"GPU-{number}") for number, gpu in enumerate(hgx.gpus)]
    return rails_auto(RAILS, known, hgx.nics, hgx.tree).rails


def test_a_pod_has_the_rails_of_its_gpus(rails_of_hgx: tuple[Assignment, ...]) -> None:
    own = [each.rail for each in pod_rails(["0000:df:00.0", "GPU-2"], rails_of_hgx)]
    assert own == ["rail2", "rail7"]
    assert check_policy(["0000:df:00.0", "GPU-2"], own, rails_of_hgx) == ((), ())


def test_missing_rails_are_refused_and_foreign_ones_warned_of(rails_of_hgx: tuple[Assignment, ...]) -> None:
    verdict = check_policy(["GPU-0", "GPU-99"], ["rail3"], rails_of_hgx)
    assert [str(finding) for finding in verdict.refusals] == [
        "GPU GPU-99: has no rail on this node",
        "GPU 0000:1b:00.0: its rail rail0 is not one of the pod's",
    ]
    assert [str(finding) for finding in verdict.warnings] == [
        "rail rail3: belongs to GPU 0000:61:00.0, which the pod does not have"
    ]


def test_policy_decides_what_is_refused(rails_of_hgx: tuple[Assignment, ...]) -> None:
    strict = check_policy(["GPU-0"], ["rail3"], rails_of_hgx, Policy("refuse", "refuse", "refuse"))
    assert (len(strict.refusals), len(strict.warnings)) == (2, 0)
    loose = check_policy(["GPU-0"], ["rail3"], rails_of_hgx, Policy("ignore", "ignore", "ignore"))
    assert loose == ((), ())


def test_a_far_rail_is_told(rails_of_hgx: tuple[Assignment, ...]) -> None:
    near = check_policy(["GPU-0"], ["rail0"], rails_of_hgx, Policy(farthest=Distance.PIX))
    assert [str(finding) for finding in near.warnings] == [
        "rail rail0: NIC 0000:18:00.0 (enp24s0np0) is PXB from GPU 0000:1b:00.0; the policy allows PIX"
    ]
    first = rails_of_hgx[0]._replace(distance=Distance.NODE)
    other = check_policy(["GPU-0"], ["rail0"], [first])
    assert [str(finding) for finding in other.warnings] == [
        "rail rail0: NIC 0000:18:00.0 (enp24s0np0) is NODE from GPU 0000:1b:00.0, which has a NIC at PXB"
    ]


def test_a_rail_without_a_gpu_is_free_to_take(tmp_path: Path) -> None:
    server = node("no-gpu", tmp_path)
    outcome = rails_auto(RAILS[:2], server.gpus, server.nics, server.tree)
    assert check_policy([], ["rail0"], outcome.rails) == ((), ())


# any machine


@st.composite
def machines(draw: st.DrawFn, most: int = 6) -> Node:
    """Host bridges on NUMA nodes, root ports, switches up to three deep; GPUs and NICs anywhere below."""
    numa = draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=3))
    bus = itertools.count(0x10)
    tree: dict[str, pci.Device] = {}
    found_gpus: list[Gpu] = []
    found_nics: list[Nic] = []
    places = st.tuples(st.integers(0, len(numa) - 1), st.lists(st.integers(0, 1), max_size=3))
    for number, (is_gpu, (bridge, turns)) in enumerate(
        draw(st.lists(st.tuples(st.booleans(), places), max_size=2 * most))
    ):
        chain = []
        for depth in range(len(turns)):
            stem = "".join(map(str, turns[: depth + 1]))
            chain += [f"{bridge:04x}:0{depth}:{int(stem, 2):02x}.0", f"{bridge:04x}:8{depth}:{int(stem, 2):02x}.1"]
        address = f"{bridge:04x}:{next(bus):02x}:00.0"
        none = pci.Link(0.0, 0)
        tree[address] = pci.Device(
            address, f"pci{bridge:04x}:00", (*chain, address), 0, 0, 0, "", numa[bridge], none, none, 0, 0, (), ""
        )
        if is_gpu and len(found_gpus) < most:
            found_gpus.append(Gpu(address))
        elif not is_gpu and len(found_nics) < most:
            found_nics.append(Nic(address, f"eth{number}", f"mlx5_{number}", draw(st.sampled_from(["", "", "", "x"]))))
    return Node(tree, tuple(found_gpus), tuple(found_nics))


def worst_first(pairings: Iterable[tuple[Gpu, Nic | None]], tree: dict[str, pci.Device]) -> list[int]:
    """Distances, the worst first; a GPU without a NIC is worse than any."""
    found = [distance(gpu.pci, nic.pci, tree) if nic else max(Distance) + 1 for gpu, nic in pairings]
    return sorted((int(each) for each in found), reverse=True)


def greedy(machine: Node) -> list[tuple[Gpu, Nic | None]]:
    """Each GPU in turn takes the nearest that is left."""
    left = [nic for nic in machine.nics if not nic.reason]
    chosen: list[tuple[Gpu, Nic | None]] = []
    for gpu in machine.gpus:
        nic = min(left, key=lambda each: distance(gpu.pci, each.pci, machine.tree), default=None)
        if nic:
            left.remove(nic)
        chosen.append((gpu, nic))
    return chosen


def crossed(one: str, other: str, tree: dict[str, pci.Device]) -> int:
    """Functions on the way below what both have in common: those in one chain and not in the other."""
    return len(set(tree[one].chain) ^ set(tree[other].chain))


def best(machine: Node) -> list[tuple[Gpu, Nic | None]]:
    """By trying everything: nearest, then fewest functions crossed, then the lower addresses together."""
    rows = sorted(machine.gpus, key=lambda gpu: pci.order(gpu.pci))
    usable: list[Nic | None] = [
        *sorted((nic for nic in machine.nics if not nic.reason), key=lambda nic: pci.order(nic.pci))
    ]
    usable += [None] * max(0, len(rows) - len(usable))

    def cost(way: tuple[Nic | None, ...]) -> tuple[list[int], int, list[int]]:
        pairs = list(zip(rows, way, strict=True))
        hops = sum(crossed(gpu.pci, nic.pci, machine.tree) for gpu, nic in pairs if nic)
        return worst_first(pairs, machine.tree), hops, [usable.index(nic) for nic in way]

    chosen = min(itertools.permutations(usable, len(rows)), key=cost)
    return list(zip(rows, chosen, strict=True))


@given(machines())
def test_each_gpu_once_each_nic_at_most_once_and_only_usable_ones(machine: Node) -> None:
    pairings = pair(machine.gpus, machine.nics, machine.tree)
    assert {each.gpu for each in pairings} == set(machine.gpus)
    assert [each.gpu.pci for each in pairings] == sorted((gpu.pci for gpu in machine.gpus), key=pci.order)
    taken = [each.nic for each in pairings if each.nic]
    usable = {nic for nic in machine.nics if not nic.reason}
    assert len(set(taken)) == len(taken) == min(len(usable), len(machine.gpus))
    assert set(taken) <= usable


@given(machines(), st.randoms(use_true_random=False))
def test_any_order_of_input_pairs_alike(machine: Node, chance: random.Random) -> None:
    some_gpus = chance.sample(machine.gpus, len(machine.gpus))
    some_nics = chance.sample(machine.nics, len(machine.nics))
    assert pair(some_gpus, some_nics, machine.tree) == pair(machine.gpus, machine.nics, machine.tree)


@given(machines())
def test_never_worse_than_greedy(machine: Node) -> None:
    pairings = pair(machine.gpus, machine.nics, machine.tree)
    ours = worst_first(((each.gpu, each.nic) for each in pairings), machine.tree)
    assert ours <= worst_first(greedy(machine), machine.tree)


@given(machines(most=5))
def test_it_is_the_best_of_all(machine: Node) -> None:
    pairings = pair(machine.gpus, machine.nics, machine.tree)
    assert [(each.gpu, each.nic) for each in pairings] == best(machine)


@given(machines())
def test_distance_is_symmetric_and_told_with_the_pairing(machine: Node) -> None:
    for one, other in itertools.combinations(machine.tree, 2):
        assert distance(one, other, machine.tree) == distance(other, one, machine.tree)
    for each in pair(machine.gpus, machine.nics, machine.tree):
        if each.nic:
            assert each.distance == distance(each.gpu.pci, each.nic.pci, machine.tree)
            assert each.nearest is not None
            assert each.nearest <= each.distance


@given(machines())
def test_an_unusable_nic_changes_nothing(machine: Node) -> None:
    usable = [nic for nic in machine.nics if not nic.reason]
    assert pair(machine.gpus, usable, machine.tree) == pair(machine.gpus, machine.nics, machine.tree)


@given(machines(), st.integers(1, 6))
def test_auto_rails_are_distinct_and_in_order(machine: Node, count: int) -> None:
    outcome = rails_auto(RAILS[:count], machine.gpus, machine.nics, machine.tree)
    names = [each.rail for each in outcome.rails]
    assert names == sorted(names)
    assert len({each.nic for each in outcome.rails}) == len(names)
    assert len(names) == count or outcome.findings


def test_sixteen_gpus_on_a_bad_machine_are_quick() -> None:
    """Nothing shared, all costs alike or nearly: the case with the longest chains."""
    link = pci.Link(0.0, 0)
    tree = {
        address: pci.Device(
            address, f"pci{domain:04x}:00", (address,), 0, 0, 0, "", domain % 3, link, link, 0, 0, (), ""
        )
        for domain in range(32)
        for address in [f"{domain:04x}:00:00.0"]
    }
    names = sorted(tree)
    pairings = pair([Gpu(name) for name in names[:16]], [Nic(name, name, "x") for name in names[16:]], tree)
    assert len({each.nic for each in pairings}) == 16
    assert worst_first(((each.gpu, each.nic) for each in pairings), tree).count(int(Distance.SYS)) <= 1
