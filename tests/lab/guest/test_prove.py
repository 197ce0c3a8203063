"""``roceway-tune prove`` and DCBX frames on NICs that have DCB and count by priority."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.guest.forks import Forked
from tests.lab.guest.kit import ROCE, attempt, namespace, rebind, sh, wait_until
from tuner.__main__ import TUNE
from tuner.cli import run
from tuner.prove_link import CONTROL_PORT
from tuner.wire import listen_lldp

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


def prove(space: str, at: Path, *words: str) -> Forked:
    """``roceway-tune prove …`` in a namespace; its output in two files beside ``at``."""
    return Forked(lambda: run(TUNE, ["prove", *words]), at.with_suffix(".out"), at.with_suffix(".err"), space)


def lldp_with_all(device: str) -> int:
    """Print the first frame that holds PFC and applications."""
    for each in listen_lldp(device, 100):
        if each.pfc and each.apps:
            print(each)
            return 0
    return 1


def test_packets_are_counted_by_the_priority_that_their_dscp_has(tmp_path: Path) -> None:
    with apart(MLX5) as spaces:
        for space, device in zip(spaces, MLX5, strict=True):
            sh(*inside(space, "dcb", "app", "replace", "dev", device, "dscp-prio", "26:3", "48:6"))
        few = ("--dscp", "26,48", "--count", "4", "--rate", "100", "--json")
        listener = prove(spaces[1], tmp_path / "listener", "--device", MLX5[1], "--listen", "--wait", "120")
        try:
            wait_until(lambda: f":{CONTROL_PORT:04X} " in sh(*inside(spaces[1], "cat", "/proc/net/tcp")))
            sender = prove(spaces[0], tmp_path / "sender", "--device", MLX5[0], "--to", "10.9.0.2", *few)
            code = sender.end(120)
        finally:
            listened = listener.end(10)
        out, err = (tmp_path / "sender.out").read_text(), (tmp_path / "sender.err").read_text()
        assert "listening on" in (tmp_path / "listener.err").read_text()
        for space, device in zip(spaces, MLX5, strict=True):
            attempt(*inside(space, "dcb", "app", "flush", "dev", device))
    assert (code, listened) == (0, 0), out + err
    told = json.loads(out)
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
        heard = tmp_path / "heard"
        listener = Forked(lambda: lldp_with_all(other), heard, heard, spaces[1])
        agent = subprocess.Popen(inside(spaces[0], "lldpad", "-f", str(tmp_path / "lldpad.conf")))
        tool = inside(spaces[0], "lldptool")
        try:
            wait_until(lambda: "rxtx" in attempt(*tool, "set-lldp", "-i", device, "adminStatus=rxtx").stdout, 60)
            for words in ("ETS-CFG enableTx=yes", "PFC enableTx=yes", "APP enableTx=yes", "PFC enabled=3,4 willing=no"):
                attempt(*tool, "-T", "-i", device, "-V", *words.split())
            attempt(*tool, "-T", "-i", device, "-V", "APP", "app=3,3,4791")
            listener.join(110)
        finally:
            listener.end(0)
            agent.kill()
            agent.wait()
    for nic in LENIENT:  # the agent set them up: bound again they are as new
        rebind(ROCE[int(nic[3:])].address)
    text = heard.read_text()
    assert "pfc=Pfc(enabled=frozenset({3, 4}), willing=False" in text
    assert "App(priority=3, selector=3, protocol=4791)" in text
    assert "ets=Ets(" in text
