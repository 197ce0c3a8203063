"""The simulation's DCB, judged by iproute2's ``dcb`` and by ethtool."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guest.kit import ROCE, attempt, knob, read_json, sh, statistics

MLX5, BNXT, LENIENT, LIAR = (f"sim{[s.like for s in ROCE].index(like)}" for like in ("mlx5", "bnxt", "lenient", "liar"))
PRIO3 = ["off"] * 3 + ["on"] + ["off"] * 4


def dcb(*words: str) -> Any:
    return read_json("dcb", "-j", *words)


def on_off(values: list[bool]) -> list[str]:
    return ["on" if value else "off" for value in values]


def host_owns(device: str) -> None:
    sh("dcb", "dcbx", "set", "dev", device, "host", "ieee")


def ets(device: str) -> None:
    sh(*f"dcb ets set dev {device} tc-tsa all:ets tc-bw all:12 0:16 prio-tc 0:0 1:1".split())


@pytest.mark.parametrize("device", [MLX5, LENIENT])
def test_ets_is_read_back(device: str) -> None:
    sh(*f"dcb ets set dev {device} tc-tsa all:ets 6:strict tc-bw all:14 3:16 6:0 prio-tc 0:0 1:1".split())
    seen = dcb("ets", "show", "dev", device)
    assert seen["tc_tsa"] == ["ets"] * 6 + ["strict", "ets"]
    assert seen["tc_bw"] == [14, 14, 14, 16, 14, 14, 0, 14]
    assert seen["prio_tc"][:3] == [0, 1, 2]
    assert seen["ets_cap"] == 8


def test_ets_that_is_not_100_percent_is_refused() -> None:
    before = dcb("ets", "show", "dev", MLX5)
    done = attempt(*f"dcb ets set dev {MLX5} tc-tsa all:ets tc-bw all:10".split())
    assert done.returncode != 0
    assert dcb("ets", "show", "dev", MLX5) == before


def test_pfc_is_read_back_and_toggles_the_link_once() -> None:
    flaps, downs = knob(MLX5, "flaps"), statistics(MLX5)["link_down_events_phy"]
    for _ in range(2):  # setting what is set already toggles nothing
        sh("dcb", "pfc", "set", "dev", MLX5, "prio-pfc", "all:off", "3:on", "delay", "3")
    seen = dcb("pfc", "show", "dev", MLX5)
    assert on_off(seen["prio_pfc"]) == PRIO3
    assert (seen["pfc_cap"], seen["delay"]) == (8, 3)
    assert knob(MLX5, "flaps") == flaps + 1
    assert statistics(MLX5)["link_down_events_phy"] == downs + 1


def test_bnxt_wants_the_host_in_charge_ets_first_and_two_lossless_at_most() -> None:
    pfc = ["dcb", "pfc", "set", "dev", BNXT, "prio-pfc"]
    assert attempt(*pfc, "all:off", "3:on").returncode != 0
    host_owns(BNXT)
    assert attempt(*pfc, "all:off", "3:on").returncode != 0
    ets(BNXT)
    sh(*pfc, "all:off", "3:on")
    assert on_off(dcb("pfc", "show", "dev", BNXT)["prio_pfc"]) == PRIO3
    assert attempt(*pfc, "3:on", "4:on", "5:on").returncode != 0


def test_mlx5_app_replaces_trusts_and_falls_back() -> None:
    sh("dcb", "app", "add", "dev", MLX5, "dscp-prio", "26:3", "48:6")
    assert knob(MLX5, "trust_dscp") == 1
    sh("dcb", "app", "add", "dev", MLX5, "dscp-prio", "26:4")
    assert sh("dcb", "-N", "app", "show", "dev", MLX5).split() == ["dscp-prio", "26:4", "48:6"]
    assert attempt("dcb", "app", "add", "dev", MLX5, "ethtype-prio", "0x8915:3").returncode != 0
    sh("dcb", "app", "flush", "dev", MLX5)
    assert knob(MLX5, "trust_dscp") == 0


def test_lenient_app_keeps_two_priorities_of_one_dscp() -> None:
    sh("dcb", "app", "add", "dev", LENIENT, "dscp-prio", "26:3", "26:4")
    assert sh("dcb", "-N", "app", "show", "dev", LENIENT).split() == ["dscp-prio", "26:3", "26:4"]
    sh("dcb", "app", "flush", "dev", LENIENT)


def test_buffer_maxrate_trust_and_rewrite_are_read_back() -> None:
    sh(*f"dcb buffer set dev {MLX5} prio-buffer all:0 3:1 buffer-size 0:65536 1:131072".split())
    seen = dcb("buffer", "show", "dev", MLX5)
    assert seen["prio_buffer"] == [0, 0, 0, 1, 0, 0, 0, 0]
    assert seen["buffer_size"][:2] == [65536, 131072]
    assert attempt(*f"dcb buffer set dev {MLX5} buffer-size all:1000000".split()).returncode != 0
    sh("dcb", "apptrust", "set", "dev", MLX5, "order", "dscp", "pcp")
    assert dcb("apptrust", "show", "dev", MLX5)["order"] == ["dscp", "pcp"]
    sh("dcb", "rewr", "add", "dev", MLX5, "prio-dscp", "3:26")
    assert sh("dcb", "-N", "rewr", "show", "dev", MLX5).split() == ["prio-dscp", "3:26"]
    sh("dcb", "rewr", "flush", "dev", MLX5)


def test_maxrate_is_rounded_by_mlx5_alone() -> None:
    # dcb before 6.18 writes and reads 1/125 of what it says: 1050 Mbit is 131.25 Gb/s, in mlx5's units 132 Gb/s.
    for device, shown in ((MLX5, "3:1056Mbit"), (LENIENT, "3:1050Mbit")):
        sh("dcb", "maxrate", "set", "dev", device, "tc-maxrate", "3:1050mbit")
        assert shown in sh("dcb", "maxrate", "show", "dev", device).split()


def test_the_liar_takes_everything_and_does_nothing() -> None:
    before = [sh("dcb", what, "show", "dev", LIAR) for what in ("ets", "pfc", "buffer")]
    ets(LIAR)
    sh("dcb", "pfc", "set", "dev", LIAR, "prio-pfc", "3:on")
    sh("dcb", "buffer", "set", "dev", LIAR, "prio-buffer", "3:1")
    sh("ethtool", "-A", LIAR, "rx", "off", "tx", "off")
    assert [sh("dcb", what, "show", "dev", LIAR) for what in ("ets", "pfc", "buffer")] == before
    assert sh("ethtool", "-a", LIAR).split().count("on") == 2


STEPS = {
    0: "ets set dev {} tc-tsa all:strict tc-bw all:0",
    1: "maxrate set dev {} tc-maxrate 0:1gbit",
    2: "pfc set dev {} prio-pfc 5:on",
    3: "buffer set dev {} prio-buffer 5:1",
    4: "app add dev {} dscp-prio 10:2",
    5: "apptrust set dev {} order dscp",
    6: "rewr add dev {} prio-dscp 5:10",
}


@pytest.mark.parametrize("bit", STEPS)
def test_a_step_can_be_made_to_fail(bit: int) -> None:
    words = ["dcb", *STEPS[bit].format(LENIENT).split()]
    before = sh("dcb", words[1], "show", "dev", LENIENT)
    knob(LENIENT, "fail", 1 << bit)
    try:
        done = attempt(*words)
        assert done.returncode != 0
        assert "Input/output error" in done.stderr
        assert sh("dcb", words[1], "show", "dev", LENIENT) == before
    finally:
        knob(LENIENT, "fail", 0)


def test_a_failing_pause_is_eio() -> None:
    knob(MLX5, "fail", 1 << 7)
    done = attempt("ethtool", "-A", MLX5, "rx", "off")
    knob(MLX5, "fail", 0)
    assert "Input/output error" in done.stderr


def test_global_pause_is_on_and_can_be_switched_off() -> None:
    assert sh("ethtool", "-a", MLX5).split().count("on") == 2
    sh("ethtool", "-A", MLX5, "rx", "off", "tx", "off")
    assert "on" not in sh("ethtool", "-a", MLX5).split()
    sh("ethtool", "-A", MLX5, "rx", "on", "tx", "on")


def test_the_firmware_s_lldp_agent_owns_dcbx() -> None:
    sh("ethtool", "--set-priv-flags", MLX5, "fw-lldp-agent", "on")
    assert sh("dcb", "dcbx", "show", "dev", MLX5).split() == ["lld-managed", "ieee"]
    sh("ethtool", "--set-priv-flags", MLX5, "fw-lldp-agent", "off")
    host_owns(MLX5)


def pfc_frame(prio: int, quanta: int) -> bytes:
    times = [quanta if number == prio else 0 for number in range(8)]
    control = struct.pack("!HH8H", 0x0101, 1 << prio, *times)
    return (bytes.fromhex("0180c2000001 020000000099 8808") + control).ljust(60, b"\0")


def test_pfc_frames_are_counted_at_both_ends() -> None:
    this = MLX5
    wire = ROCE[int(this[3:])].wire
    other = next(f"sim{number}" for number, seat in enumerate(ROCE) if seat.wire == wire and f"sim{number}" != this)
    for device in (this, other):
        sh("ip", "link", "set", device, "up")
    before = statistics(other)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire_end:
        wire_end.bind((this, 0))
        for _ in range(1000):
            wire_end.send(pfc_frame(3, 65535))
    after = statistics(other)
    assert after["rx_prio3_pause"] - before["rx_prio3_pause"] == 1000
    assert after["rx_prio3_pause_duration"] - before["rx_prio3_pause_duration"] == 83000  # 83.9 µs each, whole ones
    assert statistics(this)["tx_prio3_pause"] >= 1000
    assert dcb("-s", "pfc", "show", "dev", this)["requests"][3] >= 1000
    assert dcb("-s", "pfc", "show", "dev", other)["indications"][3] >= 1000
    for device in (this, other):
        sh("ip", "link", "set", device, "down")


def test_counters_can_be_set_under_the_driver_s_own_names() -> None:
    knob(BNXT, "counters", "rx_pfc_ena_frames_pri3 12345")
    assert statistics(BNXT)["rx_pfc_ena_frames_pri3"] == 12345
    knob(MLX5, "counters", "np_cnp_sent 77")
    (counter,) = Path("/sys/class/infiniband").glob(f"simib{MLX5[3:]}/ports/1/hw_counters/np_cnp_sent")
    assert counter.read_text().strip() == "77"


def test_mlx5_shows_its_congestion_control() -> None:
    folder = Path("/sys/kernel/debug/mlx5") / ROCE[int(MLX5[3:])].address / "cc_params"
    assert (folder / "np_cnp_dscp").read_text().strip() == "48"
    (folder / "np_cnp_dscp").write_text("46")
    assert (folder / "np_cnp_dscp").read_text().strip() == "46"
    (folder / "np_cnp_dscp").write_text("48")


def ieee(device: str) -> dict[int, bytes]:
    """The attributes inside IEEE of a GETDCB reply, by number, read off the socket: ``dcb`` shows no peers."""
    name = device.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(name), 1) + name.ljust(-(-len(name) // 4) * 4, b"\0")
    body = struct.pack("=BBH", 0, 21, 0) + attribute
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(body), 78, 1, 1, 0) + body)
        return attributes(attributes(netlink.recv(65536)[20:])[13])


def attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:
        length, number = struct.unpack_from("=HH", data)
        found[number & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def test_a_neighbour_s_settings_are_seen_as_dcbx_would_tell_them() -> None:
    left, right = (f"sim{number}" for number, seat in enumerate(ROCE) if seat.like == "lenient")
    sh("dcb", "pfc", "set", "dev", right, "prio-pfc", "all:off", "3:on")
    sh("dcb", "app", "add", "dev", right, "dscp-prio", "26:3", "48:6")
    seen = ieee(left)
    assert seen[5][:2] == bytes([8, 1 << 3])  # PEER_PFC: cap, en
    assert seen[4][2:] == ieee(right)[1][2:]  # PEER_ETS is its ETS
    apps = [struct.pack("=HHBBH", 8, 1, 5, priority, dscp) for dscp, priority in ((26, 3), (48, 6))]
    assert seen[6] == b"".join(apps)  # PEER_APP
    sh("dcb", "app", "flush", "dev", right)
    sh("dcb", "pfc", "set", "dev", right, "prio-pfc", "all:off")
