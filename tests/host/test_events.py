"""Notifications as values: real ones from this kernel, and bytes that are none."""

from __future__ import annotations

import os
import struct

from hypothesis import given
from hypothesis import strategies as st

from host import netns
from host.events import Event, Events, parse
from host.netlink import text
from tests.world import Ns


def test_a_link_and_an_address_are_heard() -> None:
    ns = Ns(f"rwev{os.getpid()}")
    try:
        space = netns.Netns.open(ns.path)
        with netns.inside(space):
            events = Events()
        space.close()
        ns.ip("link", "add", "rail0", "type", "veth", "peer", "name", "far0")
        ns.ip("addr", "add", "10.200.0.1/24", "dev", "rail0")
        ns.ip("link", "del", "rail0")
        heard = [event for _ in range(20) for event in events.wait(0.05)]
        events.close()
    finally:
        ns.delete()
    kinds = [(event.kind, event.device) for event in heard]
    assert ("link", "rail0") in kinds
    assert ("link-gone", "rail0") in kinds
    assert any(event.kind == "address" for event in heard)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    parse(data)


def test_dcb_events_name_their_device() -> None:
    body = struct.pack("=BBH", 0, 20, 0) + text(1, "eth2")
    message = struct.pack("=IHHII", 16 + len(body), 79, 0, 0, 0) + body
    assert parse(message * 2) == (Event("dcb", "eth2"),) * 2


def test_nothing_comes_in_no_time() -> None:
    ns = Ns(f"rwev{os.getpid()}")
    try:
        space = netns.Netns.open(ns.path)
        with netns.inside(space):
            events = Events()
        space.close()
        assert events.wait(0) == ()
        events.close()
    finally:
        ns.delete()
