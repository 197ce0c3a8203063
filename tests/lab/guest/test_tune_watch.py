"""``roceway-tune watch`` on simulated NICs: what happens to them is said, and only that."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guest.forks import Forked
from tests.lab.guest.kit import ROCE, knob, sh, statistics, wait_until
from tests.lab.guest.tunekit import MLX5, SIMS, Bench, configfs
from tuner.__main__ import TUNE
from tuner.cli import run

OTHER = SIMS["mlx5"][1]
"""The NIC at the other end of MLX5's wire."""


@pytest.fixture(scope="module", autouse=True)
def _configfs() -> Iterator[None]:
    with configfs():
        yield


@pytest.fixture(scope="module")
def applied(_configfs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A NIC that is what its fabric says."""
    sh("ip", "-batch", "-", stdin=f"link set {MLX5} up\nlink set {OTHER} up")
    bench = Bench(tmp_path_factory.mktemp("watch"), [MLX5])
    assert bench.tune("apply").code == 0
    yield bench
    bench.tune("rollback")
    sh("ip", "-batch", "-", stdin=f"link set {MLX5} down\nlink set {OTHER} down")


@pytest.fixture
def tuned(applied: Bench) -> Iterator[Bench]:
    """The same one for all tests: each leaves it so."""
    yield applied
    (applied.state / "watch.prom").unlink(missing_ok=True)
    assert applied.tune("verify").code == 0, "it is not left as it was"


class Watch:
    """A watch that is running, and what it has said."""

    def __init__(self, bench: Bench, *words: str) -> None:
        bench.state.mkdir(mode=0o700, exist_ok=True)
        self.log = bench.state / "watch.log"
        command = ["watch", "-f", str(bench.fabric), "--node", "lab", "--json"]
        command += ["--state-dir", str(bench.state), "--interval", "1", "--for", "120", *words]
        self.log.unlink(missing_ok=True)
        self.process = Forked(lambda: run(TUNE, command), self.log, self.log)
        wait_until(lambda: self._started(bench), 60)

    def _started(self, bench: Bench) -> bool:
        assert self.process.exitcode is None, self.log.read_text()
        return (bench.state / "watch.prom").exists()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def await_kind(self, kind: str, part: str = "") -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [event for event in self.events() if event["kind"] == kind and part in event["text"]]

        wait_until(found, 30)
        return found()[0]


@contextlib.contextmanager
def watching(bench: Bench, *words: str) -> Iterator[Watch]:
    watch = Watch(bench, "--metrics", str(bench.state / "watch.prom"), *words)
    try:
        yield watch
    finally:
        watch.process.terminate()
        assert watch.process.end(30) is not None, "SIGTERM did not end it"


def pfc_frames(device: str, count: int) -> None:
    """Pause frames for priority 3 that ask for the longest pause."""
    control = struct.pack("!HH8H", 0x0101, 1 << 3, 0, 0, 0, 0xFFFF, 0, 0, 0, 0)
    frame = (bytes.fromhex("0180c2000001 020000000099 8808") + control).ljust(60, b"\0")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((device, 0))
        for _ in range(count):
            wire.send(frame)


def test_a_quiet_rail_is_quiet_and_each_event_is_said(tuned: Bench) -> None:
    with watching(tuned) as watch:
        assert watch.events() == []
        sh("dcb", "pfc", "set", "dev", MLX5, "prio-pfc", "4:on")
        assert "PFC 3,4" in watch.await_kind("drift")["text"]
        sh("dcb", "pfc", "set", "dev", MLX5, "prio-pfc", "4:off")
        watch.await_kind("mended")
        knob(MLX5, "carrier", 0)
        assert watch.await_kind("link", "down")["values"]["changes"] >= 1
        knob(MLX5, "carrier", 1)
        watch.await_kind("link", "up")
        now = statistics(MLX5)
        knob(MLX5, "counters", f"rx_prio3_buf_discard {now['rx_prio3_buf_discard'] + 7}")
        assert watch.await_kind("drops")["values"]["drops"] == 7
        knob(MLX5, "counters", "np_ecn_marked_roce_packets 5000")
        assert "no CNP was sent" in watch.await_kind("no-cnp")["text"]
        knob(MLX5, "counters", f"rx_prio0_bytes {now['rx_prio0_bytes'] + 4096}")
        knob(MLX5, "counters", "rx_write_requests 9")
        watch.await_kind("wrong-priority")
    assert watch.process.exitcode == 1
    kinds = [event["kind"] for event in watch.events()]
    assert "pause-storm" not in kinds


def test_a_storm_is_flagged_by_pause_time_and_every_frame_is_counted_at_both_ends(tuned: Bench) -> None:
    assert ROCE[int(OTHER[3:])].wire == ROCE[int(MLX5[3:])].wire
    here, there = statistics(MLX5), statistics(OTHER)
    pfc_frames(OTHER, 1000)
    nic = tuned.tune("show", "--json").json["nics"][0]
    assert nic["counters"]["rx_pause"][3] - here["rx_prio3_pause"] == 1000
    assert statistics(OTHER)["tx_prio3_pause"] - there["tx_prio3_pause"] == 1000
    with watching(tuned, "--interval", "4") as watch:
        pfc_frames(OTHER, 20_000)
        storm = watch.await_kind("pause-storm")
        assert storm["values"]["share"] >= 0.1
        assert "could not send" in storm["text"]
    received = statistics(MLX5)["rx_prio3_pause"] - here["rx_prio3_pause"]
    sent = statistics(OTHER)["tx_prio3_pause"] - there["tx_prio3_pause"]
    assert received == sent == 21_000
    text = (tuned.state / "watch.prom").read_text()
    assert f'roceway_rail_healthy{{nic="{MLX5}",rail="rail0"}} 1.0' in text
    assert "roceway_pause_share" in text


def test_enforcing_puts_drift_right(tuned: Bench) -> None:
    with watching(tuned, "--enforce") as watch:
        sh("ethtool", "-A", MLX5, "rx", "on", "tx", "on")
        sh("ip", "link", "set", MLX5, "mtu", "4200")  # pause has no notification of its own
        watch.await_kind("drift", "MTU 4200 → 9000")
        watch.await_kind("mended")
    assert sh("ethtool", "-a", MLX5).split().count("on") == 0


def test_a_reloaded_driver_s_nic_is_put_right_again(tuned: Bench) -> None:
    address = ROCE[int(MLX5[3:])].address
    named = Bench(tuned.state.parent / "by-address", [address])
    driver = Path(f"/sys/bus/pci/devices/{address}/driver").resolve()
    with watching(named, "--enforce") as watch:
        (driver / "unbind").write_text(address)
        watch.await_kind("gone")
        (finding,) = json.loads((named.state / "verify.json").read_text())["nics"][0]["findings"]
        assert finding == f"no driver is bound to {address}"
        (driver / "bind").write_text(address)
        sh("ip", "link", "set", MLX5, "up")
        watch.await_kind("back")
        watch.await_kind("drift", "PFC off")
        watch.await_kind("mended")
        wait_until(lambda: not json.loads((named.state / "verify.json").read_text())["nics"][0]["findings"])
    assert named.tune("verify").code == 0
