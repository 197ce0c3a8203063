"""Virtual functions over rtnetlink: structs as in linux/if_link.h, built by hand; the dump on the real kernel."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host import link, netns, sriov
from host.errors import HostError
from host.netlink import Route
from tests.world import World


def attr(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", len(payload) + 4, kind) + payload + b"\0" * (-len(payload) % 4)


def words(*values: int) -> bytes:
    return struct.pack(f"={len(values)}I", *values)


MAC = bytes.fromhex("020000000005")
PF = bytes.fromhex("a088c2461a2e")
STATE = sriov.VfState(
    vf=5,
    mac="02:00:00:00:00:05",
    vlan=100,
    vlan_qos=3,
    vlan_proto="802.1ad",
    min_tx_rate=1000,
    max_tx_rate=25000,
    spoofchk=True,
    trust=False,
    link_state="enable",
    node_guid="a088:c203:0046:1a2e",
    port_guid="a088:c203:0046:1a2f",
)


def vf_info(number: int = 5) -> bytes:
    """What rtnl_fill_vfinfo puts into IFLA_VF_INFO, broadcast address and statistics included."""
    return attr(
        1,
        b"".join(
            [
                attr(1, words(number) + MAC + b"\0" * 26),
                attr(13, b"\xff" * 6 + b"\0" * 26),
                attr(2, words(number, 100, 3)),
                attr(6, words(number, 1000, 25000)),
                attr(3, words(number, 25000)),
                attr(4, words(number, 1)),
                attr(5, words(number, 1)),
                attr(7, words(number, 0xFFFFFFFF)),
                attr(9, words(number, 0)),
                attr(10, words(number, 0) + struct.pack("=Q", 0xA088C20300461A2E)),
                attr(11, words(number, 0) + struct.pack("=Q", 0xA088C20300461A2F)),
                attr(12, attr(1, words(number, 100, 3) + b"\x88\xa8\0\0")),
                attr(8, attr(0, b"\0" * 8)),
            ]
        ),
    )


def message(*infos: bytes, address: bytes = PF) -> bytes:
    head = struct.pack("=BxHiII", 0, 1, 3, 0x1003, 0)
    return head + attr(3, b"eth2\0") + attr(1, address) + attr(21, words(len(infos))) + attr(22, b"".join(infos))


def test_parse() -> None:
    assert sriov.parse(message(vf_info())) == (STATE,)


def test_vfs_come_by_index() -> None:
    assert [state.vf for state in sriov.parse(message(vf_info(3), vf_info(0), vf_info(1)))] == [0, 1, 3]


def test_a_device_without_vfs_has_none() -> None:
    assert sriov.parse(struct.pack("=BxHiII", 0, 1, 3, 0, 0) + attr(3, b"lo\0")) == ()


def test_what_a_driver_does_not_tell_is_none() -> None:
    info = attr(1, attr(1, words(0) + b"\0" * 32) + attr(4, words(0, 0xFFFFFFFF)) + attr(9, words(0, 0xFFFFFFFF)))
    (state,) = sriov.parse(message(info))
    assert (state.spoofchk, state.trust, state.link_state) == (None, None, "auto")
    assert (state.mac, state.vlan_proto, state.node_guid) == ("00:00:00:00:00:00", "802.1q", "")


def test_an_ipoib_vf_has_a_long_address() -> None:
    info = attr(1, attr(1, words(0) + bytes(range(20)) + b"\0" * 12))
    (state,) = sriov.parse(message(info, address=bytes(20)))
    assert state.mac == bytes(range(20)).hex(":")


def body(kind: int, payload: bytes, index: int = 3) -> bytes:
    head = struct.pack("=BxHiII", 0, 0, index, 0, 0)
    return head + attr(22 | 0x8000, attr(1 | 0x8000, attr(kind, payload)))


def test_requests_carry_the_kernels_structs() -> None:
    assert sriov.set_mac(3, 5, "02:00:00:00:00:05").body == body(1, words(5) + MAC + b"\0" * 26)
    assert sriov.set_vlan(3, 5, 100, 3).body == body(2, words(5, 100, 3))
    vlans = attr(1, words(5, 100, 3) + b"\x88\xa8\0\0")
    assert sriov.set_vlan(3, 5, 100, 3, "802.1ad").body == body(12 | 0x8000, vlans)
    assert sriov.set_rate(3, 5, 1000, 25000).body == body(6, words(5, 1000, 25000))
    assert sriov.set_spoofchk(3, 5, True).body == body(4, words(5, 1))
    assert sriov.set_trust(3, 5, False).body == body(9, words(5, 0))
    assert sriov.set_link_state(3, 5, "disable").body == body(5, words(5, 2))
    guid = words(5, 0) + struct.pack("=Q", 0xA088C20300461A2E)
    assert sriov.set_node_guid(3, 5, "a088:c203:0046:1a2e").body == body(10, guid)
    assert sriov.set_port_guid(3, 5, "a088:c203:0046:1a2e").body == body(11, guid)


def test_a_refusal_will_name_setting_vf_and_pf() -> None:
    request = sriov.set_vlan(3, 5, 100, 3, "802.1ad", target="eth2")
    assert str(HostError(request.operation, request.target, errno.EOPNOTSUPP)) == (
        "set VLAN 100 qos 3 802.1ad on virtual function 5 of eth2: Operation not supported (ENOTSUP)"
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: sriov.set_link_state(3, 0, "on"),
        lambda: sriov.set_vlan(3, 0, 5, 0, "802.1x"),
        lambda: sriov.set_node_guid(3, 0, "a088"),
        lambda: sriov.set_mac(3, 0, "no MAC"),
    ],
)
def test_values_that_are_none_are_value_errors(make: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - four different sentences
        make()  # type: ignore[operator]  # a lambda


def test_no_change_needs_no_request() -> None:
    assert sriov.changes(3, STATE, STATE) == ()


def test_changes_are_ordered_and_only_what_differs() -> None:
    plain = sriov.VfState(5, "00:00:00:00:00:00", 0, 0, "802.1q", 0, 0, True, False, "auto", "", "")
    wanted = plain._replace(mac="02:00:00:00:00:05", vlan=7, trust=True, spoofchk=False, max_tx_rate=100)
    there = [request.operation for request in sriov.changes(3, plain, wanted)]
    assert there == [
        "set trust on on",
        "set spoofchk off on",
        "set VLAN 7 qos 0 802.1q on",
        "set MAC 02:00:00:00:00:05 on",
        "set rate 0 to 100 Mb/s on",
    ]
    back = [request.operation for request in sriov.changes(3, wanted, plain)]
    assert back == [
        "set VLAN 0 qos 0 802.1q on",
        "set MAC 00:00:00:00:00:00 on",
        "set rate 0 to 0 Mb/s on",
        "set spoofchk on on",
        "set trust off on",
    ]


def test_what_is_not_told_stays() -> None:
    unknown = STATE._replace(spoofchk=None, trust=None, node_guid="", port_guid="")
    assert sriov.changes(3, STATE, unknown) == ()
    assert [request.operation for request in sriov.changes(3, unknown, STATE)] == [
        "set node GUID a088:c203:0046:1a2e on",
        "set port GUID a088:c203:0046:1a2f on",
        "set spoofchk on on",
        "set trust off on",
    ]


def test_every_truncation_parses() -> None:
    whole = message(vf_info(0), vf_info(1))
    for end in range(16, len(whole)):
        assert len(sriov.parse(whole[:end])) <= 2


@given(
    st.lists(st.tuples(st.integers(0, 15), st.binary(max_size=40)), max_size=15).map(
        lambda attrs: message(attr(1, b"".join(attr(kind, payload) for kind, payload in attrs)))
    )
    | st.binary(max_size=200)
)
def test_hostile_bytes_parse(data: bytes) -> None:
    sriov.parse(data)


@pytest.mark.netns
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces")
def test_live_kernel() -> None:
    with World(rails=1) as world:
        host = netns.Netns.open(world.host().ns.path)
        with netns.inside(host):
            route = Route()
        host.close()
        with route:
            nic = next(device for device in link.devices(route) if device.name == "nic0")
            assert sriov.vfs(route, nic.ifindex) == ()
            with pytest.raises(HostError, match="virtual functions of eth9: No such device"):
                sriov.vfs(route, 4095, target="eth9")
            for error in route.each(sriov.changes(nic.ifindex, STATE._replace(mac="", vlan=0), STATE)):
                assert error is not None
                assert error.errno == errno.EOPNOTSUPP  # read by the kernel, not refused as malformed
