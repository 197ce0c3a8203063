"""Takes a VF from its driver and gives it back. A door: it does as it is told.

Binding anew gives the network device another index and name, and the RDMA device another index and perhaps another
name: the RDMA device gets its own again here, the network device when it is moved or put right.
"""

from __future__ import annotations

import errno
import os
import time

from cni.steps import NO_GUIDS, BindVf, ReleaseVf, RestoreDriver, UnbindVf
from host import link, nldev, pci, rdma
from host.errors import HostError
from host.netlink import Route

__all__ = ["bind_vf", "release_vf", "restore_driver", "unbind_vf"]

_BIND_WAIT = 15.0
"""Seconds for a driver to show its devices. ConnectX firmware may take some for a VF; CRI-O gives a DEL one minute."""
_POLL = 0.05


def unbind_vf(step: UnbindVf | ReleaseVf) -> None:
    """Take the VF from its driver, if that has it; one that vanished or that another driver has is nobody's here."""
    if _driver(step.pci) == step.driver:
        pci.unbind(step.pci, step.driver)


def bind_vf(step: BindVf, host: Route) -> None:
    """Bind the VF and wait for its devices. HostError when they do not come, or come without a node GUID."""
    pci.bind(step.pci, step.driver)
    _await_netdev(step, host)
    _await_rdma(step)
    _name(step)
    guid = rdma.node_guid(step.rdma)
    if guid in NO_GUIDS:
        raise HostError(
            "read back", f"the node GUID of {step.rdma} (VF {step.pci})", 0, f"wanted one of its MAC, got {guid}"
        )


def release_vf(step: ReleaseVf) -> None:
    """Unbind the VF unless its RDMA device is here without a node GUID: then it was never bound again."""
    here = rdma.beside(step.pci)
    if not here or any(rdma.node_guid(name) not in NO_GUIDS for name in here):
        unbind_vf(step)


def restore_driver(step: RestoreDriver, host: Route) -> None:
    """Bind the VF if it has no driver; its RDMA device gets its name. A VF that vanished is nothing to restore."""
    driver = _driver(step.pci)
    if driver is None:
        return
    if not driver:
        pci.bind(step.pci, step.driver)
        _await_netdev(step, host)
        _await_rdma(step)
    if rdma.beside(step.pci):  # else it is in the pod
        _name(step)


def _driver(address: str) -> str | None:
    """The driver that has the function; empty for none, None where there is no such function."""
    try:
        return pci.read(address).driver
    except HostError:
        return None


def _await_netdev(step: BindVf | RestoreDriver, host: Route) -> None:
    deadline = time.monotonic() + _BIND_WAIT
    while not any(device.pci == step.pci for device in link.devices(host)):
        _in_time(deadline, step, "network device")


def _await_rdma(step: BindVf | RestoreDriver) -> None:
    deadline = time.monotonic() + _BIND_WAIT
    while not rdma.beside(step.pci):
        _in_time(deadline, step, "RDMA device")


def _in_time(deadline: float, step: BindVf | RestoreDriver, what: str) -> None:
    if not os.path.exists(f"/sys/bus/pci/devices/{step.pci}"):
        raise HostError("find", f"VF {step.pci}", errno.ENODEV, f"it vanished while {step.driver} was bound to it")
    if time.monotonic() >= deadline:
        told = f"{step.driver} was bound {_BIND_WAIT:.0f} s ago and shows no {what}; see dmesg"
        raise HostError("await", f"the {what} of VF {step.pci}", errno.ETIMEDOUT, told)
    time.sleep(_POLL)


def _name(step: BindVf | RestoreDriver) -> None:
    """Give the RDMA device the name that it had; udev may have been quicker."""
    names = rdma.beside(step.pci)
    if step.rdma in names:
        return
    with nldev.Rdma() as connection:
        index = next((each.dev_index for each in nldev.devices(connection) if each.name in names), None)
        if index is not None:
            connection.run([nldev.rename(index, step.rdma)])
