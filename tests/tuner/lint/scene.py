"""A small fabric in which everything is well and everything is known; tests change one thing and look.

Two hosts with two rails, a leaf per rail, a spine above. ``Scene().nic("gpu-1", "rail0", trust="pcp").report()``.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any, Self

from conf.fabric import Fabric, parse
from tuner.lint.report import Finding, Report
from tuner.lint.run import lint
from tuner.lint.world import Given
from tuner.nic import (
    App,
    Applied,
    Buffer,
    Counters,
    Dcbx,
    Ecn,
    Ets,
    Gid,
    HostQos,
    Link,
    NicQos,
    NicWanted,
    Pause,
    Pci,
    Peer,
    Pfc,
    Tos,
)
from tuner.switch import model
from tuner.switch.model import UNBOUND, BufferPool, BufferProfile, Port, PriorityGroup, QosMap, Queue, Scheduler, Switch

FABRIC = """\
apiVersion: roceway/v1
kind: Fabric
metadata: {name: small}
rails:
  - {name: rail0, subnet: 10.200.0.0/16, nodeBlock: 27}
  - {name: rail1, subnet: 10.201.0.0/16, nodeBlock: 27}
nodeTypes:
  box: {driver: mlx5_core, speed: 400G, mode: host-device, mtu: 9000, cable: 5m, rails: {rail0: eth0, rail1: eth1}}
nodes:
  - {match: "gpu-[1-2]", type: box}
switches:
  - {name: leaf-r0, platform: sonic, role: leaf, ports: {"Ethernet[0-4:4]": "gpu-[1-2]/rail0"}}
  - {name: leaf-r1, platform: sonic, role: leaf, ports: {"Ethernet[0-4:4]": "gpu-[1-2]/rail1"}}
  - {name: spine-0, platform: sonic, role: spine}
links:
  - {from: "leaf-r[0-1]:Ethernet8", to: "spine-0:Ethernet[0-4:4]", speed: 400G, cable: 40m}
"""
TODAY = date(2030, 6, 1)


def nic(number: int, rail: int) -> NicQos:
    """A NIC by the recipe of the profile lossless-dscp, with everything known."""
    return NicQos(
        name=f"eth{rail}",
        rail=f"rail{rail}",
        ifindex=10 + rail,
        driver="mlx5_core",
        firmware="28.42.1000",
        function="pf",
        rdma=f"mlx5_{rail}",
        mac=f"b8:ce:f6:00:0{number}:0{rail}",
        addresses=(f"10.20{rail}.0.{number}/16",),
        dcb=True,
        dcbx=Dcbx(host=True, ieee=True),
        trust="dscp",
        apps=(App(selector="dscp", protocol=26, priority=3), App(selector="dscp", protocol=48, priority=6)),
        ets=Ets(
            prio_tc=(0, 0, 0, 3, 0, 0, 6, 0),
            tsa=("ets", "strict", "strict", "ets", "strict", "strict", "strict", "strict"),
            tc_bw=(50, 0, 0, 50, 0, 0, 0, 0),
        ),
        pfc=Pfc(enabled=(3,)),
        buffer=Buffer(prio_buffer=(0, 0, 0, 1, 0, 0, 0, 0), size=(200_000, 200_000, 0, 0, 0, 0, 0, 0)),
        maxrate=(0,) * 8,
        peer=Peer(pfc=Pfc(enabled=(3,))),
        fw_lldp=False,
        pause=Pause(autoneg=False, rx=False, tx=False),
        mtu=9000,
        active_mtu=4096,
        tos=Tos(rdma_cm=106, rdma_cm_mode="RoCE v2", traffic_class=106),
        ecn=Ecn(np=(True,) * 8, rp=(True,) * 8, cnp_dscp=48, cnp_prio=6, params={"rp_ai_rate": 5}),
        cable_m=5.0,
        gids=(Gid(index=3, type="RoCE v2", address=f"10.20{rail}.0.{number}"),),
        pci=Pci(
            address=f"0000:{18 + rail}:00.0",
            device=0x1021,
            width=16,
            max_width=16,
            speed=32.0,
            max_speed=32.0,
            max_read_request=4096,
            relaxed_ordering=True,
            acs_enabled=(),
        ),
        link=Link(up=True, carrier=True, speed=400_000, changes=2),
        sysctls={"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2},
        counters=Counters(
            tx_bytes=(1000, 0, 0, 10**12, 0, 0, 10**6, 0),
            rx_pause=(0,) * 8,
            tx_pause=(0,) * 8,
            rx_pause_us=(0,) * 8,
            tx_pause_us=(0,) * 8,
            rx_discards=(0,) * 8,
            rdma={"np_ecn_marked_roce_packets": 9, "np_cnp_sent": 9},
        ),
    )


def host(number: int) -> HostQos:
    """A host on which QoS was applied since it booted."""
    nics = (nic(number, 0), nic(number, 1))
    return HostQos(
        node=f"gpu-{number}",
        nics=nics,
        at="2030-06-01T10:00:00+00:00",
        boot_id="this-boot",
        agents=(),
        sysctls={"arp_ignore": 0, "arp_announce": 0, "rp_filter": 0},
        nccl_ib_tc=106,
        ucx_tc=106,
        applied=Applied(
            at="2030-05-30T10:00:00+00:00",
            boot_id="this-boot",
            complete=True,
            wanted=tuple(NicWanted(nic=each.name, rail=each.rail or "", trust="dscp", pfc=(3,)) for each in nics),
            ifindexes={each.name: each.ifindex or 0 for each in nics},
            gids={each.name: {each.gids[0].address: 3} for each in nics if each.gids},
        ),
    )


DSCP = QosMap("AZURE", {**dict.fromkeys(range(64), 0), 26: 3, 48: 6}, "DSCP_TO_TC_MAP|AZURE")
SAME = {number: number for number in range(8)}
GROUPS = QosMap("AZURE", {**dict.fromkeys(range(8), 0), 3: 3}, "TC_TO_PRIORITY_GROUP_MAP|AZURE")
STRICT, FAIR = Scheduler("strict", "strict"), Scheduler("fair", "dwrr", 50)
MARKS = model.Ecn("ROCE", True, 1 << 20, 2 << 20, 5.0, "WRED_PROFILE|ROCE")
POOL = BufferPool("ingress_lossless_pool", "ingress", "dynamic", 100_000_000, place="BUFFER_POOL|ingress_lossless_pool")
PROFILE = BufferProfile("pg_lossless", POOL, size=0, xoff=80_000, dynamic_th=0, place="BUFFER_PROFILE|pg_lossless")
LOOKUP = tuple(model.LookupRow(400_000, cable, 200_000, 37_888, 77_824, 0) for cable in (5.0, 40.0))
PLACES = {
    "pfc": "PORT_QOS_MAP|{port}.pfc_enable",
    "groups": "BUFFER_PG|{port}",
    "queues": "QUEUE|{port}",
    "watchdog": "PFC_WD|{port}",
    "cable": "CABLE_LENGTH|AZURE.{port}",
    "counters": "COUNTERS_DB {port}",
}


def port(name: str, cable: float, neighbour: tuple[str, str]) -> Port:
    """A port that carries the class, with everything known."""
    queues = {
        each: Queue(FAIR if each in (0, 3) else STRICT, MARKS if each == 3 else model.NO_ECN) for each in range(8)
    }
    return Port(
        name,
        speed=400_000,
        mtu=9100,
        cable=cable,
        admin_up=True,
        oper_up=True,
        neighbour=model.Neighbour(*neighbour),
        trust=frozenset({"dscp"}),
        dscp_to_tc=DSCP,
        dot1p_to_tc=UNBOUND,
        tc_to_queue=QosMap("AZURE", SAME, "TC_TO_QUEUE_MAP|AZURE"),
        tc_to_pg=GROUPS,
        pfc_to_queue=QosMap("AZURE", SAME, "MAP_PFC_PRIORITY_TO_QUEUE|AZURE"),
        pfc_to_pg=UNBOUND,
        tc_to_dscp=UNBOUND,
        pfc=frozenset({3}),
        pfc_mode="on",
        pfc_oper=frozenset({3}),
        global_pause=False,
        watchdog=model.Watchdog(True, frozenset({3}), "drop", 200.0, 400.0),
        queues=queues,
        groups={3: PriorityGroup(PROFILE)},
        dcbx="ieee",
        dcbx_peer=True,
        vlans=frozenset(),
        counters=model.Counters(
            pfc_rx=dict.fromkeys(range(8), 0),
            pfc_tx=dict.fromkeys(range(8), 0),
            queues={
                each: model.QueueCounters(packets=9, dropped=0, ecn_marked=9, deadlocks=0, status="operational")
                for each in range(8)
            },
            pg_dropped=dict.fromkeys(range(8), 0),
        ),
        places=PLACES,
    )


def switch(name: str, role: Any, neighbours: dict[str, tuple[float, tuple[str, str]]]) -> Switch:
    """A SONiC switch whose ports carry the class."""
    ports = {each: port(each, *cable) for each, cable in neighbours.items()}
    maps = {"dscp_to_tc": {"AZURE": DSCP}, "tc_to_pg": {"AZURE": GROUPS}}
    return Switch(
        name,
        "sonic",
        f"{name}.json",
        role=role,
        hostname=name,
        ports=ports,
        maps=maps,
        bindings_known=True,
        pools={POOL.name: POOL},
        profiles={PROFILE.name: PROFILE},
        lookup=LOOKUP,
        buffer_model="traditional",
        watchdog_poll=100,
        mtu_is_frame=False,
        operational=Switch(name, "sonic", "", ports=ports),
    )


def switches() -> dict[str, Switch]:
    """Two leaves and a spine, cabled as FABRIC says."""
    found = {
        f"leaf-r{rail}": switch(
            f"leaf-r{rail}",
            "leaf",
            {
                "Ethernet0": (5.0, ("gpu-1", f"eth{rail}")),
                "Ethernet4": (5.0, ("gpu-2", f"eth{rail}")),
                "Ethernet8": (40.0, ("spine-0", f"Ethernet{4 * rail}")),
            },
        )
        for rail in (0, 1)
    }
    up = {f"Ethernet{4 * rail}": (40.0, (f"leaf-r{rail}", "Ethernet8")) for rail in (0, 1)}
    return found | {"spine-0": switch("spine-0", "spine", up)}


class Scene:
    """The fabric, to be changed; every method returns it."""

    def __init__(self, fabric: str | None = FABRIC) -> None:
        self.text = fabric
        self.hosts = {f"gpu-{number}": host(number) for number in (1, 2)}
        self.earlier: tuple[HostQos, ...] = ()
        self.switches = switches()

    def write(self, old: str, new: str) -> Self:
        """Change fabric.yaml."""
        assert self.text is not None
        assert old in self.text
        self.text = self.text.replace(old, new)
        return self

    def add(self, text: str) -> Self:
        """Add to fabric.yaml."""
        self.text = (self.text or "") + text
        return self

    def host(self, node: str, /, **changes: Any) -> Self:
        """Change fields of a host."""
        self.hosts[node] = replace(self.hosts[node], **changes)
        return self

    def nic(self, node: str, rail: str, /, **changes: Any) -> Self:
        """Change fields of a NIC."""
        old = self.hosts[node]
        nics = tuple(replace(each, **changes) if each.rail == rail else each for each in old.nics)
        self.hosts[node] = replace(old, nics=nics)
        return self

    def nics(self, **changes: Any) -> Self:
        """Change fields of every NIC."""
        for node in self.hosts:
            for rail in ("rail0", "rail1"):
                self.nic(node, rail, **changes)
        return self

    def switch(self, name: str, /, **changes: Any) -> Self:
        """Change fields of a switch."""
        self.switches[name] = replace(self.switches[name], **changes)
        return self

    def port(self, switch: str, port: str, /, **changes: Any) -> Self:
        """Change fields of a port, configured and running alike."""
        old = self.switches[switch]
        ports = {**old.ports, port: replace(old.ports[port], **changes)}
        return self.switch(switch, ports=ports, operational=Switch(switch, "sonic", "", ports=ports))

    def ports(self, **changes: Any) -> Self:
        """Change fields of every port."""
        for name, each in self.switches.items():
            for port in each.ports:
                self.port(name, port, **changes)
        return self

    def given(self) -> Given:
        """What the linter is given."""
        fabric: Fabric | None = parse(self.text) if self.text else None
        return Given(fabric, None, (*self.earlier, *self.hosts.values()), tuple(self.switches.values()))

    def report(self) -> Report:
        """Lint it."""
        return lint(self.given(), TODAY)

    def findings(self, rule: str) -> list[Finding]:
        """What one rule finds."""
        return [finding for finding in self.report().findings if finding.rule == rule]

    def missing(self, rule: str) -> set[str]:
        """What one rule lacks."""
        return {gap.missing for gap in self.report().gaps if gap.rule == rule}
