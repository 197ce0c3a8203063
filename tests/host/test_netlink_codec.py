"""Bytes of netlink: what is sent has the kernel's layout, what is received never breaks the reader."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host import addr, link, route, rule
from host.netlink import attributes, blob, flag8, nested, repeated, string, text, u16, u32

PAYLOADS = st.binary(max_size=40)
KINDS = st.integers(0, 0x3FFF)


@given(KINDS, PAYLOADS)
def test_an_attribute_is_its_length_its_type_its_payload_and_padding(kind: int, payload: bytes) -> None:
    raw = blob(kind, payload)
    assert len(raw) % 4 == 0
    assert struct.unpack_from("=HH", raw) == (4 + len(payload), kind), "the length is without the padding"
    assert raw[4 : 4 + len(payload)] == payload
    assert not raw[4 + len(payload) :].strip(b"\0")


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (u32(4, 0x01020304), "0800 0400 04030201"),
        (u16(1, 0x0102), "0600 0100 0201 0000"),
        (flag8(21, 82), "0500 1500 52 000000"),
        (text(3, "eth0"), "0900 0300 65746830 00 000000"),
        (text(3, "é"), "0700 0300 c3a9 00 00"),
        (blob(1, b""), "0400 0100"),
        (nested(18, text(1, "a")), "0a00 1280 0600 0100 6100 0000"),
        (nested(18), "0400 1280"),
    ],
)
def test_little_endian_bytes_as_the_kernel_has_them(raw: bytes, wanted: str) -> None:
    if struct.pack("=H", 1) == b"\1\0":
        wanted_bytes = bytes.fromhex(wanted)
        # A nested attribute's own length counts its children with their padding.
        if raw[2:4] == b"\x12\x80" and len(raw) > 4:
            wanted_bytes = struct.pack("<H", len(raw)) + wanted_bytes[2:]
        assert raw == wanted_bytes


@given(st.lists(st.tuples(KINDS, PAYLOADS), max_size=8))
def test_what_is_written_is_read_back_in_order(pairs: list[tuple[int, bytes]]) -> None:
    raw = b"".join(blob(kind, payload) for kind, payload in pairs)
    assert list(repeated(raw)) == pairs
    assert attributes(raw) == dict(pairs)


@given(st.lists(st.tuples(KINDS, st.lists(st.tuples(KINDS, PAYLOADS), max_size=4)), max_size=4))
def test_nesting_is_read_back(tree: list[tuple[int, list[tuple[int, bytes]]]]) -> None:
    raw = b"".join(nested(kind, *(blob(*leaf) for leaf in leaves)) for kind, leaves in tree)
    assert [(kind, list(repeated(inner))) for kind, inner in repeated(raw)] == tree


@given(st.binary(max_size=200), st.integers(0, 50))
def test_no_bytes_break_the_reader(data: bytes, offset: int) -> None:
    found = list(repeated(data, offset))
    assert sum(4 + len(payload) for _, payload in found) <= max(0, len(data) - offset)


@pytest.mark.parametrize("length", [0, 1, 3, 5, 200, 65535])
def test_a_length_that_cannot_be_ends_the_reading(length: int) -> None:
    good = blob(1, b"good")
    assert list(repeated(good + struct.pack("=HH", length, 2))) == [(1, b"good")]


@given(st.binary(max_size=30))
def test_a_string_ends_at_its_nul_and_is_text_whatever_the_bytes(payload: bytes) -> None:
    assert "\0" not in string(payload)
    string(payload).encode()


HEADER = struct.pack("=BxHiII", 0, 1, 7, 0x1, 0)


@given(st.lists(st.tuples(st.integers(1, 60), st.binary(min_size=1, max_size=12)), max_size=12))
def test_a_link_of_any_attributes_is_parsed(pairs: list[tuple[int, bytes]]) -> None:
    device = link.parse(HEADER + b"".join(blob(kind, payload) for kind, payload in pairs))
    assert (device.ifindex, device.up) == (7, True)


def test_a_link_cut_anywhere_is_parsed() -> None:
    whole = HEADER + (
        text(3, "rail0")
        + u32(4, 9000)
        + blob(1, bytes(6))
        + nested(18, text(1, "macvlan"))
        + nested(52, text(53, "one"), text(53, "two"))
        + nested(26, nested(2, blob(1, struct.pack("=32i", *range(32)))))
    )
    assert link.parse(whole).altnames == ("one", "two")
    assert dict(link.parse(whole).conf4) == {"rp_filter": 7, "arp_announce": 17, "arp_ignore": 18, "arp_notify": 21}
    for end in range(len(HEADER), len(whole)):
        assert link.parse(whole[:end]).ifindex == 7


def body_of(raw: bytes, header: int) -> dict[int, bytes]:
    return attributes(raw, header)


def test_a_link_is_created_straight_in_the_other_namespace() -> None:
    request = link.create("rail0", "macvlan", 3, netns_fd=9, mtu=9000, group=0x40000001, mac="02:00:00:00:00:01")
    attrs = body_of(request.body, 16)
    assert request.kind == 16
    assert request.flags == 0x400 | 0x200  # CREATE, EXCL
    assert string(attrs[3]) == "rail0"
    assert [struct.unpack("=I", attrs[kind])[0] for kind in (5, 4, 27, 28)] == [3, 9000, 0x40000001, 9]
    assert attrs[1] == bytes.fromhex("020000000001")
    info = attributes(attrs[18])
    assert string(info[1]) == "macvlan"
    assert attributes(info[2]) == {1: struct.pack("=I", 4)}


def test_without_a_mac_the_kernel_chooses() -> None:
    request = link.create("rail0", "ipvlan", 3, netns_fd=9, mtu=9000, group=1)
    assert 1 not in body_of(request.body, 16)
    assert attributes(attributes(body_of(request.body, 16)[18])[2]) == {1: struct.pack("=H", 0)}


def test_a_change_carries_only_what_changes() -> None:
    assert body_of(link.update(7, up=True).body, 16) == {}
    assert struct.unpack_from("=BxHiII", link.update(7, up=True).body) == (0, 0, 7, 1, 1)
    assert struct.unpack_from("=BxHiII", link.update(7, mtu=1500).body) == (0, 0, 7, 0, 0)
    assert body_of(link.update(7, mtu=1500).body, 16) == {4: struct.pack("=I", 1500)}
    conf = attributes(attributes(body_of(link.update(7, conf4=[("arp_ignore", 1)]).body, 16)[26])[2])
    assert attributes(conf[1]) == {19: struct.pack("=I", 1)}


@pytest.mark.parametrize(("prefix", "family", "size"), [("10.0.0.2/24", 2, 4), ("fd00::2/64", 10, 16)])
def test_an_address_is_usable_at_once(prefix: str, family: int, size: int) -> None:
    request = addr.add(7, prefix)
    got, length, flags, scope, index = struct.unpack_from("=BBBBI", request.body)
    assert (got, length, scope, index) == (family, int(prefix.partition("/")[2]), 0, 7)
    assert flags & 0x02
    attrs = body_of(request.body, 8)
    assert attrs[1] == attrs[2]
    assert len(attrs[1]) == size


@pytest.mark.parametrize(
    ("destination", "gateway", "family", "length", "scope"),
    [
        ("10.0.0.0/24", "", 2, 24, 253),
        ("default", "10.0.0.1", 2, 0, 0),
        ("default", "fd00::1", 10, 0, 0),
        ("fd00::/64", "", 10, 64, 253),
        ("10.9.0.0/16", "10.0.0.1", 2, 16, 0),
    ],
)
def test_a_route_says_its_family_and_scope(
    destination: str, gateway: str, family: int, length: int, scope: int
) -> None:
    request = route.add(7, destination, table=1000, gateway=gateway, source="")
    head = struct.unpack_from("=BBBBBBBBI", request.body)
    assert (head[0], head[1], head[5], head[6], head[7]) == (family, length, route.OURS, scope, 1)
    attrs = body_of(request.body, 12)
    assert struct.unpack("=I", attrs[15]) == (1000,)
    assert request.flags == 0x400 | 0x200, "never in the place of another's route"
    assert (5 in attrs) == bool(gateway)
    assert (1 in attrs) == (destination != "default")


def test_a_rule_is_deleted_by_everything_that_made_it() -> None:
    made, gone = rule.add("10.0.0.2/32", 1000, 1001), rule.delete("10.0.0.2/32", 1000, 1001)
    assert (made.kind, gone.kind) == (32, 33)
    assert made.body == gone.body
