"""Our DCB messages beside those of iproute2's ``dcb``, byte by byte, and what each of the two reads of the other."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from host import dcbnl
from host.errors import HostError
from host.ethtool import Ethtool, Pause
from host.netlink import attributes
from tests.lab.guest.kit import ROCE, knob, read_json, rebind, sh, statistics

MLX5, BNXT, LENIENT, LIAR = (f"sim{[s.like for s in ROCE].index(like)}" for like in ("mlx5", "bnxt", "lenient", "liar"))
GOLDEN = Path(__file__).parents[2] / "golden/dcbnl.txt"
EIGHT = tuple(range(8))
ETS = dcbnl.Ets(
    cap=8,
    tx_bw=(14, 14, 14, 16, 14, 14, 0, 14),
    tsa=(2, 2, 2, 2, 2, 2, 0, 2),
    prio_tc=EIGHT,
)
BUFFER = dcbnl.Buffer((0, 0, 0, 1, 0, 0, 0, 0), (65536, 131072, 0, 0, 0, 0, 0, 0), 262016)
APPS = [dcbnl.App(5, 3, 26), dcbnl.App(5, 6, 48)]


@pytest.fixture(scope="module", autouse=True)
def _as_new() -> Iterator[None]:
    """These tests set more than they take back: NICs whose driver is bound again are as new."""
    yield
    for nic in (MLX5, BNXT, LENIENT):
        rebind(ROCE[int(nic[3:])].address)


@contextlib.contextmanager
def tap() -> Iterator[socket.socket]:
    """Every netlink message of the machine (nlmon)."""
    sh("ip", "link", "add", "nlmon0", "type", "nlmon")
    try:
        sh("ip", "link", "set", "nlmon0", "up")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as end:
            end.bind(("nlmon0", 0))
            end.settimeout(0.3)
            yield end
    finally:
        sh("ip", "link", "del", "nlmon0")


def sent(end: socket.socket) -> list[bytes]:
    """The content of IEEE in each request to set or delete that has passed by."""
    found = []
    with contextlib.suppress(TimeoutError):
        while True:
            message = end.recv(65536)
            if len(message) < 20:
                continue
            _, kind, flags, _, _ = struct.unpack_from("=IHHII", message)
            ieee = attributes(message, 20).get(13, b"")
            if kind == dcbnl.RTM_SETDCB and flags & 1 and len(ieee) > 1:  # a request; its answer has one byte
                found.append(ieee)
    return found


CASES: dict[str, tuple[str, bytes]] = {
    "ets": (
        "ets set dev {} tc-tsa all:ets 6:strict tc-bw all:14 3:16 6:0 prio-tc 0:0 1:1",
        dcbnl.pack_ets(ETS),
    ),
    "pfc": ("pfc set dev {} prio-pfc all:off 3:on delay 3", dcbnl.pack_pfc(dcbnl.Pfc(8, 8, 0, 3))),
    "buffer": (
        "buffer set dev {} prio-buffer all:0 3:1 buffer-size 0:65536 1:131072",
        dcbnl.pack_buffer(BUFFER),
    ),
    "app": ("app add dev {} dscp-prio 26:3 48:6", dcbnl.pack_apps(APPS)),
    "app-del": ("app del dev {} dscp-prio 26:3 48:6", dcbnl.pack_apps(APPS)),
    "app-pcp": ("app add dev {} pcp-prio 3nd:3", dcbnl.pack_apps([dcbnl.App(255, 3, 3)])),
    "trust": ("apptrust set dev {} order dscp pcp", dcbnl.pack_trust([5, 255])),
    "rewrite": ("rewr add dev {} prio-dscp 3:26", dcbnl.pack_apps([dcbnl.App(5, 3, 26)], rewrite=True)),
}


@pytest.fixture
def dcb() -> Iterator[dcbnl.Dcb]:
    door = dcbnl.Dcb()
    yield door
    door.close()


def golden() -> dict[str, bytes]:
    lines = (line.split() for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#"))
    return {name: bytes.fromhex(data) for name, data in lines}


def inner(data: bytes) -> dict[int, bytes]:
    return attributes(data)


def test_our_bytes_are_those_that_dcb_sends() -> None:
    clean()
    seen = {}
    with tap() as end:
        for name, (words, _) in CASES.items():
            sh("dcb", *words.format(LENIENT).split())
            seen[name] = sent(end)[-1]
    clean()
    Path("/run/lab/golden-dcbnl.txt").write_text("".join(f"{name} {data.hex()}\n" for name, data in seen.items()))
    for name, (_, ours) in CASES.items():
        assert inner(seen[name]) == inner(ours), name
    assert {name: data.hex() for name, data in golden().items()} == {name: data.hex() for name, data in seen.items()}


def clean() -> None:
    """The lenient NIC as it was, as far as these tests change it."""
    for table in ("app", "rewr"):
        sh("dcb", table, "flush", "dev", LENIENT)


def test_dcb_reads_back_what_we_wrote_and_we_read_it_too(dcb: dcbnl.Dcb) -> None:
    dcb.set(MLX5, "ETS", dcbnl.pack_ets(ETS))
    dcb.set(MLX5, "PFC", dcbnl.pack_pfc(dcbnl.Pfc(8, 8, 0, 3)))
    dcb.set(MLX5, "buffers", dcbnl.pack_buffer(BUFFER))
    dcb.set(MLX5, "APP", dcbnl.pack_apps(APPS))
    ieee = dcb.get(MLX5)
    assert ieee is not None
    assert ieee.ets == ETS
    assert ieee.pfc is not None
    assert (ieee.pfc.enabled, ieee.pfc.delay) == (8, 3)
    assert ieee.buffer == BUFFER
    assert ieee.apps == tuple(sorted(APPS))
    assert read_json("dcb", "-j", "ets", "show", "dev", MLX5)["tc_bw"] == list(ETS.tx_bw)
    assert read_json("dcb", "-j", "pfc", "show", "dev", MLX5)["delay"] == 3
    assert read_json("dcb", "-j", "buffer", "show", "dev", MLX5)["buffer_size"] == list(BUFFER.size)
    assert sh("dcb", "-N", "app", "show", "dev", MLX5).split() == ["dscp-prio", "26:3", "48:6"]
    dcb.delete(MLX5, "APP", dcbnl.pack_apps(APPS))
    dcb.set(MLX5, "PFC", dcbnl.pack_pfc(dcbnl.Pfc(8, 0, 0, 7)))
    after = dcb.get(MLX5)
    assert after is not None
    assert after.apps in ((), None)


def test_a_driver_s_refusal_is_an_error_although_the_kernel_acknowledges(dcb: dcbnl.Dcb) -> None:
    knob(LENIENT, "fail", 1 << 2)
    try:
        with pytest.raises(HostError, match=f"set PFC of {LENIENT}: Input/output error"):
            dcb.set(LENIENT, "PFC", dcbnl.pack_pfc(dcbnl.Pfc(8, 8)))
    finally:
        knob(LENIENT, "fail", 0)
    with pytest.raises(HostError, match=r"set ETS of .*EINVAL"):
        dcb.set(MLX5, "ETS", dcbnl.pack_ets(dcbnl.Ets(tx_bw=(10,) * 8, tsa=(2,) * 8)))


def test_dcbx_is_taken_and_refused(dcb: dcbnl.Dcb) -> None:
    before = dcb.dcbx(BNXT)
    dcb.set_dcbx(BNXT, 0x9)
    assert dcb.dcbx(BNXT) == 0x9
    with pytest.raises(HostError, match="the driver refused"):
        dcb.set_dcbx(BNXT, 0x5)
    dcb.set_dcbx(BNXT, before or 0)
    assert dcb.dcbx(BNXT) == before


def test_a_device_without_dcb_is_none_and_a_missing_one_an_error(dcb: dcbnl.Dcb) -> None:
    assert dcb.get("lo") is None
    assert dcb.dcbx("lo") is None
    with pytest.raises(HostError, match="ENODEV"):
        dcb.get("nosuch")


def test_ethtool_s_door_beside_ethtool() -> None:
    door = Ethtool()
    driver = door.driver(MLX5)
    assert driver is not None
    assert (driver.name, driver.bus) == ("mlx5_core", ROCE[int(MLX5[3:])].address)
    assert driver.firmware.startswith("22.41.")
    assert door.statistics(MLX5) == statistics(MLX5)
    assert door.pause(MLX5) == Pause(autoneg=False, rx=True, tx=True)
    door.set_pause(MLX5, Pause(autoneg=False, rx=False, tx=False))
    assert "on" not in sh("ethtool", "-a", MLX5).split()
    door.set_pause(MLX5, Pause(autoneg=False, rx=True, tx=True))
    with pytest.raises(HostError, match="set pause rx off tx off"):
        door.set_pause(MLX5, Pause(autoneg=True, rx=False, tx=False))
    assert door.flags(BNXT) == {"fw-lldp-agent": False}
    door.set_flag(BNXT, "fw-lldp-agent", True)
    assert door.flags(BNXT) == {"fw-lldp-agent": True}
    assert "fw-lldp-agent: on" in sh("ethtool", "--show-priv-flags", BNXT)
    door.set_flag(BNXT, "fw-lldp-agent", False)
    sh("ip", "link", "set", MLX5, "up")
    wanted: Any = knob(MLX5, "speed")
    assert door.speed(MLX5) == wanted
    sh("ip", "link", "set", MLX5, "down")
    door.close()
