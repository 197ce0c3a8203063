"""A host without Python: the installed plugin attaches and detaches in a root that holds it and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cni import install
from tests.netns.support import difference
from tests.world import Answer, Host, Ns, World

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: .ci/setup installs one")

_MOUNTS = """
set -e
mount --make-rprivate /
mount -t proc proc {root}/proc
mount --rbind /sys {root}/sys
mount --rbind /run/netns {root}/run/netns
exec nsenter --net={netns} chroot {root} /opt/cni/bin/roceway-cni
"""


class Bare:
    """A root folder: the plugin, mount points, a state folder."""

    def __init__(self, root: Path, host: Host) -> None:
        self.root = root
        self.host = host
        for name in ("proc", "sys", "run/netns", "opt/cni/bin", "var/lib", "tmp"):
            (root / name).mkdir(parents=True)
        install.apply(install.plan_plugin(root / "opt/cni/bin", install.compiled()))

    def call(self, verb: str, conf: dict[str, Any], pod: Ns) -> Answer:
        """As a runtime on that host would call it, in mounts of its own."""
        env = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": "c1",
            "CNI_NETNS": pod.path,
            "CNI_IFNAME": "eth0",
            "CNI_PATH": "/opt/cni/bin",
            "PATH": os.environ["PATH"],
        }
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", _MOUNTS.format(root=self.root, netns=self.host.ns.path)],
            input=json.dumps(conf),
            capture_output=True,
            text=True,
            env=env,
            timeout=60,
        )
        return Answer(done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr)


@pytest.fixture
def bare(tmp_path: Path, host: Host) -> Bare:
    """Removed with the test; its mounts live in the calls' own namespaces."""
    return Bare(tmp_path / "root", host)


def test_the_root_holds_no_python_but_the_plugins_own(bare: Bare) -> None:
    outside = [path for path in bare.root.rglob("*") if "roceway-cni.d" not in path.parts and path.is_file()]
    assert [path.name for path in outside] == ["roceway-cni"]


@pytest.mark.parametrize("mode", ["macvlan", "host-device"])
def test_add_check_and_del_without_any_python_on_the_host(world: World, host: Host, bare: Bare, mode: str) -> None:
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    conf = host.conf(mode=mode, stateDir="/var/lib/roceway")
    conf["rails"][1]["ipam"] = {"ranges": [{"subnet": "fd00:201::/64"}]}  # settings under /proc/sys
    answer = bare.call("ADD", conf, pod)
    assert answer.code == 0, answer
    names = [each["name"] for each in answer.body["interfaces"]]
    assert names == ["rail0", "rail1"]
    assert "10.200.0.2/24" in pod.snapshot()
    assert bare.call("CHECK", {**conf, "prevResult": answer.body}, pod) == Answer(0, None, "")
    assert bare.call("STATUS", conf, pod) == Answer(0, None, "")
    assert bare.call("DEL", conf, pod) == Answer(0, None, "")
    assert not difference(before[0], host.ns.snapshot())
    assert not difference(before[1], pod.snapshot())


def test_a_mistake_gets_its_proper_error(world: World, host: Host, bare: Bare) -> None:
    answer = bare.call("ADD", host.conf(stateDir="/var/lib/roceway", nonsense=1), world.ns("pod"))
    assert answer.error == 2, answer
