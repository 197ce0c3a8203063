"""Takes RDMA devices into a pod and back. A door: it does as it is told.

What the kernel demands (drivers/infiniband/core/device.c, rdma_dev_change_netns): the socket *and* the sending thread
in the namespace that has the device; a move and a rename are two requests; a device keeps its index through both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from cni.steps import HostRdma, MoveRdma, RestoreRdma
from host import netns, nldev

__all__ = ["RdmaMover"]

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
            host.run([nldev.move(step.device.dev_index, self._pod.fd, target=step.device.name) for step in steps])
        renames = [nldev.rename(step.device.dev_index, step.name) for step in steps if step.name != step.device.name]
        if renames:
            with netns.inside(self._pod), nldev.Rdma() as pod:
                pod.run(renames)

    def leave(self, steps: Sequence[RestoreRdma]) -> None:
        """Bring devices home under their names. One that is nowhere was unplugged: nothing to restore."""
        if not steps:
            return
        if self._pod is not None:
            self._bring_home([step.device for step in steps])
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
                here = nldev.devices(pod)
                moves = [
                    nldev.move(found.dev_index, home.fd, target=device.name)
                    for device in devices
                    if (found := _find(device, here)) is not None
                ]
                errors = [error for error in pod.each(moves) if error is not None]
        finally:
            os.close(home.fd)
        if errors:
            raise errors[0]


def _find(device: HostRdma, devices: Iterable[nldev.Device]) -> nldev.Device | None:
    """The device that is ``device``, whatever it is called now."""
    return next((each for each in devices if each.dev_index == device.dev_index), None)
