"""dcbnl's structures byte by byte (golden: what iproute2's dcb sends), and what a kernel without DCB answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host import dcbnl
from host.errors import HostError
from host.netlink import attributes, blob

GOLDEN = Path(__file__).parents[1] / "golden/dcbnl.txt"
EIGHT = tuple(range(8))
BYTES8 = st.tuples(*[st.integers(0, 255)] * 8)


def golden() -> dict[str, bytes]:
    lines = (line.split() for line in GOLDEN.read_text().splitlines() if not line.startswith("#"))
    return {name: bytes.fromhex(data) for name, data in lines}


OURS = {
    "ets": dcbnl.pack_ets(
        dcbnl.Ets(cap=8, tx_bw=(14, 14, 14, 16, 14, 14, 0, 14), tsa=(2, 2, 2, 2, 2, 2, 0, 2), prio_tc=EIGHT)
    ),
    "pfc": dcbnl.pack_pfc(dcbnl.Pfc(cap=8, enabled=1 << 3, delay=3)),
    "buffer": dcbnl.pack_buffer(dcbnl.Buffer((0, 0, 0, 1, 0, 0, 0, 0), (65536, 131072, 0, 0, 0, 0, 0, 0), 262016)),
    "app": dcbnl.pack_apps([dcbnl.App(dcbnl.DSCP, 3, 26), dcbnl.App(dcbnl.DSCP, 6, 48)]),
    "app-del": dcbnl.pack_apps([dcbnl.App(dcbnl.DSCP, 3, 26), dcbnl.App(dcbnl.DSCP, 6, 48)]),
    "app-pcp": dcbnl.pack_apps([dcbnl.App(dcbnl.PCP, 3, 3)]),
    "trust": dcbnl.pack_trust([dcbnl.DSCP, dcbnl.PCP]),
    "rewrite": dcbnl.pack_apps([dcbnl.App(dcbnl.DSCP, 3, 26)], rewrite=True),
}


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_bytes_are_dcb_s(name: str) -> None:
    assert attributes(OURS[name]) == attributes(golden()[name])


def test_every_golden_message_is_compared() -> None:
    assert set(golden()) == set(OURS)


def test_what_dcb_sends_is_read_as_it_was_meant() -> None:
    sent = golden()
    seen = dcbnl.parse_ieee(sent["ets"] + sent["pfc"] + sent["buffer"] + sent["app"] + sent["trust"] + sent["rewrite"])
    assert seen.ets is not None
    assert (seen.ets.cap, seen.ets.tx_bw[3], seen.ets.tsa[6], seen.ets.prio_tc) == (8, 16, 0, EIGHT)
    assert seen.pfc == dcbnl.Pfc(8, 8, 0, 3)
    assert seen.buffer == dcbnl.Buffer((0, 0, 0, 1, 0, 0, 0, 0), (65536, 131072, 0, 0, 0, 0, 0, 0), 262016)
    assert seen.apps == (dcbnl.App(5, 3, 26), dcbnl.App(5, 6, 48))
    assert seen.trust == (5, 255)
    assert seen.rewrite == (dcbnl.App(5, 3, 26),)
    assert seen.maxrate is None
    assert seen.peer_ets is None


@given(BYTES8, BYTES8, BYTES8, st.integers(0, 255))
def test_ets_survives_the_wire(bandwidth: tuple[int, ...], tsa: tuple[int, ...], tc: tuple[int, ...], cap: int) -> None:
    ets = dcbnl.Ets(1, cap, 1, bandwidth, bandwidth, tsa, tc, bandwidth, tsa, tc)
    assert dcbnl.parse_ieee(dcbnl.pack_ets(ets)).ets == ets


@given(st.tuples(*[st.integers(0, (1 << 64) - 1)] * 8))
def test_maxrate_survives_the_wire(kbps: tuple[int, ...]) -> None:
    assert dcbnl.parse_ieee(dcbnl.pack_maxrate(kbps)).maxrate == kbps


@given(st.integers(1, 300), st.integers(0, 15))
def test_a_structure_cut_short_is_unknown(length: int, kind: int) -> None:
    seen = dcbnl.parse_ieee(blob(kind, b"\xff" * length))
    sizes = {1: 59, 2: 136, 4: 59, 5: 136, 7: 64, 10: 44}
    found = {1: seen.ets, 2: seen.pfc, 4: seen.peer_ets, 5: seen.peer_pfc, 7: seen.maxrate, 10: seen.buffer}
    assert {number for number, value in found.items() if value is not None} == (
        {kind} if kind in sizes and length >= sizes[kind] else set()
    )


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    dcbnl.parse_ieee(data)


def test_a_device_without_dcb_is_none_and_a_missing_one_an_error() -> None:
    door = dcbnl.Dcb()
    try:
        assert door.get("lo") is None
        assert door.dcbx("lo") is None
        with pytest.raises(HostError, match="read the DCB of nosuch: No such device"):
            door.get("nosuch")
        with pytest.raises(HostError, match="set PFC of lo: Operation not supported"):
            door.set("lo", "PFC", dcbnl.pack_pfc(dcbnl.Pfc()))
    finally:
        door.close()
