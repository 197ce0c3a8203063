"""SIGKILL at any instant of a real process: within a system call, within SQLite, before the first line ran."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Sequence

import pytest

from tests.netns.support import EMPTY, call, deleted, difference, rows
from tests.world import CNI_PLUGINS, PLUGIN, ROOT, Host, Ns, World

TRIES = 16
LONGEST = 0.15  # seconds: a little more than a whole call takes


def start(host: Host, verb: str, conf: str, pod: Ns, program: Sequence[str] = PLUGIN) -> subprocess.Popen[bytes]:
    """The plugin as a runtime starts it."""
    env = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": "c1",
        "CNI_NETNS": pod.path,
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(CNI_PLUGINS),
        "PATH": os.environ["PATH"],
    }
    process = subprocess.Popen(
        ["nsenter", f"--net={host.ns.path}", "--", *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=env,
        cwd=ROOT,
    )
    assert process.stdin is not None
    process.stdin.write(conf.encode())
    process.stdin.close()
    return process


@pytest.mark.parametrize("mode", ["macvlan", "host-device"])
@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_a_process_killed_at_any_instant_is_put_right_by_del(world: World, host: Host, mode: str, verb: str) -> None:
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    conf = host.conf(mode=mode)
    chance = random.Random(f"{mode} {verb}")
    for number in range(TRIES):
        if verb == "DEL":
            assert call(host, "ADD", conf, netns=pod).code == 0
        process = start(host, verb, json.dumps(conf), pod)
        time.sleep(chance.uniform(0, LONGEST))
        process.kill()
        process.wait(timeout=10)
        deleted(host, conf, netns=pod)
        assert not difference(before[0], host.ns.snapshot()), number
        assert not difference(before[1], pod.snapshot()), number
        assert rows(host) == EMPTY
