"""What following GPUs costs a plugin that is started for one pod: nothing heavy, and little for a pod without GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cni.kubelets import write_checkpoint
from tests.cni.netconfs import good
from tests.world import ROOT

HEAVY = {"grpc", "google", "prometheus_client", "pyroute2", "pydantic", "yaml", "kubernetes", "argparse", "asyncio"}


def modules(program: str) -> set[str]:
    """What is in memory after a program."""
    text = f"import sys, json\n{program}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{text}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_following_gpus_imports_nothing_heavy() -> None:
    wanted = "cni.decision cni.kubelet cni.poddevices cni.gpunames cni.inventory cni.policy cni.podrails cni.rundir"
    loaded = modules("\n".join(f"import {name}" for name in (*wanted.split(), "host.nvml", "host.nldev")))
    assert "cni.topoxml" in loaded
    assert not loaded & HEAVY


def test_a_pod_without_gpus_does_not_even_import_what_pairs_them(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, ("uid-0", "main", "rdma/hca", ["7"]))
    conf = json.dumps({**good(), "agent": False, "kubeletDir": str(tmp_path), "stateDir": str(tmp_path / "state")})
    env = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "c",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": "/p",
        "CNI_NETNS": "/none",
        "CNI_ARGS": "K8S_POD_NAMESPACE=ml;K8S_POD_NAME=a;K8S_POD_UID=uid-0",
    }
    loaded = modules(f"from cni.skel import dispatch\ncode, out = dispatch({env!r}, {conf!r})\nassert code == 0, out")
    assert "cni.kubelet" in loaded
    assert not loaded & (HEAVY | {"cni.topology", "cni.inventory", "cni.gpunames", "cni.rundir", "host.pci"})
    assert not (tmp_path / "state").exists()
