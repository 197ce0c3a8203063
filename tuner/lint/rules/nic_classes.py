"""H01-H06, H09, H15, H22, H23: how a NIC sorts packets into classes, and which of them pause."""

from __future__ import annotations

from tuner.lint.classes import classes, roce_dscp, tos_sources, wanted_pfc, wanted_tos
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules.words import apply, mlx5, numbers
from tuner.lint.subjects import NicAt

__all__ = ["RULES"]

_NO_APPS = Missing("the DSCP map (IEEE APP table) of the NIC")
_NO_PFC = Missing("PFC of the NIC")
_NO_DSCP = Missing("which DSCP RoCE has (fabric.yaml, or a ToS set on the NIC)")


@rule(
    "H01",
    Severity.CRITICAL,
    Scope.NIC,
    title="NIC does not classify by DSCP",
    why="RoCE frames are untagged on most fabrics. A NIC that trusts the VLAN priority, or has no DSCP map, puts all"
    " of them into priority 0, which nothing pauses: packets drop under load and every drop costs a go-back-N.",
    source="dcb-app(8); Linux mlx5 en_dcbnl.c: trust follows the APP table",
    fix="Set trust to dscp and map the RoCE DSCP to the lossless priority: `roceway-tune apply`.",
)
def trust(at: NicAt) -> Verdict:
    if at.qos and at.qos.trust != "dscp":
        return
    if at.nic.trust is None:
        yield Missing("trust of the NIC")
    elif at.nic.trust != "dscp":
        yield Hit(at.place, f"trust is {at.nic.trust}, wanted is dscp", apply(at, "trust dscp"))
    elif at.nic.apps is None:
        yield _NO_APPS
    elif not at.nic.dscp_map():
        yield Hit(at.place, "trust is dscp, but the APP table has no DSCP entry", apply(at, "the DSCP map"))


@rule(
    "H02",
    Severity.CRITICAL,
    Scope.NIC,
    title="RoCE's DSCP maps to a priority without PFC",
    why="The packets are marked right and travel unprotected: the NIC never pauses their sender and never obeys a"
    " pause for them. Drops appear only under incast, where they hurt most.",
    source="IEEE 802.1Q clause 36 (PFC acts per priority)",
    fix="Map the DSCP to the lossless priority and enable PFC there: `roceway-tune apply`.",
)
def dscp_without_pfc(at: NicAt) -> Verdict:
    dscp = roce_dscp(at)
    if dscp is None:
        yield _NO_DSCP
    elif at.nic.apps is None:
        yield _NO_APPS
    elif at.nic.pfc is None:
        yield _NO_PFC
    elif at.nic.pfc.enabled:  # without any it is H06
        wanted = classes(at.qos) if at.qos else ((dscp, at.nic.pfc.enabled[0]),)
        for each, priority in wanted:
            yield from _unprotected(at, each, priority, at.nic.pfc.enabled)


def _unprotected(at: NicAt, dscp: int, wanted: int, enabled: tuple[int, ...]) -> Verdict:
    mapped = at.nic.priorities_of(dscp)
    if not set(mapped or (0,)) <= set(enabled):
        how = f"maps to priority {numbers(mapped)}" if mapped else "is not mapped (priority 0)"
        evidence = f"DSCP {dscp} {how}; PFC is on priority {numbers(enabled)}"
        yield Hit(at.place, evidence, apply(at, f"dcb app replace dev {at.nic.name} dscp-prio {dscp}:{wanted}"))


@rule(
    "H03",
    Severity.CRITICAL,
    Scope.NIC,
    title="Sources of RoCE's ToS disagree",
    why="What a connection is marked with then depends on which library made it: rdma_cm, NCCL and UCX each have a"
    " source of their own. Part of the traffic runs in the lossy class, and a benchmark tells nothing about a job.",
    source="Linux configfs rdma_cm default_roce_tos; OFED tc/P/traffic_class; NCCL_IB_TC; UCX_IB_TRAFFIC_CLASS",
    fix="Give all of them one value, DSCP << 2 | ECT(0): 106 for DSCP 26.",
)
def tos_disagrees(at: NicAt) -> Verdict:
    dscps = {name: tos >> 2 for name, tos in tos_sources(at).items()}
    if not dscps:
        yield Missing("ToS of RoCE (rdma_cm, traffic_class, nccl.conf, ucx.conf)")
        return
    if at.qos:
        dscps["fabric.yaml"] = at.qos.lossless.dscp
    if len(set(dscps.values())) > 1:
        evidence = "DSCP by source: " + ", ".join(f"{name} {dscp}" for name, dscp in sorted(dscps.items()))
        tos = wanted_tos(at.qos) if at.qos else 106
        fix = apply(
            at, f"ToS {tos}; NCCL_IB_TC={tos} in /etc/nccl.conf, UCX_IB_TRAFFIC_CLASS={tos} in /etc/ucx/ucx.conf"
        )
        yield Hit(at.place, evidence, fix)


@rule(
    "H04",
    Severity.HIGH,
    Scope.NIC,
    title="Wrong ECN bits in RoCE's ToS",
    why="A switch marks only packets that say ECT; from others it drops at the same threshold. CE from the start"
    " makes every packet a congestion signal, and senders slow down to their minimum.",
    source="RFC 3168 section 5; RoCEv2 annex A17.9.3; on mlx5 the ECN bit is ORed in, so 104 and 106 act the same",
    fix="ToS = DSCP << 2 | 2, ECT(0): 106 for DSCP 26.",
)
def ecn_bits(at: NicAt) -> Verdict:
    for name, tos in tos_sources(at).items():
        bits = tos & 3
        if bits == 0 and tos and at.nic.driver is None:
            yield Missing("driver of the NIC")
        elif bits == 3 or bits == 1 or (bits == 0 and _ect_needed(at, tos)):
            word = {0: "not ECT", 1: "ECT(1)", 3: "CE"}[bits]
            evidence = f"{name} is {tos}: DSCP {tos >> 2} with ECN bits {bits} ({word})"
            yield Hit(at.place, evidence, apply(at, f"ToS {wanted_tos(at.qos) if at.qos else tos & ~3 | 2}"))


def _ect_needed(at: NicAt, tos: int) -> bool:
    return tos != 0 and not mlx5(at) and (at.qos is None or at.qos.ecn.enabled)


@rule(
    "H05",
    Severity.CRITICAL,
    Scope.NIC,
    title="Global pause is on beside PFC",
    why="One 802.3x pause frame stops every priority, CNPs included, and no PFC counter shows it. 21.7 % of a 400G"
    " link have been seen taken this way with every drop counter at 0.",
    source="IEEE 802.1Q 36.1: PFC and 802.3x pause exclude one another on a port",
    fix="ethtool -A NIC autoneg off rx off tx off: `roceway-tune apply`.",
)
def global_pause(at: NicAt) -> Verdict:
    if at.nic.pause is None:
        yield Missing("global pause of the NIC")
    elif at.nic.pfc is None:
        yield _NO_PFC
    elif at.nic.pfc.enabled and (at.nic.pause.rx or at.nic.pause.tx):
        on = " and ".join(word for word, flag in (("rx", at.nic.pause.rx), ("tx", at.nic.pause.tx)) if flag)
        evidence = f"802.3x pause {on} is on, PFC is on priority {numbers(at.nic.pfc.enabled)}"
        yield Hit(at.place, evidence, apply(at, f"ethtool -A {at.nic.name} autoneg off rx off tx off"))


@rule(
    "H06",
    Severity.HIGH,
    Scope.NIC,
    title="PFC on no priority, on priority 0, or on more than the NIC can do",
    why="On none, RoCE is lossy. On priority 0, ordinary traffic is paused with it and a storm takes the host's"
    " whole network. On more than pfc_cap, the driver drops some without telling which.",
    source="IEEE 802.1Q D.2.10 (PFC cap); Linux struct ieee_pfc",
    fix="Enable PFC on the lossless priority alone: `roceway-tune apply`.",
)
def pfc_set(at: NicAt) -> Verdict:
    pfc = at.nic.pfc
    if pfc is None:
        yield _NO_PFC
        return
    wanted = wanted_pfc(at.qos) if at.qos else None
    on = " ".join(f"{priority}:on" for priority in sorted(wanted if wanted is not None else {3}))
    fix = apply(at, f"dcb pfc set dev {at.nic.name} prio-pfc all:off {on}".rstrip())
    enabled = frozenset(pfc.enabled)
    if not enabled and wanted != frozenset():
        yield Hit(at.place, "PFC is on no priority", fix)
    elif 0 in enabled and not (wanted and 0 in wanted):
        yield Hit(at.place, f"PFC is on priority {numbers(enabled)}, 0 among them", fix)
    elif wanted is not None and not enabled >= wanted:
        yield Hit(at.place, f"PFC is on priority {numbers(enabled)}, wanted is {numbers(wanted)}", fix)
    elif wanted == frozenset() and enabled:
        yield Hit(at.place, f"PFC is on priority {numbers(enabled)}, RoCE is to run without it", fix)
    if len(enabled) > pfc.cap:
        yield Hit(at.place, f"PFC is on {len(enabled)} priorities, the NIC can do {pfc.cap}", fix)


@rule(
    "H09",
    Severity.HIGH,
    Scope.NIC,
    title="ETS shares do not add up, starve RoCE, or mix lossless with lossy",
    why="With 0 % the class sends only what the others leave. In one traffic class, a pause for the lossless"
    " priority stops the lossy one behind it, and the lossy one's queue delays CNPs and RoCE alike.",
    source="IEEE 802.1Q 37 (ETS); Linux mlx5 en_dcbnl.c refuses a sum other than 100",
    fix="Give the lossless class a traffic class and a share of its own: `roceway-tune apply`.",
)
def ets_shares(at: NicAt) -> Verdict:
    ets, pfc = at.nic.ets, at.nic.pfc
    if ets is None:
        yield Missing("ETS of the NIC")
        return
    fix = apply(at, "ETS")
    used = sorted({tc for tc in ets.prio_tc if ets.tsa[tc] == "ets"})
    total = sum(ets.tc_bw[tc] for tc in range(8) if ets.tsa[tc] == "ets")
    if used and total != 100:
        yield Hit(at.place, f"ETS shares add up to {total} %", fix)
    if pfc is None:
        yield _NO_PFC
        return
    for priority in pfc.enabled:
        tc = ets.prio_tc[priority]
        if ets.tsa[tc] == "ets" and ets.tc_bw[tc] == 0:
            yield Hit(at.place, f"lossless priority {priority} is in traffic class {tc}, which has 0 %", fix)
        others = tuple(each for each in range(8) if ets.prio_tc[each] == tc and each not in pfc.enabled)
        if others:
            yield Hit(
                at.place,
                f"lossless priority {priority} shares traffic class {tc} with lossy priority {numbers(others)}",
                fix,
            )


@rule(
    "H15",
    Severity.HIGH,
    Scope.NIC,
    title="Rate limit 125 times what was meant",
    why="iproute2 before 6.18 stored `maxrate 1Gbit` as 125 Gb/s: the limit is there, and limits nothing.",
    source="observed with iproute2 6.1 on Linux 6.1; fixed in iproute2 6.18",
    fix="Set the limit again with `roceway-tune apply`, which speaks netlink and reads back.",
)
def maxrate_times_125(at: NicAt) -> Verdict:
    speed = at.nic.link.speed if at.nic.link and at.nic.link.speed else at.speed
    if at.nic.maxrate is None:
        yield Missing("rate limits of the NIC")
    elif any(at.nic.maxrate) and speed is None:
        yield Missing("speed of the NIC")
    elif speed is not None:
        for tc, rate in enumerate(at.nic.maxrate):
            if rate > speed * 1000 and rate % 125 == 0:
                evidence = (
                    f"traffic class {tc} is limited to {rate / 1e6:g} Gb/s on a {speed / 1000:g} Gb/s link:"
                    f" 125 times {rate / 125e6:g} Gb/s"
                )
                yield Hit(at.place, evidence, apply(at, f"maxrate of traffic class {tc}"))


@rule(
    "H22",
    Severity.MEDIUM,
    Scope.NIC,
    title="DSCP map set on a virtual function",
    why="Classification is the physical function's: a VF takes the setting, or seems to, and sends as before.",
    source="Linux mlx5: DCB belongs to the PF's port",
    fix="Set the map on the physical function: `roceway-tune apply` does.",
)
def dscp_on_vf(at: NicAt) -> Verdict:
    if at.nic.function is None:
        yield Missing("whether the NIC is a physical or a virtual function")
    elif at.nic.function == "vf" and at.nic.apps is None:
        yield _NO_APPS
    elif at.nic.function == "vf" and at.nic.dscp_map():
        yield Hit(
            at.place,
            f"a VF with {len(at.nic.dscp_map() or ())} DSCP entries of its own",
            f"dcb app flush dev {at.nic.name} dscp-prio; then roceway-tune apply -f fabric.yaml, which sets the PF",
        )


@rule(
    "H23",
    Severity.HIGH,
    Scope.NIC,
    title="One DSCP with two priorities",
    why="The APP table allows it, the hardware has one slot per DSCP: which entry won depends on the order of"
    " writing, and changes with the next reboot.",
    source="IEEE 802.1Q D.2.11; Linux dcb_ieee_getapp_mask",
    fix="Delete the entry that is not wanted: `roceway-tune apply` does.",
)
def two_priorities(at: NicAt) -> Verdict:
    mapping = at.nic.dscp_map()
    if mapping is None:
        yield _NO_APPS
        return
    for dscp, priorities in mapping.items():
        if len(priorities) > 1:
            keep = at.qos.lossless.priority if at.qos and dscp == at.qos.lossless.dscp else priorities[-1]
            away = " ".join(f"{dscp}:{each}" for each in priorities if each != keep)
            yield Hit(
                at.place,
                f"DSCP {dscp} maps to priorities {numbers(priorities)}",
                apply(at, f"dcb app del dev {at.nic.name} dscp-prio {away}"),
            )


RULES: tuple[Rule, ...] = (
    trust, dscp_without_pfc, tos_disagrees, ecn_bits, global_pause, pfc_set, ets_shares, maxrate_times_125, dscp_on_vf,
    two_priorities,
)  # fmt: skip
