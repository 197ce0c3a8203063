"""Takes RDMA devices into a pod and back. A door: it does as it is told.

What the kernel demands (drivers/infiniband/core/device.c, rdma_dev_change_netns): the socket *and* the sending thread
in the namespace that has the device; a move and a rename are two requests; a device keeps its index through both.
A device whose driver was bound again has another index, and is found by its PCI address.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from typing import TypeVar

from cni.steps import HostRdma, MoveRdma, RestoreRdma
from host import netns, nldev, rdma
from host.errors import HostError

__all__ = ["RdmaMover"]

_Step = TypeVar("_Step", MoveRdma, RestoreRdma)

_RETURN_WAIT = 2.0  # seconds for the kernel to bring the device of a dying namespace home
_POLL = 0.05


class RdmaMover:
    """Moves between the caller's namespace and ``pod`` (None: it is gone)."""

    def __init__(self, pod: netns.Netns | None) -> None:
        self._pod = pod

    def enter(self, steps: Sequence[MoveRdma]) -> None:
        """Move devices into the pod, then give those their names that get another."""
        if not steps or self._pod is None:
            return
        with nldev.Rdma() as host:
            here = nldev.devices(host)
            moving = [(step, _must_find(step.device, here)) for step in _one_each(steps)]
            host.run([nldev.move(each.dev_index, self._pod.fd, target=each.name) for _, each in moving])
        renames = [nldev.rename(each.dev_index, step.name) for step, each in moving if step.name != each.name]
        if renames:
            with netns.inside(self._pod), nldev.Rdma() as pod:
                pod.run(renames)

    def leave(self, steps: Sequence[RestoreRdma]) -> None:
        """Bring devices home under their names. One that is nowhere was unplugged: nothing to restore."""
        if not steps:
            return
        if self._pod is not None:
            self._bring_home([step.device for step in _one_each(steps)])
        deadline = time.monotonic() + _RETURN_WAIT
        with nldev.Rdma() as host:
            for step in steps:
                found = _find(step.device, nldev.devices(host))
                while found is None and time.monotonic() < deadline:
                    time.sleep(_POLL)
                    found = _find(step.device, nldev.devices(host))
                if found is not None and found.name != step.device.name:
                    host.run([nldev.rename(found.dev_index, step.device.name)])

    def _bring_home(self, devices: Sequence[HostRdma]) -> None:
        assert self._pod is not None  # noqa: S101 - the caller has checked
        home = netns.own()
        try:
            with netns.inside(self._pod), nldev.Rdma() as pod:
                found = self._in_pod(devices, nldev.devices(pod))
                moves = [nldev.move(each.dev_index, home.fd, target=device.name) for device, each in found]
                errors = [error for error in pod.each(moves) if error is not None]
        finally:
            os.close(home.fd)
        if errors:
            raise errors[0]

    def _in_pod(self, devices: Sequence[HostRdma], here: Sequence[nldev.Device]) -> list[tuple[HostRdma, nldev.Device]]:
        """Those of ``devices`` that the pod has (``here``)."""
        assert self._pod is not None  # noqa: S101 - the caller has checked
        found = [(device, _by_index(device, here)) for device in devices]
        if any(each is None and device.pci for device, each in found):
            with rdma.sysfs_of(self._pod) as sysfs:  # the host's mount does not show the pod's devices
                found = [(device, _find(device, here, sysfs)) for device in devices]
        return [(device, each) for device, each in found if each is not None]


def _one_each(steps: Sequence[_Step]) -> list[_Step]:
    """Without further rails of one device, which has a port for each of them."""
    return list({step.device.dev_index: step for step in reversed(steps)}.values())[::-1]


def _find(device: HostRdma, devices: Sequence[nldev.Device], sysfs: str = "/sys") -> nldev.Device | None:
    """The one of ``devices`` that is ``device``, whatever it is called now; ``sysfs``: a mount of their namespace."""
    same = _by_index(device, devices)
    if same is not None or not device.pci:
        return same
    names = rdma.beside(device.pci, sysfs=sysfs)
    return next((each for each in devices if each.name in names), None)


def _must_find(device: HostRdma, devices: Sequence[nldev.Device]) -> nldev.Device:
    found = _find(device, devices)
    if found is None:
        raise HostError("move RDMA device", device.name, errno.ENODEV, "it vanished")
    return found


def _by_index(device: HostRdma, devices: Sequence[nldev.Device]) -> nldev.Device | None:
    return next((each for each in devices if each.dev_index == device.dev_index), None)
