"""SIGKILL at every journalled step of an ADD with RDMA devices and a VF: one DEL makes the host what it was."""

from __future__ import annotations

import json
import os
import signal
from typing import Any
from unittest.mock import patch

from cni.skel import dispatch
from cni.store import Store
from tests.lab.guest.kit import PCI, ROCE, link, names, netdev, sh, virtual_functions, wait_for_netdev
from tests.lab.guest.pods import conf, deleted, exclusive_mode, pod, rdma_devices, up

MOST = 40


def killed_add(wanted: dict[str, Any], space: str, at: int) -> bool:
    """An ADD in a child that kills itself at its ``at``-th journal entry; whether it came to that."""
    child = os.fork()
    if not child:
        calls = iter(range(1, MOST))
        real = Store.reach

        def dying(store: Store, attachment: int, steps: int) -> None:
            real(store, attachment, steps)
            if next(calls) == at:
                os.kill(os.getpid(), signal.SIGKILL)

        environment = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": f"/run/netns/{space}"}
        with patch.object(Store, "reach", dying):
            code, _ = dispatch({**environment, "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin"}, json.dumps(wanted))
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_one_del_undoes_an_add_killed_at_any_step() -> None:
    physical = ROCE[1].address
    up(netdev(physical))
    (function,) = virtual_functions(physical, 1)
    wait_for_netdev(function)
    wanted = conf(
        {"pci": ROCE[0].address, "mode": "host-device", "rdmaName": "mlx5_rail0"},
        {"pf": physical, "mode": "sriov", "vlan": 7, "trust": "on"},
    )
    with exclusive_mode():
        before = rdma_devices(), names(), link(netdev(physical))["vfinfo_list"]
        at = 1
        with pod() as space:
            while killed_add(wanted, space, at):
                deleted(wanted, space)
                assert (rdma_devices(), names(), link(netdev(physical))["vfinfo_list"]) == before, f"killed at {at}"
                at += 1
            deleted(wanted, space)
        assert at > 5
        assert (rdma_devices(), names(), link(netdev(physical))["vfinfo_list"]) == before
    sh("ip", "link", "set", netdev(physical), "down")
    (PCI / physical / "sriov_numvfs").write_text("0")
