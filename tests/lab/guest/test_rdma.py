"""RDMA devices of the simulated NICs: what the kernel's RDMA core makes of them, judged by ``rdma`` and sysfs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guest.kit import HOST, attempt, knob, names, namespace, read_json, sh, wait_until

CLASS = Path("/sys/class/infiniband")


def devices(ns: str = "") -> set[str]:
    """RDMA devices that a namespace sees."""
    words = ["ip", "netns", "exec", ns] if ns else []
    return {device["ifname"] for device in read_json(*words, "rdma", "-j", "dev")}


def port(device: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = read_json("rdma", "-j", "link", "show", f"{device}/1")
    return found[0]


def gids(device: str) -> dict[str, tuple[str, str]]:
    """GID -> (type, netdev), for those that are set."""
    attributes = CLASS / device / "ports/1/gid_attrs"
    table = {}
    for path in (CLASS / device / "ports/1/gids").iterdir():
        gid = path.read_text().strip()
        if gid.strip("0:"):
            kind = (attributes / "types" / path.name).read_text().strip()
            table[f"{gid} {kind}"] = (kind, (attributes / "ndevs" / path.name).read_text().strip())
    return table


@pytest.fixture
def up() -> Iterator[str]:
    """sim0 is up."""
    sh("ip", "link", "set", "sim0", "up")
    yield "sim0"
    sh("ip", "addr", "flush", "dev", "sim0")
    sh("ip", "link", "set", "sim0", "down")


def test_one_device_per_nic_with_its_character_device() -> None:
    assert {f"simib{number}" for number in range(8)} <= devices()
    for number in range(8):
        assert port(f"simib{number}")["netdev"] == f"sim{number}"
        assert len(list((CLASS / f"simib{number}" / "device" / "infiniband_verbs").iterdir())) == 1
    assert Path("/dev/infiniband/uverbs0").is_char_device()


def test_port_state_follows_the_link(up: str) -> None:
    wait_until(lambda: port("simib0")["state"] == "ACTIVE")
    assert (CLASS / "simib0/ports/1/link_layer").read_text() == "Ethernet\n"
    assert (CLASS / "simib0/ports/1/rate").read_text() == "400 Gb/sec (4X NDR)\n"
    knob(up, "carrier", 0)
    wait_until(lambda: port("simib0")["state"] == "DOWN")
    knob(up, "carrier", 1)
    wait_until(lambda: port("simib0")["state"] == "ACTIVE")


def test_gids_follow_addresses(up: str) -> None:
    wanted = "0000:0000:0000:0000:0000:ffff:0a0a:0001 RoCE v2"
    sh("ip", "addr", "add", "10.10.0.1/24", "dev", up)
    wait_until(lambda: gids("simib0").get(wanted) == ("RoCE v2", up))
    assert any(kind == "IB/RoCE v1" for kind, _ in gids("simib0").values())
    sh("ip", "addr", "del", "10.10.0.1/24", "dev", up)
    wait_until(lambda: wanted not in gids("simib0"))


def test_hw_counters_are_readable_and_settable() -> None:
    folder = CLASS / "simib0/ports/1/hw_counters"
    assert {"np_cnp_sent", "rp_cnp_handled", "out_of_sequence"} <= {path.name for path in folder.iterdir()}
    knob("sim0", "counters", "rp_cnp_handled 4711")
    assert (folder / "rp_cnp_handled").read_text() == "4711\n"
    (shown,) = read_json("rdma", "-j", "statistic", "show", "link", "simib0/1")
    assert shown["rp_cnp_handled"] == 4711


def test_shared_mode_moves_nothing() -> None:
    assert sh("rdma", "system").split()[:2] == ["netns", "shared"]
    with namespace() as pod:
        assert attempt("rdma", "dev", "set", "simib0", "netns", pod).returncode != 0
        sh("ip", "link", "set", "sim0", "netns", pod)
        assert "simib0" in devices(pod) & devices()
        sh("ip", "-n", pod, "link", "set", "sim0", "netns", HOST)


@pytest.mark.parametrize("kind", ["simulated", "rxe"])
def test_rdma_cm_has_its_settings_in_configfs(kind: str) -> None:
    sh("modprobe", "rdma_ucm")
    configfs = Path("/sys/kernel/config")
    if not (configfs / "rdma_cm").exists():
        sh("mount", "-t", "configfs", "configfs", str(configfs))
    if kind == "rxe":
        sh("modprobe", "rdma_rxe")
        sh("rdma", "link", "add", "rxe9", "type", "rxe", "netdev", "sim1")
    folder = configfs / "rdma_cm" / {"rxe": "rxe9", "simulated": "simib0"}[kind]
    folder.mkdir()
    tos = folder / "ports/1/default_roce_tos"
    tos.write_text("106")
    assert tos.read_text().strip() == "106"
    assert (folder / "ports/1/default_roce_mode").read_text().strip() == "RoCE v2"
    folder.rmdir()
    if kind == "rxe":
        sh("rdma", "link", "delete", "rxe9")


@pytest.fixture
def exclusive() -> Iterator[None]:
    """Exclusive mode: the kernel takes it only while there is one network namespace."""
    wait_until(lambda: attempt("rdma", "system", "set", "netns", "exclusive").returncode == 0)
    yield
    wait_until(lambda: attempt("rdma", "system", "set", "netns", "shared").returncode == 0)


def test_exclusive_mode_moves_renames_and_returns(exclusive: None) -> None:
    with namespace() as pod:
        assert devices(pod) == set()
        sh("ip", "link", "set", "sim0", "netns", pod, "name", "rail0")
        sh("rdma", "dev", "set", "simib0", "netns", pod)
        assert "simib0" not in devices()
        assert devices(pod) == {"simib0"}
        inside = ["ip", "netns", "exec", pod, "rdma"]
        sh(*inside, "dev", "set", "simib0", "name", "rdma_rail0")
        sh("ip", "-n", pod, "link", "set", "rail0", "up")
        sh("ip", "-n", pod, "addr", "add", "10.10.0.1/24", "dev", "rail0")
        wait_until(lambda: read_json(*inside, "-j", "link")[0]["state"] == "ACTIVE")
        assert read_json(*inside, "-j", "link")[0]["netdev"] == "rail0"
        sh(*inside, "dev", "set", "rdma_rail0", "name", "simib0")
        sh(*inside, "dev", "set", "simib0", "netns", HOST)
        sh("ip", "-n", pod, "link", "set", "rail0", "netns", HOST, "name", "sim0")
        assert "simib0" in devices()
        assert "sim0" in names()


def test_a_dead_namespace_gives_both_back_under_the_pod_s_names(exclusive: None) -> None:
    with namespace() as pod:
        sh("ip", "link", "set", "sim0", "netns", pod, "name", "rail0")
        sh("rdma", "dev", "set", "simib0", "netns", pod)
        sh("ip", "netns", "exec", pod, "rdma", "dev", "set", "simib0", "name", "rdma_rail0")
        sh("ip", "-n", pod, "link", "set", "rail0", "up")
    wait_until(lambda: "rail0" in names() and "rdma_rail0" in devices())
    assert port("rdma_rail0")["state"] == "DOWN"
    sh("ip", "link", "set", "rail0", "name", "sim0")
    sh("rdma", "dev", "set", "rdma_rail0", "name", "simib0")
    assert port("simib0")["netdev"] == "sim0"
