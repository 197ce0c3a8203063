"""From what is wanted and what is seen to the steps that make the one the other, in the driver's order. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from typing import Any

from tuner.drivers import Adapter, adapter
from tuner.nic import App, Dcbx, HostQos, HostWanted, NicQos, NicWanted, Pfc
from tuner.steps import (
    KINDS,
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
    dscp_entries,
    knob,
    settings,
)

__all__ = ["NicPlan", "absent", "candidates", "plan", "plan_nic", "unbound", "whole_map"]

_OURS = Dcbx(host=True, ieee=True)
_DCB_KINDS = frozenset({"dcbx", "ets", "maxrate", "apps", "trust", "pfc", "buffer"})
_MOST_DELAY = 65535
_ABSENT = "there is no NIC {} here: its driver is not loaded, or a pod has it (by PCI address that could be told apart)"


@dataclass(frozen=True, slots=True, kw_only=True)
class NicPlan:
    """What is to be done to one NIC."""

    rail: str
    nic: str
    steps: tuple[Step, ...] = ()
    blocked: tuple[str, ...] = ()
    """Why none of it may be done now: who has to act, and how."""
    unseen: tuple[str, ...] = ()
    """What is wanted and the NIC's driver does not show: neither set nor claimed."""
    skipped: str = ""
    """Why the rail is left alone although nothing is wrong: a pod has it."""


def plan(wanted: HostWanted, seen: HostQos, *, in_use: bool = False) -> tuple[NicPlan, ...]:
    """One plan for each NIC that is wanted, in the order of the rails. ``in_use``: also for those that a pod has."""
    plans = []
    for one in wanted.nics:
        nic = seen.nic(one.rail) or seen.nic(one.nic)
        if nic is None:
            plans.append(NicPlan(rail=one.rail, nic=one.nic, blocked=(_ABSENT.format(one.nic),)))
            continue
        if unbound(nic):
            plans.append(NicPlan(rail=one.rail, nic=nic.name, blocked=(f"no driver is bound to {nic.name}",)))
            continue
        found = plan_nic(one, nic, seen.agents or ())
        busy = nic.in_use
        if busy is not None and busy.reason == "absent":
            found = NicPlan(rail=one.rail, nic=nic.name, skipped=f"a pod has it: {busy.detail}")
        elif busy is not None and not in_use and found.steps:
            found = replace(
                found, steps=(), skipped=f"in use by a pod ({busy.detail}); --in-use changes it all the same"
            )
        plans.append(found)
    return tuple(plans)


def absent(wanted: HostWanted, seen: HostQos) -> tuple[str, ...]:
    """The NICs that are wanted and have no network device, be it that no driver is bound to them."""
    found = ((one.nic, seen.nic(one.rail) or seen.nic(one.nic)) for one in wanted.nics)
    return tuple(name for name, nic in found if nic is None or unbound(nic))


def unbound(nic: NicQos) -> bool:
    """Whether the card is there and no driver has it: its network device is nowhere, not in a pod either."""
    return nic.ifindex is None and nic.driver is None and nic.in_use is None and nic.dcb is None


def plan_nic(wanted: NicWanted, seen: NicQos, agents: tuple[str, ...] = ()) -> NicPlan:
    """The steps for one NIC, without regard to who uses it."""
    driver = adapter(seen)
    steps = tuple(step for step in candidates(wanted, seen) if step.seen != step.wanted)
    blocked = tuple(_blocked(wanted, seen, steps, agents, driver))
    return NicPlan(
        rail=wanted.rail,
        nic=seen.name,
        steps=() if blocked else steps,
        blocked=blocked,
        unseen=tuple(_unseen(wanted, seen, driver)),
    )


def candidates(wanted: NicWanted, seen: NicQos) -> tuple[Step, ...]:
    """Everything that is wanted and can be set, also what is right already, in the driver's order."""
    driver = adapter(seen)
    order = {kind: place for place, kind in enumerate(driver.order)}
    return tuple(sorted(_steps(wanted, seen, driver), key=lambda step: order[KINDS[type(step)]]))


def _blocked(
    wanted: NicWanted, seen: NicQos, steps: tuple[Step, ...], agents: tuple[str, ...], driver: Adapter
) -> Iterator[str]:
    """Who else decides on this NIC's DCB. They are named, never fought: two masters undo each other for ever."""
    if not seen.dcb and (wanted.pfc or wanted.prio_tc is not None):
        driver_name = seen.driver or "unknown"
        yield f"{seen.name} has no DCB (driver {driver_name}): PFC, ETS and a DSCP map can neither be set nor seen"
    yield from _cramped(wanted, seen)
    if not any(KINDS[type(step)] in _DCB_KINDS for step in steps):
        return
    if seen.function == "vf":
        yield f"{seen.name} is a virtual function: what is set here has no effect; tune its physical function"
    for agent in agents:
        yield f"{agent} runs on this host and negotiates DCB: systemctl disable --now {agent}, or leave DCB to it"
    if seen.fw_lldp:
        yield (
            f"the firmware of {seen.name} runs an LLDP agent that owns its DCB:"
            f" ethtool --set-priv-flags {seen.name} fw-lldp-agent off"
        )
    lossless = next((step.wanted.enabled for step in steps if isinstance(step, SetPfc)), ())
    most = min(each for each in (driver.max_lossless, seen.pfc.cap if seen.pfc else None, 8) if each is not None)
    if len(lossless) > most:
        yield f"{seen.name} can have {most} lossless priorities; {len(lossless)} are wanted"


def _cramped(wanted: NicWanted, seen: NicQos) -> Iterator[str]:
    """Receive buffers that are wanted and cannot hold what arrives after a pause."""
    lossless = wanted.pfc or ()
    if wanted.headroom is None or seen.buffer is None or not lossless:
        return
    least = f"{wanted.headroom} B for a lossless priority"
    if wanted.buffer is None:
        total = max(seen.buffer.total, sum(seen.buffer.size))
        yield f"{seen.name}: receive buffers of {least} ({len(lossless)}) and of the rest do not fit into {total} B"
        return
    small = [
        priority for priority in lossless if wanted.buffer.size[wanted.buffer.prio_buffer[priority]] < wanted.headroom
    ]
    if small:
        size = wanted.buffer.size[wanted.buffer.prio_buffer[small[0]]]
        yield f"{seen.name}: nics.buffers.lossless is {size} B; speed, cable and MTU call for {least}"


def _steps(wanted: NicWanted, seen: NicQos, driver: Adapter) -> Iterator[Step]:
    if wanted.mtu is not None and seen.mtu is not None:
        yield SetMtu(nic=seen.name, seen=seen.mtu, wanted=wanted.mtu)
    if wanted.pause is not None and seen.pause is not None:
        yield SetPause(nic=seen.name, seen=seen.pause, wanted=wanted.pause)
    if seen.dcb:
        yield from _dcb_steps(wanted, seen, driver)
    yield from _knob_steps(wanted, seen)
    for name, value in wanted.sysctls.items():
        if name in seen.sysctls:
            yield SetSysctl(nic=seen.name, name=name, seen=seen.sysctls[name], wanted=value)


def _dcb_steps(wanted: NicWanted, seen: NicQos, driver: Adapter) -> Iterator[Step]:
    steps = tuple(_bridging(wanted, seen, driver))
    ours = driver.needs_host_dcbx or (seen.dcbx is not None and seen.dcbx.lld_managed)
    mode = wanted.dcbx or (_OURS if steps and ours else None)
    if mode is not None and seen.dcbx is not None:
        yield SetDcbx(nic=seen.name, seen=seen.dcbx, wanted=mode)
    yield from steps


def _bridging(wanted: NicWanted, seen: NicQos, driver: Adapter) -> Iterator[Step]:
    if seen.ets is not None and wanted.prio_tc is not None:
        tsa, shares = wanted.tsa or seen.ets.tsa, wanted.tc_bw or seen.ets.tc_bw
        asked = replace(seen.ets, prio_tc=wanted.prio_tc, tsa=tsa, tc_bw=shares, willing=False)
        yield SetEts(nic=seen.name, seen=seen.ets, wanted=asked)
    if seen.maxrate is not None and wanted.maxrate is not None:
        yield _maxrate(wanted.maxrate, seen, driver)
    entries = dscp_entries(seen)
    if entries is not None and wanted.dscp_prio is not None:
        yield SetApps(nic=seen.name, seen=entries, wanted=whole_map(wanted.dscp_prio, driver))
    trust = _trust(wanted, seen, driver)
    if trust is not None:
        yield trust
    if seen.pfc is not None and (wanted.pfc is not None or wanted.cable_m is not None):
        yield _pfc(wanted, seen.pfc, seen.name, driver)
    if seen.buffer is not None and wanted.buffer is not None:
        buffer = replace(wanted.buffer, total=seen.buffer.total)
        yield SetBuffer(nic=seen.name, seen=seen.buffer, wanted=buffer)


def _trust(wanted: NicWanted, seen: NicQos, driver: Adapter) -> SetTrust | None:
    """The kernel's order counts where the driver goes by it, and where somebody has set one."""
    if wanted.trust is None or seen.apptrust is None or not (seen.apptrust or driver.trust_by == "apptrust"):
        return None
    kept = seen.apptrust if seen.apptrust[:1] == (wanted.trust,) else (wanted.trust,)
    return SetTrust(nic=seen.name, seen=seen.apptrust, wanted=kept)


def _maxrate(asked: tuple[int, ...], seen: NicQos, driver: Adapter) -> SetMaxrate:
    kept = tuple(driver.rate(rate) for rate in asked)
    pairs = enumerate(zip(asked, kept, strict=True))
    rounded = [f"class {number}: {one} kb/s becomes {two}" for number, (one, two) in pairs if one != two]
    note = f"rounded by {driver.name}: {'; '.join(rounded)}" if rounded else ""
    return SetMaxrate(nic=seen.name, seen=seen.maxrate or (), wanted=kept, note=note)


@cache
def whole_map(asked: tuple[tuple[int, int], ...], driver: Adapter) -> tuple[App, ...]:
    """The DSCP entries to write: those asked for, and where the hardware has a hidden map also all others, as 0."""
    table = dict.fromkeys(range(64), 0) if driver.whole_map and asked else {}
    table |= dict(asked)
    return tuple(App(selector="dscp", protocol=dscp, priority=table[dscp]) for dscp in sorted(table))


def _pfc(wanted: NicWanted, seen: Pfc, name: str, driver: Adapter) -> SetPfc:
    enabled = seen.enabled if wanted.pfc is None else wanted.pfc
    delay = seen.delay
    if driver.cable_in_delay and wanted.cable_m is not None:
        delay = min(_MOST_DELAY, ceil(wanted.cable_m))
    now = settings(seen)
    toggles = driver.toggles_link and enabled != seen.enabled
    return SetPfc(nic=name, seen=now, wanted=replace(now, enabled=enabled, delay=delay), toggles=toggles)


def _knob_steps(wanted: NicWanted, seen: NicQos) -> Iterator[Step]:
    values: dict[str, Any] = {}
    if wanted.tos is not None and seen.rdma is not None:
        values["tos"] = wanted.tos
        if seen.tos.traffic_class is not None:
            values["traffic_class"] = wanted.tos
    if seen.ecn.cnp_dscp is not None:
        values["cnp_dscp"] = wanted.cnp_dscp
    if seen.ecn.cnp_prio is not None:
        values["cnp_prio"] = wanted.cnp_prio
    values |= _ecn(wanted, seen)
    values |= {f"param.{name}": value for name, value in wanted.params.items() if name in seen.ecn.params}
    for name, value in values.items():
        if value is not None:
            yield SetKnob(nic=seen.name, name=name, seen=knob(seen, name), wanted=value)


def _ecn(wanted: NicWanted, seen: NicQos) -> dict[str, int]:
    """ECN at both points of the lossless priority; one switch for all where the driver has no more."""
    if wanted.ecn is None or wanted.lossless is None:
        return {}
    if seen.ecn.np is None or seen.ecn.rp is None:
        return {}
    names = ("ecn",) if seen.ecn.single else (f"np.{wanted.lossless}", f"rp.{wanted.lossless}")
    return dict.fromkeys(names, int(wanted.ecn))


def _unseen(wanted: NicWanted, seen: NicQos, driver: Adapter) -> Iterator[str]:
    if not seen.dcb:
        return
    lacking = {
        "traffic classes (ETS)": wanted.prio_tc is not None and seen.ets is None,
        "PFC": wanted.pfc is not None and seen.pfc is None,
        "maximum rates": wanted.maxrate is not None and seen.maxrate is None,
        "receive buffers": (wanted.buffer or wanted.headroom) is not None and seen.buffer is None,
        "global pause": wanted.pause is not None and seen.pause is None,
        "trust: whether it classifies by DSCP": wanted.trust is not None and seen.trust is None,
        "ECN by priority": wanted.ecn is not None and seen.ecn.np is None,
    }
    lacking |= {f"DCQCN {name}": name not in seen.ecn.params for name in wanted.params}
    lacking |= {f"sysctl {name}": name not in seen.sysctls for name in wanted.sysctls}
    shown = [name for name, lacks in lacking.items() if lacks]
    if shown:
        yield f"{seen.name}: {driver.name} does not show {', '.join(shown)}"
    if wanted.tos is not None and seen.rdma is None and seen.function == "pf":
        yield f"{seen.name} has no RDMA device: is the driver's RDMA half loaded (mlx5_ib, bnxt_re, irdma)?"
