"""Brings NICs back from a pod to the host and makes them what they were. A door: it does as it is told."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence

from cni.steps import HostNic, RestoreLink
from host import addr, link
from host.errors import HostError
from host.netlink import Route
from host.netns import own

__all__ = ["Homecoming", "find"]

_RETURN_WAIT = (
    2.0  # seconds for the kernel to hand a NIC of a dying namespace back (cleanup_net works in the background)
)
_POLL = 0.05


class Homecoming:
    """``host`` and ``pod`` are sockets in the two namespaces; ``pod`` is None when the pod's is gone."""

    def __init__(self, host: Route, pod: Route | None) -> None:
        self.host = host
        self.pod = pod

    def restore(self, steps: Sequence[RestoreLink]) -> None:
        """Every NIC back to the host; goes on past one that refuses and raises the first refusal.

        First all come home, then all get their names: one may have come back under another's.
        """
        deadline = time.monotonic() + _RETURN_WAIT
        home: list[tuple[link.NetDev, HostNic]] = []
        errors: list[HostError] = []
        for step in steps:
            try:
                device = self._come_home(step, deadline)
            except HostError as error:
                errors.append(error)
                continue
            if device is not None:
                home.append((device, step.nic))
        for device, nic in self._out_of_the_way(home):
            try:
                self._put_right(device, nic)
            except HostError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _come_home(self, step: RestoreLink, deadline: float) -> link.NetDev | None:
        """The NIC on the host; None when there is nothing to restore: a virtual one died, hardware was unplugged."""
        if self.pod is not None and not self._stayed_home(step.nic):
            device = find(step.nic, link.devices(self.pod), step.rail)
            if device is not None:
                self._bring_home(self.pod, device, step.nic)
        return self._await_on_host(step, deadline)

    def _out_of_the_way(self, home: Sequence[tuple[link.NetDev, HostNic]]) -> list[tuple[link.NetDev, HostNic]]:
        """The same, with names that the pod gave taken away, and what sits on another's name renamed for the moment."""
        names = {nic.name for _, nic in home}
        moved = []
        for device, nic in home:
            surplus = [each for each in device.altnames if each not in nic.altnames]
            if surplus:
                self.host.each([link.remove_altnames(device.ifindex, surplus)])
            if device.name != nic.name and device.name in names:
                aside = f"rail-{device.ifindex}"
                refused = self.host.each([link.update(device.ifindex, up=False), link.rename(device.ifindex, aside)])
                device = device if any(refused) else device._replace(name=aside)
            moved.append((device, nic))
        return moved

    def _stayed_home(self, nic: HostNic) -> bool:
        """Whether the NIC never left: then nothing in the pod is it, however alike."""
        identity = (nic.ifindex, nic.name, nic.kind, nic.pci)
        return any(
            identity == (each.ifindex, each.name, each.kind, each.pci) and nic.mac in ("", each.mac)
            for each in link.devices(self.host)
        )

    def _bring_home(self, pod: Route, device: link.NetDev, nic: HostNic) -> None:
        host = own()
        surplus = [each for each in device.altnames if each not in nic.altnames]
        try:
            if surplus:  # a name that the host has would keep the NIC here
                pod.each([link.remove_altnames(device.ifindex, surplus, target=nic.name)])
            error = pod.each([link.move(device.ifindex, nic.name, host.fd, target=f"{nic} to the host")])[0]
            if error is not None and error.errno == errno.EEXIST:
                # Somebody took its name. It comes home all the same; the name is reported when it is put right. The
                # kernel moves first and renames then: unless the pod's name is taken too, it has already left.
                error = pod.each([link.move(device.ifindex, f"rail-{device.ifindex}", host.fd)])[0]
                error = None if error is not None and error.errno == errno.ENODEV else error
            if error is not None:
                raise error
        finally:
            host.close()

    def _await_on_host(self, step: RestoreLink, deadline: float) -> link.NetDev | None:
        while True:
            device = find(step.nic, link.devices(self.host), step.rail)
            if device is not None or not step.nic.pci:
                return device
            if not os.path.exists(f"/sys/bus/pci/devices/{step.nic.pci}"):
                return None
            if time.monotonic() >= deadline:
                raise HostError("return", str(step.nic), errno.ENODEV, "its driver shows no network device on the host")
            time.sleep(_POLL)

    def _put_right(self, device: link.NetDev, nic: HostNic) -> None:
        """Name, MAC, MTU, alternative names, settings, state and addresses as they were."""
        index, name = device.ifindex, nic.name
        if device.name != name:
            self.host.run([link.update(index, up=False, target=name), link.rename(index, name)])
        requests = []
        if (device.mtu, device.mac) != (nic.mtu, nic.mac or device.mac):
            requests.append(link.update(index, up=False, mtu=nic.mtu, mac=nic.mac or None, target=name))
        absent = [each for each in nic.altnames if each not in device.altnames]
        requests += [link.add_altnames(index, absent, target=name)] if absent else []
        requests.append(link.update(index, up=nic.up, conf4=nic.conf4, target=name))
        here = {each.prefix for each in addr.addresses(self.host) if each.ifindex == index}
        requests += [addr.add(index, prefix, target=name) for prefix in nic.addresses if prefix not in here]
        self.host.run(requests)


def find(nic: HostNic, devices: Sequence[link.NetDev], rail: str) -> link.NetDev | None:
    """The device that is ``nic``, whatever it is called now.

    By PCI address and, where one function has several ports, the burnt-in MAC. A device without a PCI address (a veth
    end standing in for a NIC) is known by kind, MAC and index, which the kernel keeps across namespaces when it can.
    """
    if nic.pci:
        ports = [device for device in devices if device.pci == nic.pci]
        exact = [device for device in ports if device.permanent_mac == nic.permanent_mac]
        return next(iter(exact or (ports if len(ports) == 1 else [])), None)
    kin = [device for device in devices if device.kind == nic.kind]
    ranked = sorted(kin, key=lambda device: _likeness(device, nic, rail), reverse=True)
    return ranked[0] if ranked and _likeness(ranked[0], nic, rail) >= 2 else None


def _likeness(device: link.NetDev, nic: HostNic, rail: str) -> int:
    return (
        2 * (device.mac == nic.mac)
        + 2 * (device.ifindex == nic.ifindex and device.name in (nic.name, rail))
        + (device.ifindex == nic.ifindex)
        + (device.name in (nic.name, rail))
    )
