"""H12-H14, H21: who sets a host's QoS, and whether what was set is still there."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.lint.classes import wanted_pfc
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.words import apply, numbers
from tuner.lint.subjects import HostAt, NicAt
from tuner.nic import NicQos, NicWanted

__all__ = ["RULES"]


@rule(
    "H12",
    Severity.CRITICAL,
    Scope.NIC,
    title="Two DCBX agents on one port",
    why="Firmware, lldpad and roceway each write the same tables. The last one wins, until the next LLDP frame: QoS"
    " that was verified is gone an hour later, with no log line.",
    source="Linux DCB_CAP_DCBX_LLD_MANAGED and DCB_CAP_DCBX_HOST; ethtool private flag fw-lldp-agent; mlxconfig"
    " LLDP_NB_DCBX",
    fix="Leave one: ethtool --set-priv-flags NIC fw-lldp-agent off, or systemctl disable --now lldpad.",
)
def two_agents(at: NicAt) -> Verdict:
    firmware = at.nic.fw_lldp if at.nic.fw_lldp is not None else (at.nic.dcbx.lld_managed if at.nic.dcbx else None)
    if at.host.agents is None:
        yield Missing("which programs of the host negotiate DCBX")
    if firmware is None:
        yield Missing("whether the NIC's firmware negotiates DCBX")
    agents = [*(["firmware"] if firmware else []), *(at.host.agents or ()), *(["roceway"] if at.host.applied else [])]
    if len(agents) > 1:
        steps = [*([f"ethtool --set-priv-flags {at.nic.name} fw-lldp-agent off"] if firmware else [])]
        steps += [f"systemctl disable --now {agent}" for agent in at.host.agents or ()]
        yield Hit(at.place, f"DCB is set by {', '.join(agents)}", f"on {at.host.node}: {'; '.join(steps)}")


@rule(
    "H13",
    Severity.HIGH,
    Scope.NIC,
    title="Willing toward a neighbour that wants something else",
    why="A willing NIC takes over what the neighbour advertises. A switch with defaults, or a wrong cable, then"
    " reconfigures the host.",
    source="IEEE 802.1Q clause 38 (DCBX, willing bit)",
    fix="Clear willing: `roceway-tune apply`.",
)
def willing(at: NicAt) -> Verdict:
    if at.nic.ets is None:
        yield Missing("ETS of the NIC (the willing bit)")
    elif at.nic.ets.willing and at.qos is None:
        yield Missing("fabric.yaml: what the neighbour should advertise")
    elif at.nic.ets.willing and at.qos:
        pfc = at.nic.peer.pfc if at.nic.peer else None
        if pfc is None:
            yield Missing("what the neighbour advertises by DCBX")
        elif frozenset(pfc.enabled) != wanted_pfc(at.qos):
            evidence = (
                f"the NIC is willing, the neighbour advertises PFC on {numbers(pfc.enabled)},"
                f" wanted is {numbers(wanted_pfc(at.qos))}"
            )
            yield Hit(at.place, evidence, apply(at, "willing off"))


@rule(
    "H14",
    Severity.CRITICAL,
    Scope.NIC,
    title="What is read back is not what was set",
    why="Drivers round, refuse in a reply that the usual tools do not look at, or lose settings with the link."
    " Whoever set it believes that it is there.",
    source="observed: dcbnl answers with the refusal in attribute 13 while the netlink ACK says 0; dcb before 6.2"
    " exits 0",
    fix="`roceway-tune verify` shows wanted and got; `roceway-tune apply` sets and reads back step by step.",
)
def read_back(at: NicAt) -> Verdict:
    applied = at.host.applied
    if applied is None:
        yield Missing("a record of what was set (roceway-tune apply)")
    elif applied.boot_id == at.host.boot_id:  # after a reboot it is H21
        own = {at.nic.name, at.nic.rail, at.nic.pci.address if at.nic.pci else None}
        for wanted in applied.wanted:
            if wanted.nic in own or wanted.rail in own:
                for name, value, got in _differences(wanted, at.nic):
                    yield Hit(at.place, f"{name}: set was {value}, read is {got}", apply(at, name))


def _differences(wanted: NicWanted, nic: NicQos) -> Iterator[tuple[str, object, object]]:
    ets = nic.ets
    pairs = (
        ("trust", wanted.trust, nic.trust),
        ("PFC", wanted.pfc, nic.pfc.enabled if nic.pfc else None),
        ("priority to traffic class", wanted.prio_tc, ets.prio_tc if ets else None),
        ("transmission selection", wanted.tsa, ets.tsa if ets else None),
        ("ETS shares", wanted.tc_bw, ets.tc_bw if ets else None),
        ("rate limits", wanted.maxrate, nic.maxrate),
        ("buffer sizes", wanted.buffer.size if wanted.buffer else None, nic.buffer.size if nic.buffer else None),
        ("global pause", wanted.pause, nic.pause),
        ("rdma_cm ToS", wanted.tos, nic.tos.rdma_cm),
        ("DSCP map", _flat(wanted), _map(nic)),
    )
    for name, value, got in pairs:
        if value is not None and got is not None and value != got:
            yield name, value, got


def _flat(wanted: NicWanted) -> str | None:
    return None if wanted.dscp_prio is None else " ".join(f"{dscp}:{to}" for dscp, to in wanted.dscp_prio)


def _map(nic: NicQos) -> str | None:
    mapping = nic.dscp_map()
    return None if mapping is None else " ".join(f"{dscp}:{numbers(to)}" for dscp, to in mapping.items())


@rule(
    "H21",
    Severity.MEDIUM,
    Scope.HOST,
    title="Not applied again since the host or a driver restarted",
    why="DCB settings live in the NIC until the next reset. After a reboot, a driver reload or a swapped NIC the"
    " host is lossy again, while the record says that it was done.",
    source="Linux: dcbnl state is not persistent",
    fix="roceway-tune apply -f fabric.yaml; install its systemd unit or the DaemonSet so that it happens at boot.",
)
def not_reapplied(at: HostAt) -> Verdict:
    applied = at.host.applied
    if applied is None:
        yield Missing("a record of what was set (roceway-tune apply)")
        return
    fix = f"on {at.host.node}: roceway-tune apply -f fabric.yaml, and enable its unit for the next boot"
    if at.host.boot_id is None:
        yield Missing("boot ID of the host")
    elif applied.boot_id != at.host.boot_id:
        yield Hit(at.place, "rebooted since QoS was last applied", fix)
        return
    for nic in at.nics:
        before = applied.ifindexes.get(nic.nic.name)
        if before is not None and nic.nic.ifindex is not None and before != nic.nic.ifindex:
            yield Hit(nic.place, "the NIC was replugged or its driver reloaded since QoS was last applied", fix)


RULES: tuple[Rule, ...] = (two_agents, willing, read_back, not_reapplied)
