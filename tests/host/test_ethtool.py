"""ethtool's structures, and this machine's own devices beside ``ethtool``; the lab has devices with pause and flags."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator

import pytest

from host.errors import HostError
from host.ethtool import Ethtool, Pause, parse_driver, parse_flags, parse_pause, parse_speed, parse_statistics
from host.netlink import blob, nested, text


@pytest.fixture
def door() -> Iterator[Ethtool]:
    found = Ethtool()
    yield found
    found.close()


def test_pause_needs_all_three() -> None:
    assert parse_pause({2: b"\0", 3: b"\1", 4: b"\0"}) == Pause(autoneg=False, rx=True, tx=False)
    assert parse_pause({2: b"\0", 3: b"\1"}) is None


@pytest.mark.parametrize(
    ("payload", "speed"),
    [
        (struct.pack("=I", 400_000), 400_000),
        (struct.pack("=I", 0xFFFFFFFF), None),
        (struct.pack("=I", 0), None),
        (b"\1", None),
    ],
)
def test_an_unknown_speed_is_none(payload: bytes, speed: int | None) -> None:
    assert parse_speed({5: payload}) == speed


def test_private_flags_by_name() -> None:
    on = nested(1, blob(1, b"\0\0\0\0"), text(2, "fw-lldp-agent"), blob(3, b""))
    off = nested(1, blob(1, b"\1\0\0\0"), text(2, "link-down-on-close"))
    assert parse_flags({2: nested(3, on, off)}) == {"fw-lldp-agent": True, "link-down-on-close": False}
    assert parse_flags({}) == {}


def test_statistics_are_names_and_numbers_in_the_same_order() -> None:
    names = b"".join(name.ljust(32, b"\0") for name in (b"rx_prio3_pause", b"tx_prio3_pause"))
    assert parse_statistics(names, struct.pack("=2Q", 5, 1 << 63)) == {"rx_prio3_pause": 5, "tx_prio3_pause": 1 << 63}
    assert parse_statistics(names, struct.pack("=Q", 5)) == {"rx_prio3_pause": 5}


def test_driver() -> None:
    data = struct.pack(
        "=I32s32s32s32s32s12s5I", 3, b"mlx5_core", b"6.8", b"28.39.1002 (X)", b"0000:18:00.0", b"", b"", *[0] * 5
    )
    assert parse_driver(data) == ("mlx5_core", "28.39.1002 (X)", "0000:18:00.0")


def test_loopback_has_none_of_it(door: Ethtool) -> None:
    assert door.pause("lo") is None
    assert door.flags("lo") == {}
    assert door.statistics("lo") == {}
    assert door.driver("lo") is None


def test_a_missing_device_is_an_error(door: Ethtool) -> None:
    for ask in (door.pause, door.speed, door.flags, door.driver, door.statistics):
        with pytest.raises(HostError, match="nosuch: No such device"):
            ask("nosuch")


@pytest.mark.skipif(shutil.which("ethtool") is None, reason="no ethtool here")
def test_this_machine_s_statistics_are_those_that_ethtool_prints(door: Ethtool) -> None:
    device = "ifb0"
    done = subprocess.run(["ethtool", "-S", device], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this machine has no {device}")
    printed = (line.strip().rpartition(": ") for line in done.stdout.splitlines()[1:])
    assert door.statistics(device) == {name: int(value) for name, _, value in printed}
