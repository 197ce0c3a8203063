from __future__ import annotations

from typing import Any

import pytest

from tests.conf.documents import document, fabric, findings, one_rail, rail

TWO = document()["rails"]


def rails(**fields: Any) -> dict[str, Any]:
    """Changes that bend the second rail."""
    second = {key: value for key, value in (TWO[1] | fields).items() if value is not None}
    return {"rails": [TWO[0], second]}


def node_type(**fields: Any) -> dict[str, Any]:
    return {"nodeTypes": {"gpu": document()["nodeTypes"]["gpu"] | fields}}


def ports(**cables: str) -> dict[str, Any]:
    """Changes that plug these cables into leaf0: ``E0`` stands for ``Ethernet[0-12:4]``, E1 for the next four."""
    names = {"E0": "Ethernet[0-12:4]", "E1": "Ethernet[16-28:4]", "E2": "Ethernet[0,40]"}
    leaf = document()["switches"][0] | {"ports": {names[key]: nics for key, nics in cables.items()}}
    return {"switches": [leaf, document()["switches"][1]]}


CASES = [
    # rails
    (
        rails(name="rail0") | node_type(rails="auto") | {"switches": None, "links": None},
        "rails[1].name",
        "rail0 is also the name of rails[0]",
    ),
    (
        rails(subnet="10.200.0.0/16"),
        "rails[1].subnet",
        "10.200.0.0/16 overlaps 10.200.0.0/24 of rails[0].subnet; every rail has a network of its own",
    ),
    (
        rails(subnet="10.200.0.128/25", nodeBlock=27),
        "rails[1].subnet",
        "10.200.0.128/25 overlaps 10.200.0.0/24 of rails[0].subnet; every rail has a network of its own",
    ),
    (rails(nodeBlock=23), "rails[1].nodeBlock", "a /23 does not fit into 10.201.0.0/24; write a number from 24 on"),
    (rails(nodeBlock=33), "rails[1].nodeBlock", "/33 is no IPv4 prefix; the longest is /32"),
    (rails(nodeBlock=25), "rails[1].nodeBlock", "h3 has index 3, but 10.201.0.0/24 holds 2 blocks of /25"),
    (rails(nodeBlock=32), "rails[1].nodeBlock", "10.201.0.0/32 holds no address that can be given to a pod (h0)"),
    (
        rails(nodeBlock={"v6": 64}),
        "rails[1].nodeBlock",
        "v4 is missing for the rail's network\nv6 has no network of that family",
    ),
    (
        rails(subnet=None, subnets=["10.201.0.0/24", "fd00::/56"]),
        "rails[1].nodeBlock",
        "two address families need a length each; write {v4: 27, v6: 64}",
    ),
    (
        rails(subnet=None, subnets=["10.201.0.0/24", "10.202.0.0/24"], nodeBlock={"v4": 27}),
        "rails[1].subnets[1]",
        "a second IPv4 network; a rail has one of each family",
    ),
    (rails(gateway="10.9.0.1"), "rails[1].gateway", "10.9.0.1 is outside 10.201.0.0/24"),
    (rails(gateway="fd00::1"), "rails[1].gateway", "fd00::1 is outside 10.201.0.0/24"),
    (
        rails(gateway="10.201.0.255"),
        "rails[1].gateway",
        "10.201.0.255 is the network or broadcast address of 10.201.0.0/24",
    ),
    (
        rails(addressing="routed", gateway="none"),
        "rails[1].gateway",
        "a routed rail has a gateway in every node's block: write first, not none",
    ),
    (
        rails(addressing="routed", gateway="10.201.0.1"),
        "rails[1].gateway",
        "a routed rail has a gateway in every node's block: write first, not 10.201.0.1",
    ),
    (rails(exclude=["10.9.0.1"]), "rails[1].exclude[0]", "10.9.0.1/32 is outside the rail's network"),
    (
        rails(exclude=["10.201.0.64/27"]),
        "rails[1].nodeBlock",
        "10.201.0.64/27 holds no address that can be given to a pod (h2)",
    ),
    (
        rails(exclude=["10.201.0.64/28", "10.201.0.80/28"]),
        "rails[1].nodeBlock",
        "10.201.0.64/27 holds no address that can be given to a pod (h2)",
    ),
    (
        rails(exclude=["10.201.0.64/26"]),
        "rails[1].nodeBlock",
        "10.201.0.64/27 holds no address that can be given to a pod (h2)",
    ),
    (
        rails(nodeBlock=31, gateway="first"),
        "rails[1].nodeBlock",
        "10.201.0.0/31 holds no address that can be given to a pod (h0)",
    ),
    (
        one_rail(subnet="10.200.0.0/30", nodeBlock=32, hosts="h[1-4]"),
        "rails[0].nodeBlock",
        "10.200.0.0/32 holds no address that can be given to a pod (h1)",
    ),
    # qos
    (
        {"qos": {"cnp": {"priority": 3}}},
        "qos.cnp.priority",
        "3 is also lossless.priority: a CNP must not be paused by the congestion that it reports",
    ),
    (
        {"qos": {"lossless": {"dscp": 48}}},
        "qos.cnp.dscp",
        "48 is also lossless.dscp: a CNP must not be paused by the congestion that it reports",
    ),
    # node types
    (
        node_type(rails={"rail0": "eth2", "rail1": "eth3", "rail2": "eth4"}),
        "nodeTypes.gpu.rails.rail2",
        "there is no rail rail2; did you mean rail1?",
    ),
    (node_type(rails={"rail0": "eth2"}), "nodeTypes.gpu.rails", "no NIC is given for rail1"),
    (node_type(rails={"rail0": "eth2", "rail1": "eth2"}), "nodeTypes.gpu.rails.rail1", "eth2 is also the NIC of rail0"),
    (
        node_type(rails={"rail0": "0000:AB:00.0", "rail1": "0000:ab:00.0"}),
        "nodeTypes.gpu.rails.rail1",
        "0000:ab:00.0 is also the NIC of rail0",
    ),
    (
        node_type(rails={"rail0": {"nic": "eth2", "vlan": 5}, "rail1": "eth3"}),
        "nodeTypes.gpu.rails.rail0",
        "vlan: settings of virtual functions, which mode macvlan has none of",
    ),
    (
        node_type(mode="sriov", rails={"rail0": {"nic": "eth2", "min_tx_rate": 9, "max_tx_rate": 5}, "rail1": "eth3"}),
        "nodeTypes.gpu.rails.rail0",
        "min_tx_rate 9 is above max_tx_rate 5",
    ),
    (
        node_type(mode="sriov", rails={"rail0": {"nic": "eth2", "mac": "02:00:00:00:00:01"}, "rail1": "eth3"}),
        "nodeTypes.gpu.rails.rail0",
        "mac would be the same on 4 hosts",
    ),
    # nodes
    (
        {"nodes": [{"match": "h[0-3]", "type": "gpus"}]},
        "nodes[0].type",
        "there is no node type gpus; did you mean gpu?",
    ),
    ({"nodes": [{"match": "h[0-3],h2", "type": "gpu"}]}, "nodes[0].match", "h[0-3],h2 names h2 twice"),
    (
        {"nodes": [{"match": "h[0-3]", "type": "gpu"}, {"match": "h[2-4]", "type": "gpu", "firstIndex": 4}]},
        "nodes[1].match",
        "h2, h3: also matched by nodes[0]",
    ),
    (
        {"nodes": [{"match": "h[0-3]", "type": "gpu"}, {"match": "g[0-1]", "type": "gpu", "firstIndex": 3}]},
        "nodes[1].firstIndex",
        "g0 would have index 3 and so the addresses of h3 (nodes[0]); from 5 on indices are free",
    ),
    # switches and links
    (
        {"switches": [document()["switches"][0], document()["switches"][1] | {"name": "leaf0"}], "links": None},
        "switches[1].name",
        "leaf0 is also the name of switches[0]",
    ),
    (ports(E0="h[0-2]/rail0"), 'switches[0].ports["Ethernet[0-12:4]"]', "4 ports, but 3 NICs in h[0-2]/rail0"),
    (ports(E0="h[1-4]/rail0"), 'switches[0].ports["Ethernet[0-12:4]"]', "h4: not in nodes"),
    (ports(E0="h[0-3]/rail9"), 'switches[0].ports["Ethernet[0-12:4]"]', "there is no rail rail9; did you mean rail1?"),
    (ports(E0="h[0-3]"), 'switches[0].ports["Ethernet[0-12:4]"]', "h[0-3] is not node/rail, such as gpu-001/rail0"),
    (
        ports(E0="h[0-3]/rail0", E2="h[0-1]/rail1"),
        'switches[0].ports["Ethernet[0,40]"]',
        'leaf0:Ethernet0: already used by switches[0].ports["Ethernet[0-12:4]"]',
    ),
    (
        {"links": [{"from": "leaf0:Ethernet0", "to": "spine0:Ethernet1/1"}]},
        "links[0].from",
        'leaf0:Ethernet0: already used by switches[0].ports["Ethernet[0-12:4]"]',
    ),
    (
        {"links": [{"from": "leaf0:Ethernet32", "to": "spine1:Ethernet1/1"}]},
        "links[0].to",
        "there is no switch spine1; did you mean spine0?",
    ),
    (
        {"links": [{"from": "leaf0:Ethernet[32,36]", "to": "spine0:Ethernet1/1"}]},
        "links[0]",
        "from names 2 ports and to names 1; cables have two ends",
    ),
    (
        {"links": [{"from": "leaf0", "to": "spine0:Ethernet1/1"}]},
        "links[0].from",
        "leaf0: not switch:port, such as leaf-r0:Ethernet0",
    ),
]


@pytest.mark.parametrize(
    ("changes", "path", "message"), CASES, ids=[f"{path}-{n}" for n, (_, path, _) in enumerate(CASES)]
)
def test_a_contradiction_is_one_finding_at_its_path(changes: dict[str, Any], path: str, message: str) -> None:
    assert findings(**changes) == {path: message}


@pytest.mark.parametrize(
    "changes",
    [
        rails(subnet="10.200.1.0/24"),
        rails(subnet="fd00:201::/48", nodeBlock=64),
        rails(subnet=None, subnets=["10.201.0.0/24", "fd00::/56"], nodeBlock={"v4": 27, "v6": 64}),
        rails(nodeBlock=31),
        rails(nodeBlock=30, gateway="first"),
        rails(nodeBlock=31, addressing="routed"),
        rails(gateway="10.201.0.254", exclude=["10.201.0.96/28"]),
        one_rail(hosts="h[0-7]"),
        one_rail(hosts="h0", subnet="10.200.0.0/31", nodeBlock=31),
        one_rail(hosts="h[0-1]", subnet="10.200.0.0/31", nodeBlock=32),
        node_type(mode="sriov", rails={"rail0": {"nic": "eth2", "vlan": 5, "trust": "on"}, "rail1": "eth3"}),
        {"nodes": [{"match": "h[0-3]", "type": "gpu"}, {"match": "g[0-1]", "type": "gpu", "firstIndex": 4}]},
        {"links": None},
        {"qos": {"lossless": {"priority": 6}, "cnp": {"priority": 3}}},
    ],
)
def test_what_does_not_contradict_itself_is_no_finding(changes: dict[str, Any]) -> None:
    assert fabric(**changes)


def test_every_host_that_a_rail_has_no_room_for_is_covered_by_one_finding() -> None:
    assert list(findings(**one_rail(hosts="h[0-255]"))) == ["rails[0].nodeBlock"]


def test_a_rail_with_a_bad_field_is_still_compared_with_the_others() -> None:
    told = findings(rails=[TWO[0], rail(name="rail1", nodeBlok=3, subnet="10.200.0.0/25", gateway="x")])
    assert set(told) == {"rails[1].nodeBlok", "rails[1].gateway", "rails[1].subnet"}
