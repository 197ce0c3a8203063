"""Packets on the fabric: announcements, pings between hosts, and each rail keeping to its own NIC."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.netns.support import MODES, added, need, within
from tests.world import Host, Ns, World

ETH_P_ALL, ARP, IPV6 = 3, 0x0806, 0x86DD
ICMPV6, NEIGHBOUR_ADVERTISEMENT = 58, 136


def dual(host: Host, mode: str) -> dict[str, Any]:
    conf = host.conf(mode=mode)
    for number, rail in enumerate(conf["rails"]):
        low = 0x10 * (host.number + 1)
        rail["ipam"]["ranges"].append(
            {
                "subnet": f"fd00:20{number}::/64",
                "rangeStart": f"fd00:20{number}::{low:x}",
                "gateway": f"fd00:20{number}::1",
            }
        )
    return conf


@contextmanager
def listening(space: Ns, device: str) -> Iterator[socket.socket]:
    """A packet socket on a device of another host."""
    with within(space):
        ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    with ear:
        ear.bind((device, ETH_P_ALL))
        ear.settimeout(0.1)
        yield ear


def heard(ear: socket.socket, seconds: float) -> Iterator[bytes]:
    """Frames, for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            yield ear.recv(65536)
        except TimeoutError:
            continue


def announcement(frame: bytes) -> tuple[str, str] | None:
    """(address, MAC) that a frame announces to all: a gratuitous ARP or an unsolicited neighbour advertisement."""
    (kind,) = struct.unpack_from("!H", frame, 12)
    if kind == ARP and len(frame) >= 42:
        mac, sender, target = frame[22:28], frame[28:32], frame[38:42]
        if sender == target and frame[:6] == b"\xff" * 6:
            return socket.inet_ntop(socket.AF_INET, sender), mac.hex(":")
    if kind == IPV6 and len(frame) >= 86 and frame[20] == ICMPV6 and frame[54] == NEIGHBOUR_ADVERTISEMENT:
        to_all = frame[38:54] == socket.inet_pton(socket.AF_INET6, "ff02::1")
        solicited, override = frame[58] & 0x40, frame[58] & 0x20
        if to_all and not solicited and override:
            return socket.inet_ntop(socket.AF_INET6, frame[62:78]), frame[80:86].hex(":")
    return None


@pytest.mark.parametrize("mode", MODES)
def test_every_address_is_announced_on_its_own_rail_only(world: World, mode: str) -> None:
    """Heard at another host; with host-device at the switch port, which begins to forward after its link is up."""
    need(mode)
    near, far, pod = world.host(), world.host(), world.ns("pod")
    space, ports = (far.ns, ("nic0", "nic1")) if mode != "host-device" else (world.fabric, ("h0r0", "h0r1"))
    with listening(space, ports[0]) as ear0, listening(space, ports[1]) as ear1:
        result = added(near, dual(near, mode), netns=pod)
        said = [
            {found for frame in heard(ear, seconds) if (found := announcement(frame))}
            for ear, seconds in ((ear0, 1.0), (ear1, 0.1))
        ]
    macs = [each["mac"] for each in result["interfaces"]]
    for rail in (0, 1):
        own = {(ip["address"].partition("/")[0], macs[rail]) for ip in result["ips"] if ip["interface"] == rail}
        assert len(own) == 2
        assert own <= said[rail]
        assert not own & said[1 - rail]


def received(space: Ns, device: str) -> int:
    (shown,) = json.loads(space.ip("-s", "-j", "link", "show", device))
    return int(shown["stats64"]["rx"]["packets"])


class Pair:
    """Two hosts with a pod each, attached to the same rails."""

    def __init__(self, world: World, mode: str) -> None:
        self.hosts = world.host(), world.host()
        self.pods = world.ns("pod0"), world.ns("pod1")
        self.results = [
            added(host, dual(host, mode), f"c{n}", pod)
            for n, (host, pod) in enumerate(zip(self.hosts, self.pods, strict=True))
        ]
        self.world = world

    def address(self, pod: int, rail: int, family: int) -> str:
        mine: list[str] = [
            ip["address"].partition("/")[0] for ip in self.results[pod]["ips"] if ip["interface"] == rail
        ]
        return next(address for address in mine if (":" in address) == (family == 6))

    def sent(self) -> list[int]:
        """Packets that came into the fabric from the first host, by rail."""
        return [received(self.world.fabric, f"h{self.hosts[0].number}r{rail}") for rail in (0, 1)]


@pytest.fixture(params=MODES)
def pair(world: World, request: pytest.FixtureRequest) -> Pair:
    need(request.param)
    return Pair(world, request.param)


@pytest.mark.parametrize("family", [4, 6])
def test_a_ping_from_each_rails_address_goes_out_of_that_rails_nic_only(pair: Pair, family: int) -> None:
    for rail in (0, 1):
        for source in (pair.address(0, rail, family), f"rail{rail}"):
            before = pair.sent()
            pair.pods[0].run(*("ping", "-c", "5", "-i", "0.01", "-W", "2", "-I", source, pair.address(1, rail, family)))
            grown = [after - earlier for after, earlier in zip(pair.sent(), before, strict=True)]
            assert grown[rail] >= 5
            assert grown[1 - rail] < 5


@pytest.mark.parametrize("family", [4, 6])
def test_full_sized_frames_pass(pair: Pair, family: int) -> None:
    payload = 9000 - (28 if family == 4 else 48)
    for rail in (0, 1):
        pair.pods[0].run(
            *("ping", "-c", "1", "-W", "2", "-M", "do", "-s", str(payload), "-I", pair.address(0, rail, family)),
            pair.address(1, rail, family),
        )


def test_no_rail_answers_arp_for_its_sibling(pair: Pair) -> None:
    """With rail0 and rail1 in one broadcast domain a host with loose ARP would answer on both."""
    world = pair.world
    world.fabric.ip("link", "add", "cross0", "type", "veth", "peer", "name", "cross1")
    for rail in (0, 1):
        world.fabric.ip("link", "set", f"cross{rail}", "master", f"br{rail}", "up")
    asker = pair.pods[0]
    target = pair.address(1, 1, 4)
    macs = [each["mac"] for each in pair.results[1]["interfaces"]]
    asker.ip("route", "add", f"{target}/32", "dev", "rail0")
    asker.ip("neigh", "flush", "all")
    asker.run("ping", "-c", "1", "-W", "1", "-I", "rail0", target, check=False)
    shown = [each for each in asker.json("neigh", "show", "dev", "rail0") if each.get("dst") == target]
    assert [each["lladdr"] for each in shown if "lladdr" in each] == [macs[1]]


@pytest.mark.parametrize("mode", ["macvlan", "ipvlan"])
def test_pods_of_one_host_reach_each_other_over_a_rail(world: World, mode: str) -> None:
    need(mode)
    host = world.host()
    one, two = world.ns("one"), world.ns("two")
    added(host, dual(host, mode), "c1", one)
    result = added(host, dual(host, mode), "c2", two)
    for ip in result["ips"]:
        one.run("ping", "-c", "1", "-W", "2", ip["address"].partition("/")[0])
