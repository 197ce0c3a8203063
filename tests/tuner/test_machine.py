"""What is true of a whole host: foreign DCBX agents that really run, defaults of NCCL and UCX, and who holds a NIC."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from host import link, netns, pci
from host.netlink import Route
from tests.world import Ns
from tuner import machine
from tuner.users import has_driver, namespaces, users


def test_a_running_lldpad_is_named(tmp_path: Path) -> None:
    assert machine.facts("/")["agents"] == ()
    program = tmp_path / "lldpad"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    child = subprocess.Popen([str(program), "60"])
    try:
        deadline = time.monotonic() + 5
        while machine.facts("/")["agents"] != ("lldpad",):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NCCL_IB_TC=106\n", 106),
        ("# NCCL_IB_TC=106\n", None),
        ("NCCL_DEBUG=INFO\n NCCL_IB_TC = 104 \n", 104),
        ("", None),
    ],
)
def test_nccl_s_own_default(tmp_path: Path, text: str, value: int | None) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text(text)
    assert machine.facts(str(tmp_path))["nccl_ib_tc"] == value


def test_ucx_s_own_default(tmp_path: Path) -> None:
    (tmp_path / "etc/ucx").mkdir(parents=True)
    (tmp_path / "etc/ucx/ucx.conf").write_text("UCX_TLS=rc\nUCX_IB_TRAFFIC_CLASS=106\n")
    assert machine.facts(str(tmp_path))["ucx_tc"] == 106


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    found = machine.facts(str(tmp_path))
    assert (found["boot_id"], found["agents"], found["sysctls"]) == (None, None, {})


@pytest.fixture
def pair() -> object:
    """A host with a NIC, and a pod."""
    spaces = [Ns(f"rwuse{os.getpid()}{kind}") for kind in "hp"]
    yield spaces
    for space in spaces:
        space.delete()


def held(space: Ns) -> dict[str, str]:
    """Who holds ``nic0``, judged from inside its namespace. A veth has no PCI address; the test lends it one."""
    here = netns.Netns.open(space.path)
    try:
        with netns.inside(here):
            route = Route()
            devices = [dev._replace(pci="0000:99:00.0") if dev.name == "nic0" else dev for dev in link.devices(route)]
            route.close()
            return {address: use.reason for address, use in users("/", ["0000:99:00.0"], devices).items()}
    finally:
        here.close()


def test_a_macvlan_in_another_namespace_is_a_user_and_one_at_home_is_not(pair: list[Ns]) -> None:
    home, pod = pair
    home.ip("link", "add", "nic0", "type", "veth", "peer", "name", "far0")
    assert held(home) == {}
    home.ip("link", "add", "link", "nic0", "name", "own0", "type", "macvlan")
    assert held(home) == {}
    home.ip("link", "add", "link", "nic0", "name", "rail0", "netns", pod.name, "type", "macvlan")
    assert held(home) == {"0000:99:00.0": "upper-elsewhere"}


def test_a_nic_whose_driver_has_it_and_that_is_not_here_is_absent() -> None:
    bound = [address for address in pci.addresses() if has_driver("/", address)]
    if not bound:
        pytest.skip("no PCI function with a driver here")
    assert users("/", bound[:1], [])[bound[0]].reason == "absent"


def test_a_card_without_a_driver_is_nobody_s(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices/0000:99:00.0").mkdir(parents=True)
    assert users(str(tmp_path), ["0000:99:00.0"], []) == {}


def test_every_namespace_is_looked_at_once(pair: list[Ns]) -> None:
    found = list(namespaces())
    paths = [space.path for space in found]
    for space in found:
        space.close()
    assert {space.path for space in pair} <= set(paths)
    assert len(set(paths)) == len(paths)
