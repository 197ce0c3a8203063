"""Deleting links early is truthful: when the call returns, nobody can be reached by them, and their place is free."""

from __future__ import annotations

import errno
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from host import addr, grace, link
from host.netlink import Route
from host.netns import Netns, inside
from tests.netns.support import need, within
from tests.world import Host, Ns, World

GROUP = 4242
ADDRESS = "10.200.0.9"
_ARP, _BROADCAST = 0x0806, b"\xff" * 6


class Peer:
    """A machine on the rail that asks who has the address."""

    def __init__(self, space: Ns, device: str) -> None:
        with within(space):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP))
        self.socket.bind((device, _ARP))
        self.mac = self.socket.getsockname()[4]
        self.socket.setblocking(False)

    def ask(self) -> None:
        head = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1)
        body = head + self.mac + socket.inet_aton("10.200.0.77") + b"\0" * 6 + socket.inet_aton(ADDRESS)
        self.socket.send(_BROADCAST + self.mac + struct.pack("!H", _ARP) + body)

    def answers(self, wait: float = 0.0) -> list[str]:
        """MAC addresses that claimed to have it."""
        time.sleep(wait)
        found: list[str] = []
        while True:
            try:
                frame = self.socket.recv(2048)
            except BlockingIOError:
                return found
            if frame[20:22] == b"\0\x02" and frame[28:32] == socket.inet_aton(ADDRESS):
                found.append(frame[22:28].hex(":"))


class Rail:
    """A macvlan with the address in a pod."""

    def __init__(self, host: Host, pod: Ns, count: int = 1) -> None:
        self.pod = Netns.open(pod.path)
        with within(host.ns):
            below = Route()
        parent = next(device.ifindex for device in link.devices(below) if device.name == "nic0")
        below.run(
            [
                link.create(f"rail{n}", "macvlan", parent, netns_fd=self.pod.fd, mtu=1500, group=GROUP)
                for n in range(count)
            ]
        )
        below.close()
        with inside(self.pod):
            self.route = Route()
        self.devices = {device.name: device for device in link.devices(self.route)}
        up = [link.update(self.devices[f"rail{n}"].ifindex, up=True) for n in range(count)]
        self.route.run([*up, addr.add(self.devices["rail0"].ifindex, f"{ADDRESS}/24")])

    @property
    def mac(self) -> str:
        return self.devices["rail0"].mac

    def delete(self) -> bool:
        """Early; whether the kernel is still busy with it afterwards."""
        before = set(threading.enumerate())
        error = grace.delete(self.pod, self.route, GROUP)
        assert error is None or error.errno == errno.ENODEV, error
        return bool(set(threading.enumerate()) - before)

    def close(self) -> None:
        self.route.close()
        self.pod.close()


@pytest.fixture
def peer(world: World) -> Iterator[Peer]:
    """Beside the bridge of rail 0."""
    need("macvlan")
    space = world.ns("peer")
    world.fabric.ip("link", "add", "peer0", "type", "veth", "peer", "name", "eth0", "netns", space.name)
    world.fabric.ip("link", "set", "peer0", "master", "br0", "up")
    space.ip("link", "set", "eth0", "up")
    made = Peer(space, "eth0")
    yield made
    made.socket.close()


def settled() -> None:
    """No deletion under way: each waits for its grace period, 20 ms."""
    deadline = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.01)


def test_nobody_answers_for_the_address_once_the_call_has_returned(world: World, host: Host, peer: Peer) -> None:
    early = 0
    for number in range(10):
        rail = Rail(host, world.ns(f"pod{number}"), count=8)
        peer.ask()
        assert rail.mac in peer.answers(0.05)  # and the other seven: ARP flux, since nobody set arp_ignore
        for _ in range(20):  # frames on their way when the deletion begins
            peer.ask()
        early += rail.delete()
        peer.answers()  # what was answered before it returned
        for _ in range(20):
            peer.ask()
        assert peer.answers(0.05) == []
        assert [device.name for device in link.devices(rail.route)] == ["lo"]
        rail.close()
        settled()
    assert early >= 5, "the calls waited for the grace period: nothing was shown"


def test_the_address_serves_another_pod_at_once(world: World, host: Host, peer: Peer) -> None:
    for number in range(10):
        old = Rail(host, world.ns(f"old{number}"))
        old.delete()
        new = Rail(host, world.ns(f"new{number}"))
        peer.answers()
        peer.ask()
        assert peer.answers(0.05) == [new.mac]
        new.delete()
        old.close()
        new.close()


def test_the_names_are_free_in_the_same_pod_at_once(world: World, host: Host) -> None:
    need("macvlan")
    pod = world.ns("pod")
    for _ in range(10):
        rail = Rail(host, pod, count=4)
        rail.delete()
        rail.close()
    settled()
    assert [device["ifname"] for device in pod.json("link")] == ["lo"]


def test_a_group_without_links_is_told_as_such(world: World) -> None:
    pod = Netns.open(world.ns("pod").path)
    with inside(pod):
        route = Route()
    error = grace.delete(pod, route, GROUP)
    assert error is not None
    assert error.errno == errno.ENODEV
    route.close()
    pod.close()


def test_a_link_that_cannot_be_deleted_is_an_error(world: World) -> None:
    space = world.ns("pod")
    space.ip("link", "set", "lo", "group", str(GROUP))
    pod = Netns.open(space.path)
    with inside(pod):
        route = Route()
    error = grace.delete(pod, route, GROUP)
    assert error is not None
    assert error.errno == errno.EOPNOTSUPP
    route.close()
    pod.close()
