"""From ``fabric.yaml`` and a node's name to the plugin's entry in a conflist. Pure."""

from __future__ import annotations

from dataclasses import replace

from cni.selection import CAPABILITY
from cni.spec import Json
from cni.topology import Outcome
from conf.errors import ConfigError, Finding
from conf.fabric import Fabric
from conf.node import AddressRange, Node, NodeRail

__all__ = ["PLUGIN_TYPE", "is_auto", "paired", "render", "traffic_class"]

PLUGIN_TYPE = "roceway-cni"
_ECT0 = 0b10


def render(fabric: Fabric, node: Node) -> Json:
    """The plugin object, without cniVersion and name: libcni puts the list's own there.

    ConfigError for a rail whose NIC is not known (``rails: auto``, before :func:`paired`).
    """
    findings = [finding for rail in node.rails for finding in _problems(node, rail)]
    if findings:
        raise ConfigError(f"fabric {fabric.metadata.name}, node {node.name}", findings)
    cni = fabric.cni
    return {
        "type": PLUGIN_TYPE,
        "capabilities": {CAPABILITY: True},
        "attach": cni.attach,
        "rails": [_rail(rail) for rail in node.rails],
        "routing": {"tableBase": cni.routing.table_base} if cni.routing else False,
        "policy": cni.policy.model_dump(mode="json"),
        "resultIPs": cni.result_ips,
        "nccl": {
            "trafficClass": traffic_class(fabric),
            "crossNic": cni.nccl.cross_nic,
            "socketInterface": cni.nccl.socket_interface,
        },
        "stateDir": cni.state_dir,
        "runDir": cni.run_dir,
        "kubeletDir": cni.kubelet_dir,
        "agent": cni.agent,
    }


def traffic_class(fabric: Fabric) -> int:
    """The traffic class byte (IPv4's ToS) that RoCE must be sent with, 0 to 255: the DSCP, and ECT(0) with ECN.

    RFC 2474, RFC 3168: DSCP in the upper six bits, 10 below for a sender that understands marks. Without ECN by intent
    the packets must not ask for marks, or the switch would mark and nobody slow down.
    """
    qos = fabric.qos
    return qos.lossless.dscp << 2 | (_ECT0 if qos.ecn.enabled else 0)


def is_auto(node: Node) -> bool:
    """Whether the node's NICs are to be paired with its GPUs by PCI topology."""
    return any(rail.nic == "auto" for rail in node.rails)


def paired(node: Node, outcome: Outcome) -> Node:
    """The node with the NICs that pairing found. ConfigError naming every rail without one, and why."""
    found = {each.rail: each.nic.pci for each in outcome.rails}
    missing = [rail.name for rail in node.rails if rail.name not in found]
    if missing:
        findings = [*outcome.findings, *(Finding(f"rail {name}", "no NIC was paired") for name in missing)]
        raise ConfigError(f"nodeTypes.{node.type}.rails: auto, on this host", findings)
    return replace(node, rails=tuple(rail._replace(nic=found[rail.name]) for rail in node.rails))


def _problems(node: Node, rail: NodeRail) -> list[Finding]:
    path = f"nodeTypes.{node.type}"
    if rail.nic == "auto":
        return [Finding(f"{path}.rails", f"auto: the NIC of {rail.name} can only be found on the node itself")]
    return []


def _nic_key(rail: NodeRail) -> str:
    """A node type names NICs, so in mode sriov the PF whose VFs pods get."""
    if rail.mode == "sriov":
        return "pf"
    return "pci" if ":" in rail.nic else "netdev"


def _rail(rail: NodeRail) -> Json:
    routes = [{"dst": str(route)} for route in rail.routes]
    return {
        "name": rail.name,
        _nic_key(rail): rail.nic,
        "mode": rail.mode,
        **(rail.vf if rail.mode == "sriov" else {}),
        "mtu": rail.mtu,
        "ipam": {"ranges": [_range(each) for each in rail.ranges], **({"routes": routes} if routes else {})},
    }


def _range(each: AddressRange) -> Json:
    shape: Json = {"subnet": str(each.subnet), "rangeStart": str(each.range_start), "rangeEnd": str(each.range_end)}
    if each.gateway is not None:
        shape["gateway"] = str(each.gateway)
    if each.exclude:
        shape["exclude"] = [str(block) for block in each.exclude]
    return shape
