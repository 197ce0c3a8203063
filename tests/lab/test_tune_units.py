"""roceway-tune's units, started by a real systemd in the lab: order, sandbox, restarts, and who is told what."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.vm import boot, run
from tests.lab.vm.cache import CHECKOUT, UnavailableError

UNITS = Path(__file__).parent / "units"
LIMIT = 600.0
FABRIC = {
    "apiVersion": "roceway/v1",
    "kind": "Fabric",
    "metadata": {"name": "lab"},
    "rails": [{"name": f"rail{n}", "subnet": f"10.2{n}.0.0/16", "nodeBlock": 27} for n in (0, 1)],
    "qos": {"nics": {"buffers": "auto", "dcqcn": {"rp_ai_rate": 10}, "sysctls": {"rp_filter": 2}}},
    "nodeTypes": {
        "lab": {"speed": "400G", "mode": "host-device", "cable": "3m", "rails": {"rail0": "sim0", "rail1": "sim4"}}
    },
    "nodes": [{"match": "lab", "type": "lab"}],
}

Answer = Callable[[str], str]
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(not Path("/lib/systemd/systemd").exists(), reason="no systemd here"),
    pytest.mark.skipif(CHECKOUT.is_relative_to("/tmp") or CHECKOUT.is_relative_to("/var/tmp"), reason="hidden there"),
]


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """What the machine answered, by the name of the file."""
    folder = tmp_path_factory.mktemp("units")
    try:
        described = run.prepare(folder, "true")
    except UnavailableError as error:
        pytest.skip(f"the lab cannot be had here: {error}")
    for name in ("prepare", "questions"):
        shutil.copy(UNITS / f"{name}.sh", folder / name)
    (folder / "checkout").write_text(str(CHECKOUT))
    (folder / "fabric.yaml").write_text(json.dumps(FABRIC))
    init = UNITS / "init.sh"
    ended = boot.guest(described.machine, described.root, folder, limit=LIMIT, init=init)
    assert ended, (folder / "console.log").read_text(errors="replace")[-4000:]
    return lambda name: (folder / name).read_text(errors="replace")


def state(text: str) -> dict[str, str]:
    """``systemctl show``."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_nics_are_tuned_when_the_kubelet_starts(answer: Answer) -> None:
    assert "3:on" in answer("at-kubelet")
    assert answer("at-kubelet").splitlines()[-1] == "active"
    found = state(answer("applied"))
    assert (found["ActiveState"], found["Result"], found["ExecMainStatus"]) == ("active", "success", "0")
    assert not [finding for nic in json.loads(answer("verify.json"))["nics"] for finding in nic["findings"]]


def test_a_nic_whose_driver_loads_late_is_waited_for(answer: Answer) -> None:
    assert "waiting up to 30 s for sim4" in answer("applied.log")
    assert "done: sim4: PFC off" in answer("applied.log")


def test_the_watch_runs_in_its_sandbox_and_puts_drift_right(answer: Answer) -> None:
    assert state(answer("watching"))["ActiveState"] == "active"
    assert ".service" not in answer("watching"), "a unit failed"
    assert "3:on" in answer("mended")
    assert "4:off" in answer("mended")


def test_a_restart_leaves_a_rail_alone_whose_namespace_was_made_later(answer: Answer) -> None:
    found = state(answer("restarted"))
    assert (found["ActiveState"], found["ExecMainStatus"]) == ("active", "1")
    assert "in use by a pod (macvlan mv0 in /run/netns/pod)" in answer("restarted.log")


def test_a_killed_watch_comes_back_and_a_stopped_one_has_not_failed(answer: Answer) -> None:
    assert state(answer("killed"))["ActiveState"] == "active"
    assert state(answer("killed"))["NRestarts"] == "1"
    found = state(answer("stopped"))
    assert (found["ActiveState"], found["Result"]) == ("inactive", "success")


def test_a_mistake_in_fabric_yaml_fails_the_unit_with_every_finding(answer: Answer) -> None:
    found = state(answer("mistaken"))
    assert (found["ActiveState"], found["ExecMainStatus"]) == ("failed", "2")
    assert "fabric.yaml: 5 mistakes" in answer("mistaken.log")
