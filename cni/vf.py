"""Sets what a PF says of one of its VFs, and puts it back. A door: it does as it is told, and reads back."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from cni.steps import RestoreVf, SetVf
from host import link, sriov
from host.errors import HostError
from host.netlink import Route
from host.sriov import VfState

__all__ = ["restore_vf", "set_vf"]


def set_vf(step: SetVf, host: Route) -> None:
    """Make the VF as wanted; HostError when the driver refuses, or accepts and does something else."""
    pf = _physical(step.pf, link.devices(host))
    if pf is None:
        raise HostError("find", f"PF {step.pf}", errno.ENODEV, "it has no network device on this host")
    target = f"{pf.name} vf {step.vf}"
    wanted = VfState(*step.wanted)
    before = _state(host, pf, step.vf)
    if before is None:
        raise HostError("find", target, errno.ENODEV, "the VF vanished")
    host.run(sriov.changes(pf.ifindex, before, wanted, target=target))
    after = _state(host, pf, step.vf)
    wrong = _differences(wanted, after) if after else ["the VF vanished"]
    if wrong:
        raise HostError("set", target, 0, "; ".join(wrong))


def restore_vf(step: RestoreVf, host: Route) -> None:
    """Put the VF back as it was, then its own MAC address, which the PF's would have kept it from."""
    devices = link.devices(host)
    pf = _physical(step.pf, devices)
    if pf is None:
        return  # the whole NIC is gone: nothing to restore
    now = _state(host, pf, step.vf)
    if now is None:
        return  # the VF vanished (sriov_numvfs was written): nothing to restore
    host.run(sriov.changes(pf.ifindex, now, VfState(*step.seen), target=f"{pf.name} vf {step.vf}"))
    own = next((each for each in devices if each.pci == step.pci), None)
    if step.mac and own is not None and own.mac != step.mac:
        _restore_mac(own, step.mac, host)


def _restore_mac(own: link.NetDev, mac: str, host: Route) -> None:
    """Give a VF its MAC address back. A driver may refuse until a reset has made it ask its PF again."""
    setting = link.update(own.ifindex, mac=mac, target=own.name)
    if host.each([setting])[0] is None:
        return
    host.run([link.update(own.ifindex, up=state, target=own.name) for state in (not own.up, own.up)])
    host.run([setting])


def _physical(address: str, devices: Sequence[link.NetDev]) -> link.NetDev | None:
    return next((device for device in devices if device.pci == address), None)


def _state(host: Route, pf: link.NetDev, vf: int) -> VfState | None:
    return next((state for state in sriov.vfs(host, pf.ifindex, target=pf.name) if state.vf == vf), None)


def _differences(wanted: VfState, got: VfState) -> list[str]:
    """Wanted and got where they differ; what was not wanted (None, empty) is not compared."""
    return [
        f"{name}: wanted {want}, got {have}"
        for name, want, have in zip(VfState._fields, wanted, got, strict=True)
        if want not in (None, "") and want != have
    ]
