"""SIGKILL inside ADD and DEL with RDMA devices and a VF whose driver is bound again: one DEL puts all right."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from cni import apply, binding
from cni.skel import dispatch
from tests.lab.guest.kit import PCI, ROCE, links, netdev, node_guid, sh, virtual_functions, wait_for_netdev
from tests.lab.guest.pods import added, conf, deleted, environment, exclusive_mode, pod, rdma_devices, up

PF = next(seat.address for seat in ROCE[1:] if seat.like == "mlx5")
POINTS: list[tuple[type | ModuleType, str]] = [
    (apply.Kernel, "run"),  # before each batch of steps
    (binding, "_await_netdev"),  # the driver is bound, nothing else is done
    (binding, "_name"),  # the devices are there, not under their names
]


def dies(verb: str, wanted: dict[str, Any], space: str, point: tuple[type | ModuleType, str], at: int) -> bool:
    """A call in a child that kills itself when it is at ``point`` for the ``at``-th time; whether it came to that."""
    child = os.fork()
    if not child:
        owner, name = point
        real = getattr(owner, name)
        calls = iter(range(1, 1000))

        def dying(*args: Any, **more: Any) -> Any:
            if next(calls) == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **more)

        with patch.object(owner, name, dying):
            code, _ = dispatch(environment(verb, space, "c1"), json.dumps(wanted))
        os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"{verb} failed by itself"
    return os.WIFSIGNALED(status)


@pytest.fixture
def wanted() -> Iterator[dict[str, Any]]:
    """A NIC with its RDMA device, and a VF that needs its driver bound again for a node GUID."""
    up(netdev(PF))
    (function,) = virtual_functions(PF, 1)
    wait_for_netdev(function)
    with exclusive_mode():
        yield conf(
            {"pci": ROCE[0].address, "mode": "host-device", "rdmaName": "mlx5_rail0"},
            {"pf": PF, "mode": "sriov", "vlan": 7, "trust": "on", "mac": "02:aa:00:00:00:31"},
        )
    sh("ip", "link", "set", netdev(PF), "down")
    (PCI / PF / "sriov_numvfs").write_text("0")


def whole_host() -> tuple[object, ...]:
    """What an attachment may change of the host."""
    function = (PCI / PF / "virtfn0").resolve()
    driver = (function / "driver").resolve().name
    all_links = links()
    own = all_links[netdev(function.name)]
    return (
        rdma_devices(),
        set(all_links),
        all_links[netdev(PF)]["vfinfo_list"],
        driver,
        own["ifname"],
        own["address"],
        own["mtu"],
        node_guid(function.name),
    )


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point[1])
def test_one_del_puts_right_what_was_killed_anywhere(
    wanted: dict[str, Any], point: tuple[type | ModuleType, str], verb: str
) -> None:
    at, came_to_it = 0, True
    before = whole_host()
    with pod() as space:
        while came_to_it:
            at += 1
            if verb == "DEL":
                added(wanted, space)
            came_to_it = dies(verb, wanted, space, point, at)
            deleted(wanted, space)
            assert whole_host() == before, f"{verb} killed at {point[1]} {at}"
    assert at > (6 if point[1] == "run" else 1)


def test_the_next_add_begins_where_a_killed_one_left_a_vf_without_its_driver(wanted: dict[str, Any]) -> None:
    before = whole_host()
    with pod() as space:
        assert dies("ADD", wanted, space, (binding, "bind_vf"), 1)
        assert not (PCI / PF / "virtfn0" / "driver").exists()
        added(wanted, space)
        assert len(rdma_devices(space)) == 2
        deleted(wanted, space)
    assert whole_host() == before
