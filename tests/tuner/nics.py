"""NICs as drivers show them at power-on, for pure tests."""

from __future__ import annotations

from typing import Any

from conf.fabric import Fabric, parse
from tuner.nic import App, Buffer, Dcbx, Ecn, Ets, HostQos, Link, NicQos, Pause, Pci, Pfc, Tos

__all__ = ["bnxt", "fabric", "generic", "host", "mlx5"]

_FABRIC = """
apiVersion: roceway/v1
kind: Fabric
metadata: {name: test}
rails: [{name: rail0, subnet: 10.200.0.0/16, nodeBlock: 27}, {name: rail1, subnet: 10.201.0.0/16, nodeBlock: 27}]
qos: QOS
nodeTypes: {hgx: {speed: 400G, mode: host-device, cable: 3m, rails: RAILS}}
nodes: [{match: "n[0-9]", type: hgx}]
"""


def fabric(qos: str = "{}", rails: str = "{rail0: eth2, rail1: eth3}") -> Fabric:
    """Two rails on eth2 and eth3."""
    return parse(_FABRIC.replace("QOS", qos).replace("RAILS", rails))


def mlx5(name: str = "eth2", **other: Any) -> NicQos:
    """A ConnectX at power-on, in-tree driver."""
    values: dict[str, Any] = {
        "name": name,
        "ifindex": 7,
        "driver": "mlx5_core",
        "function": "pf",
        "rdma": "mlx5_0",
        "dcb": True,
        "dcbx": Dcbx(host=True, ieee=True),
        "trust": "pcp",
        "apps": (),
        "ets": Ets(prio_tc=(1, 0, 2, 3, 4, 5, 6, 7), tsa=("vendor",) * 8),
        "pfc": Pfc(delay=7),
        "buffer": Buffer(prio_buffer=(0,) * 8, size=(130_944, 0, 0, 0, 0, 0, 0, 0), total=262_016),
        "maxrate": (0,) * 8,
        "pause": Pause(autoneg=False, rx=True, tx=True),
        "mtu": 1500,
        "tos": Tos(rdma_cm=0),
        "ecn": Ecn(cnp_dscp=48, cnp_prio=6, params={"rp_ai_rate": 5}),
        "cable_m": 7.0,
        "pci": Pci(address="0000:18:00.0"),
        "link": Link(up=True, carrier=True, speed=400_000),
    }
    return NicQos(**{**values, **other})


def bnxt(name: str = "eth2", **other: Any) -> NicQos:
    """A Thor at power-on: DCB is the firmware's."""
    values: dict[str, Any] = {
        "driver": "bnxt_en",
        "dcbx": Dcbx(lld_managed=True, ieee=True),
        "ecn": Ecn(np=(False,) * 8, rp=(False,) * 8, single=True, cnp_dscp=48, cnp_prio=7),
        "buffer": None,
        "cable_m": None,
    }
    return mlx5(name, **{**values, **other})


def generic(name: str = "eth2", **other: Any) -> NicQos:
    """A driver without an adapter of its own, on a kernel that shows trust."""
    values: dict[str, Any] = {"driver": "simroce", "apptrust": (), "trust": "pcp", "cable_m": None, "ecn": Ecn()}
    return mlx5(name, **{**values, **other})


def host(*nics: NicQos, **other: Any) -> HostQos:
    """A host with these NICs on rail0, rail1, …"""
    from dataclasses import replace

    railed = tuple(replace(nic, rail=f"rail{number}") for number, nic in enumerate(nics))
    return HostQos(node="n0", nics=railed, agents=(), **other)


def dscp(*pairs: tuple[int, int]) -> tuple[App, ...]:
    """DSCP entries."""
    return tuple(App(selector="dscp", protocol=protocol, priority=priority) for protocol, priority in pairs)
