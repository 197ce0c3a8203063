"""What ``nics`` of fabric.yaml asks for: buffers, rates, DCQCN, sysctls; planned, done, seen by others, undone."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guest.kit import ROCE, knob, read_json, sh
from tests.lab.guest.test_dcb import ieee
from tests.lab.guest.tunekit import LENIENT, MLX5, Bench, configfs, world
from tuner.store import Store

NICS = {
    "buffers": "auto",
    "maxRates": {"lossless": "350G", "cnp": "1050M"},
    "dcqcn": {"rp_ai_rate": 10, "np_min_time_between_cnps": 2},
    "sysctls": {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2},
}
PARAMETERS = Path("/sys/kernel/debug/mlx5") / ROCE[int(MLX5[3:])].address / "cc_params"
SYSCTLS = Path("/proc/sys/net/ipv4/conf") / MLX5


@pytest.fixture(scope="module", autouse=True)
def _configfs() -> Iterator[None]:
    with configfs():
        yield


@contextlib.contextmanager
def bench(folder: Path, nic: str, nics: dict[str, Any]) -> Iterator[Bench]:
    sh("ip", "link", "set", nic, "up")
    knob(nic, "strict_buffers", 1)
    found = Bench(folder, [nic], nics=nics)
    try:
        yield found
    finally:
        knob(nic, "fail", 0)
        for _ in Store(str(found.state)).snapshots():
            found.tune("rollback", "--in-use")
        knob(nic, "strict_buffers", 0)
        sh("ip", "link", "set", nic, "down")


def more() -> dict[str, str]:
    """What ``world`` does not show."""
    files = [*(PARAMETERS / name for name in NICS["dcqcn"]), *(SYSCTLS / name for name in NICS["sysctls"])]
    return {path.name: path.read_text().strip() for path in files}


def test_everything_is_planned_done_seen_by_others_verified_and_rolled_back(tmp_path: Path) -> None:
    with bench(tmp_path, MLX5, NICS) as found:
        before, others = world([MLX5]), more()
        planned = found.tune("plan")
        print(planned.out)
        assert planned.code == 1, planned
        assert f"{MLX5}: buffers all→0 sizes 0:130944 → 3→1 sizes 0:29952 1:161280" in planned.out
        assert "class 6: 1050000 kb/s becomes 1100000" in planned.out
        done = found.tune("apply")
        print(done.out, done.err)
        assert done.code == 0, done
        buffer = read_json("dcb", "-j", "buffer", "show", "dev", MLX5)
        assert buffer["prio_buffer"] == [0, 0, 0, 1, 0, 0, 0, 0]
        assert buffer["buffer_size"][:2] == [29_952, 161_280]
        rates = struct.unpack("=8Q", ieee(MLX5)[7])  # kb/s; what ``dcb`` shows of them is wrong before 6.18
        assert rates == (0, 0, 0, 350_000_000, 0, 0, 1_100_000, 0)
        assert more() == {
            "rp_ai_rate": "10",
            "np_min_time_between_cnps": "2",
            "arp_ignore": "1",
            "arp_announce": "2",
            "rp_filter": "2",
        }
        assert found.tune("verify").code == 0
        assert "nothing to do" in found.tune("apply").out
        (SYSCTLS / "rp_filter").write_text("1")
        drift = found.tune("verify")
        assert drift.code == 1
        assert "sysctl rp_filter 1" in drift.out
        assert found.tune("apply").code == 0
        while Store(str(found.state)).snapshots():
            assert found.tune("rollback").code == 0
        assert (world([MLX5]), more()) == (before, others)


@pytest.mark.parametrize("bit", [1, 2, 3])
def test_a_refusal_on_the_way_puts_everything_back(bit: int, tmp_path: Path) -> None:
    with bench(tmp_path, MLX5, NICS) as found:
        before, others = world([MLX5]), more()
        knob(MLX5, "fail", 1 << bit)
        done = found.tune("apply")
        knob(MLX5, "fail", 0)
        assert done.code == 3, done
        assert "everything was put back" in done.out
        assert (world([MLX5]), more()) == (before, others)


def test_buffers_move_while_pfc_is_on(tmp_path: Path) -> None:
    """The port was set up by hand, in another layout that mlx5 takes: nothing may be too small on the way."""
    with bench(tmp_path, MLX5, {"buffers": {"lossless": "162KiB", "rest": "32KiB"}}) as found:
        sh("ethtool", "-A", MLX5, "rx", "off", "tx", "off")
        sh("dcb", "buffer", "set", "dev", MLX5, "buffer-size", "0:80000", "1:170000")
        sh("dcb", "buffer", "set", "dev", MLX5, "prio-buffer", "3:1", "4:1")
        sh("dcb", "pfc", "set", "dev", MLX5, "prio-pfc", "3:on")
        done = found.tune("apply")
        print(done.out, done.err)
        assert done.code == 0, done
        assert read_json("dcb", "-j", "buffer", "show", "dev", MLX5)["buffer_size"][:2] == [32_768, 165_888]
        assert found.tune("rollback").code == 0
        sh("dcb", "pfc", "set", "dev", MLX5, "prio-pfc", "3:off")
        sh("dcb", "buffer", "set", "dev", MLX5, "prio-buffer", "all:0", "buffer-size", "all:0", "0:130944")
        sh("ethtool", "-A", MLX5, "rx", "on", "tx", "on")


def test_too_little_buffer_blocks_before_anything_is_changed(tmp_path: Path) -> None:
    with bench(tmp_path, MLX5, {"buffers": {"lossless": "128KiB", "rest": "32KiB"}}) as found:
        before = world([MLX5])
        done = found.tune("apply")
        print(done.out)
        assert done.code == 3
        assert "nics.buffers.lossless is 131072 B; speed, cable and MTU call for 161280 B" in done.out
        assert world([MLX5]) == before


def test_what_a_nic_does_not_have_is_said(tmp_path: Path) -> None:
    with bench(tmp_path, LENIENT, {"dcqcn": {"rp_ai_rate": 10}, "maxRates": {"rest": "100G"}}) as found:
        knob(LENIENT, "strict_buffers", 0)
        done = found.tune("apply")
        assert done.code == 0, done
        assert "DCQCN rp_ai_rate" in done.out
        assert "as far as its drivers show it" in done.out
