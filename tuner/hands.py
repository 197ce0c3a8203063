"""Does one step on the real host, and reads it back. Decides nothing but how a step is said to the kernel."""

from __future__ import annotations

import errno
import time

from host import dcbnl, ethtool, link, roce, sysctl
from host.errors import HostError
from tuner import buffers, dcb
from tuner.drivers import adapter
from tuner.gather import Doors, gather, place, refresh
from tuner.nic import App, NicQos
from tuner.steps import (
    SetApps,
    SetBuffer,
    SetDcbx,
    SetEts,
    SetKnob,
    SetMaxrate,
    SetMtu,
    SetPause,
    SetPfc,
    SetSysctl,
    SetTrust,
    Step,
)

__all__ = ["LINK_WAIT", "Hands", "Mismatch"]

LINK_WAIT = 30.0
"""Seconds for a link to come back: training at 400G takes up to fifteen."""
_POLL = 0.05


class Mismatch(HostError):  # noqa: N818 - it says a state, as Busy does
    """The kernel said yes, and what it has is not what was asked for."""

    def __init__(self, step: Step, got: str) -> None:
        super().__init__(f"set {step.label} of", step.nic, 0, f"wanted {step.after}, got {got}")


class Hands:
    """The doors, as far as steps need them."""

    def __init__(self, doors: Doors) -> None:
        self.doors = doors
        self._known: dict[str, NicQos] = {}

    def see(self, nic: str) -> NicQos:
        """The NIC as it is now. HostError where it is gone."""
        if nic in self._known:
            return refresh(self.doors, self._known[nic])
        self._known[nic] = gather(self.doors, [nic], in_use=False).nics[0]
        return self._known[nic]

    def make(self, step: Step) -> bool:
        """Do a step and hold it against what the kernel then shows; False where there was nothing to do.

        HostError with the refusal, Mismatch where the value is not there afterwards.
        """
        seen = self.see(step.nic)
        if step.of(seen) == step.wanted:
            return False
        self._do(step, seen)
        if isinstance(step, SetPfc) and seen.link is not None and seen.link.carrier:
            self._await_link(step.nic)
        got = step.of(self.see(step.nic))
        if got != step.wanted:
            raise Mismatch(step, step.say(got))
        return True

    def _do(self, step: Step, seen: NicQos) -> None:
        match step:
            case SetDcbx():
                self.doors.dcb.set_dcbx(step.nic, dcb.dcbx_out(step.wanted))
            case SetMtu():
                self.doors.route.run([link.update(seen.ifindex or 0, mtu=step.wanted, target=step.nic)])
            case SetPause():
                wanted = ethtool.Pause(step.wanted.autoneg, step.wanted.rx, step.wanted.tx)
                self.doors.ethtool.set_pause(step.nic, wanted)
            case SetKnob():
                roce.write(place(seen, self.doors.root), step.name, str(step.wanted))
            case SetSysctl():
                parts = ("net", "ipv4", "conf", step.nic, step.name)
                sysctl.write(str(step.wanted), *parts, root=self.doors.root)
            case SetApps():
                self._map(step, seen)
            case SetBuffer():
                self._lay_out(step, seen)
            case _:
                self.doors.dcb.set(step.nic, step.label, self._packed(step))

    def _packed(self, step: SetEts | SetMaxrate | SetTrust | SetPfc) -> bytes:
        """The step as dcbnl takes it: what the port has now, with what is wanted put in."""
        now = self.doors.dcb.get(step.nic) or dcbnl.Ieee()
        match step:
            case SetEts():
                return dcbnl.pack_ets(dcb.ets_out(now.ets or dcbnl.Ets(), step.wanted))
            case SetPfc():
                return dcbnl.pack_pfc(dcb.pfc_out(now.pfc or dcbnl.Pfc(), step.wanted))
            case SetMaxrate():
                return dcbnl.pack_maxrate(step.wanted)
            case SetTrust():
                return dcbnl.pack_trust(dcb.trust_out(step.wanted))

    def _lay_out(self, step: SetBuffer, seen: NicQos) -> None:
        now = seen.buffer if adapter(seen).buffers_in_moves else None
        for layout in (step.wanted,) if now is None else buffers.moves(now, step.wanted):
            packed = dcbnl.pack_buffer(dcbnl.Buffer(layout.prio_buffer, layout.size, layout.total))
            self.doors.dcb.set(step.nic, step.label, packed)

    def _map(self, step: SetApps, seen: NicQos) -> None:
        """Entries that are wanted in, others out; which comes first is the driver's (see Adapter.replaces)."""
        order = (self._add, self._remove) if adapter(seen).replaces else (self._remove, self._add)
        for turn in order:
            turn(step)

    def _entries(self, nic: str) -> set[App]:
        ieee = self.doors.dcb.get(nic) or dcbnl.Ieee()
        return {app for app in dcb.fields(ieee)["apps"] if app.selector == "dscp"}

    def _add(self, step: SetApps) -> None:
        now = self._entries(step.nic)
        new = [app for app in step.wanted if app not in now]
        if new:
            self.doors.dcb.set(step.nic, "DSCP map", dcbnl.pack_apps(dcb.apps_out(new)))

    def _remove(self, step: SetApps) -> None:
        old = sorted(self._entries(step.nic) - set(step.wanted), key=lambda app: (app.protocol, app.priority))
        if old:
            self.doors.dcb.delete(step.nic, "DSCP map", dcbnl.pack_apps(dcb.apps_out(old)))

    def _await_link(self, nic: str) -> None:
        """Until the carrier is back."""
        deadline = time.monotonic() + LINK_WAIT
        while not any(dev.carrier for dev in link.devices(self.doors.route) if dev.name == nic):
            if time.monotonic() >= deadline:
                raise HostError("await the link of", nic, errno.ETIMEDOUT, f"down for {LINK_WAIT:.0f} s after a change")
            time.sleep(_POLL)
