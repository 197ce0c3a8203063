"""``roceway-tune prove`` and DCBX frames on NICs that have DCB and count by priority."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.guest.kit import ROCE, attempt, namespace, sh, wait_until
from tests.world import ROOT

MLX5 = [f"sim{number}" for number, seat in enumerate(ROCE) if seat.like == "mlx5"]
LENIENT = [f"sim{number}" for number, seat in enumerate(ROCE) if seat.like == "lenient"]
"""Two NICs of a kind are back to back."""


@contextlib.contextmanager
def apart(devices: list[str]) -> Iterator[list[str]]:
    """The NICs of a wire in a namespace each, up, with 10.9.0.1 and 10.9.0.2."""
    with namespace("one") as one, namespace("other") as other:
        for number, (device, space) in enumerate(zip(devices, (one, other), strict=True), 1):
            sh("ip", "link", "set", device, "netns", space)
            sh("ip", "-n", space, "addr", "add", f"10.9.0.{number}/24", "dev", device)
            sh("ip", "-n", space, "link", "set", device, "up")
        yield [one, other]
    wait_until(lambda: all(Path(f"/sys/class/net/{device}").exists() for device in devices))


def inside(space: str, *words: str) -> list[str]:
    return ["ip", "netns", "exec", space, *words]


def test_packets_are_counted_by_the_priority_that_their_dscp_has() -> None:
    with apart(MLX5) as spaces:
        for space, device in zip(spaces, MLX5, strict=True):
            sh(*inside(space, "dcb", "app", "replace", "dev", device, "dscp-prio", "26:3", "48:6"))
        words = [sys.executable, "-m", "tuner", "prove", "--device"]
        listener = subprocess.Popen(
            inside(spaces[1], *words, MLX5[1], "--listen", "--wait", "120"), cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        try:
            assert listener.stderr is not None
            assert "listening on" in listener.stderr.readline()
            time.sleep(1)
            few = ("--dscp", "26,48", "--count", "4", "--rate", "100", "--json")
            sender = inside(spaces[0], *words, MLX5[0], "--to", "10.9.0.2", *few)
            done = subprocess.run(sender, cwd=ROOT, capture_output=True, text=True, timeout=120)
        finally:
            listener.kill()
            listener.wait()
        for space, device in zip(spaces, MLX5, strict=True):
            attempt(*inside(space, "dcb", "app", "flush", "dev", device))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["ok"]
    for end in ("sender", "listener"):
        received = told["counters"][end]["rx_packets"]
        assert received["3"] >= 12, told["counters"]  # three markings of DSCP 26, 4 probes each
        assert received["6"] >= 12


@pytest.mark.skipif(not shutil.which("lldpad"), reason="lldpad is not installed")
def test_dcbx_of_a_real_agent_is_read(tmp_path: Path) -> None:
    """lldpad sends 802.1Qaz TLVs for a NIC that has DCB; what it was told is what we read."""
    with apart(LENIENT) as spaces:
        device, other = LENIENT
        script = (
            f"from tuner.wire import listen_lldp\nfor each in listen_lldp('{other}', 100):\n"
            "  if each.pfc and each.apps: print(each); break"
        )
        listener = subprocess.Popen(
            inside(spaces[1], sys.executable, "-c", script), cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        agent = subprocess.Popen(inside(spaces[0], "lldpad", "-f", str(tmp_path / "lldpad.conf")))
        tool = inside(spaces[0], "lldptool")
        try:
            wait_until(lambda: "rxtx" in attempt(*tool, "set-lldp", "-i", device, "adminStatus=rxtx").stdout, 60)
            for words in ("ETS-CFG enableTx=yes", "PFC enableTx=yes", "APP enableTx=yes", "PFC enabled=3,4 willing=no"):
                attempt(*tool, "-T", "-i", device, "-V", *words.split())
            attempt(*tool, "-T", "-i", device, "-V", "APP", "app=3,3,4791")
            text = listener.communicate(timeout=110)[0]
        finally:
            for process in (listener, agent):
                process.kill()
                process.wait()
    assert "pfc=Pfc(enabled=frozenset({3, 4}), willing=False" in text
    assert "App(priority=3, selector=3, protocol=4791)" in text
    assert "ets=Ets(" in text
