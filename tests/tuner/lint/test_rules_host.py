"""H12-H14, H16-H21, L12, R01, R02, R04 on a host: agents, machine and counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.tuner.lint.cases import Case, Change, Negative, Positive, Unknown, cases, check
from tests.tuner.lint.scene import Scene, host, nic
from tuner.nic import Applied, Counters, Gid, NicWanted, Peer, Pfc

WELL, HOST = nic(1, 0), host(1)
RAIL0 = "gpu-1 rail0 (eth0)"


def one(**changes: Any) -> Change:
    """The NIC of rail0 on gpu-1, changed."""
    return lambda scene: scene.nic("gpu-1", "rail0", **changes)


def here(**changes: Any) -> Change:
    """The host gpu-1, changed."""
    return lambda scene: scene.host("gpu-1", **changes)


def applied(**changes: Any) -> Applied:
    assert HOST.applied is not None
    return replace(HOST.applied, **changes)


def wanted(**fields: Any) -> Change:
    """A record of apply that asked eth0 for more."""
    return here(applied=applied(wanted=(NicWanted(nic="eth0", rail="rail0", **fields),)))


def pci(**changes: Any) -> Change:
    assert WELL.pci is not None
    return one(pci=replace(WELL.pci, **changes))


def counters(**changes: Any) -> Counters:
    return replace(WELL.counters, **changes)


def willing(peer: Peer | None) -> Change:
    assert WELL.ets is not None
    return one(ets=replace(WELL.ets, willing=True), peer=peer)


def one_subnet(**sysctls: int) -> Change:
    """Both rails of gpu-1 in one subnet, eth0 with these settings."""
    well = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}
    return lambda scene: scene.nic("gpu-1", "rail1", addresses=("10.200.0.9/16",)).nic(
        "gpu-1", "rail0", sysctls=well | sysctls
    )


def paused(microseconds: int) -> Change:
    """A second reading of gpu-1, ten seconds after the first."""

    def change(scene: Scene) -> Scene:
        scene.earlier = (replace(scene.hosts["gpu-1"], at="2030-06-01T09:59:50+00:00"),)
        return scene.nic("gpu-1", "rail0", counters=counters(rx_pause_us=(0, 0, 0, microseconds, 0, 0, 0, 0)))

    return change


POSITIVE = [
    Positive("H12", one(fw_lldp=True), RAIL0, "DCB is set by firmware, roceway"),
    Positive("H12", here(agents=("lldpad",)), RAIL0, "DCB is set by lldpad, roceway"),
    Positive("H13", willing(Peer(pfc=Pfc(enabled=(4,)))), RAIL0, "advertises PFC on 4, wanted is 3"),
    Positive("H14", one(pfc=Pfc(enabled=(3, 5))), RAIL0, "PFC: set was (3,), read is (3, 5)"),
    Positive("H14", wanted(dscp_prio=((26, 3),)), RAIL0, "DSCP map: set was 26:3, read is 26:3 48:6"),
    Positive("H16", one(mtu=4096), RAIL0, "MTU is 4096, wanted is 9000"),
    Positive("H16", one(mtu=9216), RAIL0, "MTU is 9216, the other rails' is 9000"),
    Positive(
        "H17", one(gids=(Gid(index=5, type="RoCE v2", address="10.200.0.1"),)), RAIL0, "was at index 3 and is at 5"
    ),
    Positive("H18", pci(width=8), RAIL0, "PCIe link runs at x8 lanes, the card can do x16 lanes"),
    Positive("H18", pci(speed=16.0), RAIL0, "runs at 16 GT/s"),
    Positive("H18", pci(acs_enabled=("RR", "CR")), RAIL0, "ACS redirects peer traffic: RR, CR"),
    Positive("H18", pci(relaxed_ordering=False), RAIL0, "relaxed ordering is off"),
    Positive("H18", pci(max_read_request=128), RAIL0, "at most 128 B", "high"),
    Positive("H18", pci(max_read_request=512), RAIL0, "at most 512 B", "medium"),
    Positive("H19", one_subnet(arp_ignore=0), RAIL0, "two rails in one subnet, arp_ignore is 0"),
    Positive("H19", one_subnet(rp_filter=1), RAIL0, "rp_filter is 1"),
    Positive("H20", one(firmware="28.39.2048"), "gpu-1 rail1 (eth1)", "firmware is 28.42.1000, the NICs do not agree"),
    Positive("H21", here(boot_id="another"), "gpu-1", "rebooted since QoS was last applied"),
    Positive("H21", one(ifindex=99), RAIL0, "replugged or its driver reloaded"),
    Positive(
        "L12",
        one(counters=counters(rdma={"np_ecn_marked_roce_packets": 12, "np_cnp_sent": 0})),
        RAIL0,
        "np_ecn_marked_roce_packets has counted, np_cnp_sent is 0",
    ),
    Positive(
        "R01", one(counters=counters(rx_discards=(0, 0, 0, 7, 0, 0, 0, 0))), RAIL0, "lossless priority 3 were dropped"
    ),
    Positive("R02", paused(2_000_000), RAIL0, "priority 3 was paused by the switch 20% of the time"),
    Positive("R04", one(counters=counters(tx_bytes=(10**12, 0, 0, 10**12, 0, 0, 0, 0))), RAIL0, "on priority 0"),
]

NEGATIVE = [
    Negative("H12", "one agent alone", lambda scene: scene.host("gpu-1", agents=("lldpad",), applied=None)),
    Negative("H13", "the neighbour wants the same", willing(Peer(pfc=Pfc(enabled=(3,))))),
    Negative("H14", "a reboot in between is H21", lambda scene: here(boot_id="b")(one(pfc=Pfc(enabled=(4,)))(scene))),
    Negative("H16", "4192 is enough", lambda scene: scene.write("mtu: 9000, ", "mtu: 4192, ").nics(mtu=4192)),
    Negative("H17", "a new address has no past", one(gids=(Gid(index=7, type="RoCE v2", address="10.200.0.77"),))),
    Negative(
        "H17",
        "RoCE v1 has an index of its own",
        one(
            gids=(
                Gid(index=2, type="IB/RoCE v1", address="10.200.0.1"),
                Gid(index=3, type="RoCE v2", address="10.200.0.1"),
            )
        ),
    ),
    Negative("H18", "a card with 8 lanes in 8", pci(width=8, max_width=8)),
    Negative("H19", "one subnet, well set", one_subnet()),
    Negative(
        "H19",
        "the kernel takes the larger of all and the NIC's",
        lambda scene: one_subnet(arp_ignore=0)(scene).host(
            "gpu-1", sysctls={"arp_ignore": 1, "arp_announce": 0, "rp_filter": 0}
        ),
    ),
    Negative("H20", "another kind of NIC", lambda scene: pci(device=0x1023)(one(firmware="32.0")(scene))),
    Negative("H21", "the same boot", here(boot_id="this-boot")),
    Negative("L12", "marks and CNPs", one(counters=counters(rdma={"rx_ecn_marked_pkts": 5, "tx_cnp_pkts": 4}))),
    Negative("R01", "drops in a lossy class", one(counters=counters(rx_discards=(9, 0, 0, 0, 0, 0, 0, 0)))),
    Negative("R02", "flow control, no storm", paused(900_000)),
    Negative("R04", "a little ssh and ARP", one(counters=counters(tx_bytes=(10**9, 0, 0, 10**9, 0, 0, 0, 0)))),
]

UNKNOWN = [
    Unknown("H12", here(agents=None), "which programs of the host negotiate DCBX"),
    Unknown("H12", one(fw_lldp=None, dcbx=None), "whether the NIC's firmware negotiates DCBX"),
    Unknown("H13", willing(None), "what the neighbour advertises by DCBX"),
    Unknown("H14", here(applied=None), "a record of what was set (roceway-tune apply)"),
    Unknown("H16", one(mtu=None), "MTU of the NIC"),
    Unknown("H17", here(applied=None), "GID indices of an earlier time (roceway-tune apply)"),
    Unknown("H18", one(pci=None), "PCIe settings of the NIC"),
    Unknown("H18", pci(acs_enabled=None), "ACS of the bridges above the NIC"),
    Unknown("H19", one(addresses=None), "addresses of the NIC"),
    Unknown("H19", lambda scene: one_subnet()(scene).host("gpu-1", sysctls={}), "ARP settings of host and NIC"),
    Unknown("H20", one(firmware=None), "firmware version of the NIC"),
    Unknown("H21", here(boot_id=None), "boot ID of the host"),
    Unknown("L12", one(counters=counters(rdma={})), "the RDMA device's counters of marks and CNPs"),
    Unknown("R01", one(counters=counters(rx_discards=None)), "discards of the NIC by priority"),
    Unknown("R02", one(), "a second reading of the host (pause is judged by share of time)"),
    Unknown("R04", one(counters=counters(tx_bytes=None)), "bytes of the NIC by priority"),
]


@cases(*POSITIVE, *NEGATIVE, *UNKNOWN)
def test_a_rule_finds_spares_or_lacks(case: Case) -> None:
    check(case)


def test_a_storm_is_seen_from_frames_where_no_time_is_counted() -> None:
    scene = Scene().nics(counters=counters(rx_pause_us=None, tx_pause_us=None))
    scene.earlier = (replace(scene.hosts["gpu-1"], at="2030-06-01T09:59:50+00:00"),)
    # 400G: one frame stops a class for at most 83.9 µs, so 11,921 a second stop it wholly (facts of IEEE 802.1Q)
    scene.nic(
        "gpu-1", "rail0", counters=counters(rx_pause_us=None, tx_pause_us=None, tx_pause=(0, 0, 0, 119_210, 0, 0, 0, 0))
    )
    assert [each.evidence for each in scene.findings("R02")] == ["priority 3 was pausing the switch 100% of the time"]


def test_readings_of_two_boots_give_no_rate() -> None:
    scene = paused(9_000_000)(Scene())
    scene.earlier = (replace(scene.earlier[0], boot_id="the-boot-before"),)
    assert scene.findings("R02") == []
