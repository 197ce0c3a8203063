from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conf.blocks import address_range, block, blocks_in
from conf.errors import ConfigError
from conf.fabric import Rail
from conf.names import IPNetwork
from conf.node import AddressRange, node, node_names
from tests.conf.documents import document, fabric, one_rail, rail


def ranges(host: str = "h0", **fields: Any) -> list[str]:
    """``subnet start-end gateway (exclude)`` of each range of one host on a one-rail fabric."""
    return [shown(one) for one in node(fabric(**one_rail(**fields)), host).rails[0].ranges]


def shown(one: AddressRange) -> str:
    words = [str(one.subnet), f"{one.range_start}-{one.range_end}", f"via {one.gateway}" if one.gateway else ""]
    return " ".join([*filter(None, words), *(f"not {hole}" for hole in one.exclude)])


@pytest.mark.parametrize(
    ("host", "fields", "wanted"),
    [
        ("h0", {}, ["10.200.0.0/24 10.200.0.1-10.200.0.31"]),
        ("h1", {}, ["10.200.0.0/24 10.200.0.32-10.200.0.63"]),
        ("h7", {"hosts": "h[0-7]"}, ["10.200.0.0/24 10.200.0.224-10.200.0.254"]),
        ("h0", {"gateway": "first"}, ["10.200.0.0/24 10.200.0.2-10.200.0.31 via 10.200.0.1"]),
        ("h1", {"gateway": "first"}, ["10.200.0.0/24 10.200.0.32-10.200.0.63 via 10.200.0.1"]),
        (
            "h1",
            {"gateway": "10.200.0.40"},
            ["10.200.0.0/24 10.200.0.32-10.200.0.63 via 10.200.0.40 not 10.200.0.40/32"],
        ),
        ("h1", {"exclude": ["10.200.0.32/29", "10.200.0.63"]}, ["10.200.0.0/24 10.200.0.40-10.200.0.62"]),
        (
            "h1",
            {"exclude": ["10.200.0.48/30", "10.200.0.0/30"]},
            ["10.200.0.0/24 10.200.0.32-10.200.0.63 not 10.200.0.48/30"],
        ),
        ("h0", {"addressing": "routed"}, ["10.200.0.0/27 10.200.0.2-10.200.0.30 via 10.200.0.1"]),
        ("h1", {"addressing": "routed"}, ["10.200.0.32/27 10.200.0.34-10.200.0.62 via 10.200.0.33"]),
        (
            "h1",
            {"addressing": "routed", "nodeBlock": 31},
            ["10.200.0.2/31 10.200.0.3-10.200.0.3 via 10.200.0.2"],
        ),
        ("h1", {"nodeBlock": 31}, ["10.200.0.0/24 10.200.0.2-10.200.0.3"]),
        (
            "h1",
            {"hosts": "h[0-1]", "subnet": "10.200.0.0/31", "nodeBlock": 32},
            ["10.200.0.0/31 10.200.0.1-10.200.0.1"],
        ),
        ("h0", {"subnet": "fd00::/56", "nodeBlock": 64}, ["fd00::/56 fd00::1-fd00::ffff:ffff:ffff:ffff"]),
        (
            "h1",
            {"subnet": "fd00::/120", "nodeBlock": 127, "addressing": "routed"},
            ["fd00::2/127 fd00::3-fd00::3 via fd00::2"],
        ),
        (
            "h1",
            {"subnet": None, "subnets": ["10.200.0.0/24", "fd00::/56"], "nodeBlock": {"v4": 27, "v6": 64}},
            ["10.200.0.0/24 10.200.0.32-10.200.0.63", "fd00::/56 fd00:0:0:1::-fd00::1:ffff:ffff:ffff:ffff"],
        ),
    ],
)
def test_a_host_gives_out_the_usable_addresses_of_its_block(host: str, fields: Any, wanted: list[str]) -> None:
    assert ranges(host, **fields) == wanted


def test_the_nth_host_gets_the_nth_block_of_every_rail() -> None:
    groups = [{"match": "h[0-3]", "type": "gpu"}, {"match": "g[7-8]", "type": "gpu", "firstIndex": 5}]
    second = node(fabric(nodes=groups), "g8")
    assert (second.name, second.index, second.type, second.driver) == ("g8", 6, "gpu", None)
    assert [str(one.ranges[0].range_start) for one in second.rails] == ["10.200.0.192", "10.201.0.192"]


def test_rails_come_in_the_fabrics_order_with_their_nics() -> None:
    kind = {
        "speed": "100G",
        "mode": "sriov",
        "mtu": 4200,
        "rails": {
            "rail1": {"nic": "0000:AB:00.1", "vlan": 7, "vlanQoS": 3, "spoofchk": "off", "nodeGUID": "own-mac"},
            "rail0": "eth2",
        },
    }
    first, second = node(fabric(nodeTypes={"gpu": kind}), "h0").rails
    assert (first.name, first.nic, first.mode, first.mtu, first.vf) == ("rail0", "eth2", "sriov", 4200, {})
    assert (second.nic, second.vf) == (
        "0000:ab:00.1",
        {"vlan": 7, "vlanQoS": 3, "spoofchk": "off", "nodeGUID": "own-mac"},
    )


def test_what_the_type_leaves_out_is_auto_and_the_class_mtu() -> None:
    (only,) = node(fabric(**one_rail(), qos={"mtu": 4096}), "h0").rails
    assert (only.nic, only.mtu, only.routes) == ("auto", 4096, ())


def test_a_routed_rail_has_a_route_to_the_whole_rail() -> None:
    (only,) = node(fabric(**one_rail(addressing="routed")), "h0").rails
    assert [str(route) for route in only.routes] == ["10.200.0.0/24"]


def test_an_unknown_host_is_told_with_its_nearest_name() -> None:
    cluster = fabric(nodes=[{"match": "gpu-[001-004]", "type": "gpu"}], switches=None, links=None)
    assert node_names(cluster) == ("gpu-001", "gpu-002", "gpu-003", "gpu-004")
    with pytest.raises(ConfigError, match=r"no entry matches the host gpu-0003; did you mean gpu-003\?"):
        node(cluster, "gpu-0003")
    with pytest.raises(ConfigError, match="no entry matches the host login; there is gpu-001, gpu-002"):
        node(cluster, "login")
    with pytest.raises(ConfigError, match="no entry matches the host ;"):
        node(cluster, "")


@st.composite
def rails_and_hosts(draw: st.DrawFn) -> tuple[Rail, IPNetwork, int]:
    """A rail of one network, cut in any way, and how many blocks to look at."""
    width = draw(st.sampled_from([32, 128]))
    prefix = draw(st.integers(8, width - 1))
    length = draw(st.integers(prefix, min(width, prefix + 12)))
    number = draw(st.integers(0, (1 << prefix) - 1)) << (width - prefix)
    network: IPNetwork = ip_network((number, prefix)) if width == 128 or number >> 32 == 0 else ip_network(number)
    assume(network.max_prefixlen == width and not network.is_multicast and not network.is_loopback)
    fields = rail(
        subnet=str(network),
        nodeBlock=length,
        addressing=draw(st.sampled_from(["flat", "routed"])),
        exclude=[str(network.network_address + draw(st.integers(0, network.num_addresses - 1)))],
    )
    if fields["addressing"] == "flat":
        fields["gateway"] = draw(st.sampled_from(["none", "first"]))
    return Rail.model_validate(fields), network, min(blocks_in(network, length), 40)


@given(rails_and_hosts())
def test_blocks_are_disjoint_and_inside_the_rail_and_hold_no_reserved_address(
    case: tuple[Rail, IPNetwork, int],
) -> None:
    one, network, count = case
    prefix = one.block_prefix(network.version)
    assert prefix is not None
    end = int(network.network_address)
    for index in range(count):
        own = block(network, prefix, index)
        assert int(own.network_address) == end
        end = int(own.broadcast_address) + 1
        try:
            given_out = address_range(one, network, index)
        except ValueError:
            continue
        assert int(own[0]) <= int(given_out.range_start) <= int(given_out.range_end) <= int(own[-1])
        for edge in (given_out.range_start, given_out.range_end):
            assert edge != given_out.gateway
            assert not any(edge in hole for hole in one.exclude)
            if given_out.subnet.prefixlen < given_out.subnet.max_prefixlen - 1:
                assert edge != given_out.subnet.network_address
                assert edge.version == 6 or edge != given_out.subnet.broadcast_address
        assert given_out.subnet == (own if one.addressing == "routed" else network)
    assert end <= int(network.broadcast_address) + 1


def test_the_last_block_ends_with_the_network() -> None:
    network = ip_network("10.0.0.0/8")
    assert block(network, 30, blocks_in(network, 30) - 1)[-1] == network[-1]
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/8 holds 4194304 blocks of /30, none with index 4194304"):
        block(network, 30, blocks_in(network, 30))


def test_a_document_of_the_tests_is_correct() -> None:
    assert fabric().metadata.name == document()["metadata"]["name"]
