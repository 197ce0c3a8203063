"""The door of ``prove`` to frames: sends probes on an interface, and catches those that arrive."""

from __future__ import annotations

import socket
import struct
import threading
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_interface
from typing import Any

from pyroute2 import IPRoute, NetlinkError  # type: ignore[import-untyped]  # no stubs

from host import addr, link
from host.errors import HostError
from host.netlink import Route
from tuner.prove import MAGIC, Plan, Probe, Tally, tally
from tuner.wire import BadFrame, make_probe, read_probe

__all__ = ["Catch", "Nic", "next_hop", "nic", "send"]

_LONGEST_WAIT = 60.0  # seconds
_QUIET = 0.5  # seconds without a probe after which what is on the way has arrived
_BUFFER = 64 << 20  # bytes of frames that the kernel keeps until we read them
_ETH_P_ALL = 0x0003
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 26, 33
# The probe's first four bytes stand behind Ethernet, IPv4 or IPv6, UDP and the transport header.
_AT = (14 + 20 + 8 + 12, 14 + 40 + 8 + 12)


@dataclass(frozen=True, slots=True)
class Nic:
    """The interface that probes leave by and arrive at."""

    name: str
    mac: str
    address: IPv4Address | IPv6Address
    prefix: int


def nic(name: str, family: int = 4) -> Nic:
    """An interface, by netdev name, PCI address or alternative name, and its first address of a family.

    HostError where there is none.
    """
    route = Route()
    try:
        device = next((each for each in link.devices(route) if name in (each.name, each.pci, *each.altnames)), None)
        if device is None:
            raise HostError("probe on", name, detail="there is no such interface here")
        for each in addr.addresses(route):
            found = ip_interface(each.prefix)
            if each.ifindex == device.ifindex and each.scope == 0 and found.version == family:
                return Nic(device.name, device.mac, found.ip, found.network.prefixlen)
    finally:
        route.close()
    raise HostError("probe on", name, detail=f"it has no IPv{family} address")


def next_hop(mine: Nic, target: IPv4Address | IPv6Address, theirs: str) -> str:
    """The MAC address that frames to ``target`` go to: the other NIC's, or a router's between two subnets."""
    if mine.address.version != target.version:
        raise HostError(
            "find the way to", str(target), detail=f"from {mine.address}: give --ipv6 at both ends or neither"
        )
    shift = mine.address.max_prefixlen - mine.prefix
    if int(mine.address) >> shift == int(target) >> shift:
        return theirs
    with IPRoute() as route:
        index = route.link_lookup(ifname=mine.name)[0]
        try:
            (way,) = route.route("get", dst=str(target), oif=index)
            gateway = way.get("RTA_GATEWAY")
            found = route.get_neighbours(ifindex=index, dst=gateway) if gateway else ()
        except NetlinkError as error:
            raise HostError("find the way to", str(target), detail=str(error)) from None
        for each in found:
            if each.get("NDA_LLADDR"):
                return str(each.get("NDA_LLADDR"))
    raise HostError("find the way to", str(target), detail=f"the gateway {gateway} has not been heard; ping it once")


# --- frames --------------------------------------------------------------------------------------------------------


class Catch:
    """Catches probes on an interface, from ``with`` on until :meth:`done`."""

    def __init__(self, interface: str) -> None:
        self._interface = interface
        self._frames: list[bytes] = []
        self._stop = threading.Event()
        self.missed = 0
        """Frames that this host itself was too slow for; they are no loss of the network."""

    def __enter__(self) -> Catch:
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
            _filter(self._socket)
            self._socket.bind((self._interface, _ETH_P_ALL))
        except OSError as error:
            raise HostError("catch frames on", self._interface, error.errno or 0) from None
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        self._socket.settimeout(0.05)
        while not self._stop.is_set():
            try:
                data, address = self._socket.recvfrom(65536)
            except TimeoutError:
                continue
            except OSError:
                return  # the interface went away; what was caught is what there is
            if address[2] != socket.PACKET_OUTGOING:
                self._frames.append(data)
                self._last = time.monotonic()

    def done(self, run: bytes, way: int) -> Tally:
        """Wait until nothing more comes, and count a run's probes of one direction."""
        asked = time.monotonic()
        while time.monotonic() < min(asked + _LONGEST_WAIT, max(asked, self._last) + _QUIET):
            time.sleep(0.05)
        statistics = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self.missed += struct.unpack("=II", statistics)[1]
        return tally(_probes(self._frames), run, way)


def _probes(frames: list[bytes]) -> Iterator[Any]:
    for frame in frames:
        try:
            yield read_probe(frame)
        except BadFrame:
            continue


def _filter(packets: socket.socket) -> None:
    """Let the kernel keep only frames with the probe's mark: a rail carries millions of others."""
    mark = int.from_bytes(MAGIC[:4], "big")
    load, equal, answer = 0x20, 0x15, 0x06  # ld [k], jeq, ret (linux/bpf_common.h)
    program = (
        (load, 0, 0, _AT[0]),
        (equal, 2, 0, mark),
        (load, 0, 0, _AT[1]),
        (equal, 0, 1, mark),
        (answer, 0, 0, 0xFFFF),
        (answer, 0, 0, 0),
    )
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    memory = array("B", code)  # must live until the call: struct sock_fprog holds its address
    packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(program), memory.buffer_info()[0]))


def send(interface: str, plan: Plan, way: int, mine: Nic, target: IPv4Address | IPv6Address, mac: str) -> None:
    """Every probe of the plan, the markings taking turns, at the plan's rate."""
    frames = _frames(plan, way, mine, target, mac)
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as packets:
            packets.bind((interface, 0))
            start = time.monotonic()
            for number, frame in enumerate(frames):
                ahead = start + number / plan.rate - time.monotonic()
                if ahead > 0.002:
                    time.sleep(ahead)
                packets.send(frame)
    except OSError as error:
        raise HostError("send probes on", interface, error.errno or 0) from None


def _frames(plan: Plan, way: int, mine: Nic, target: IPv4Address | IPv6Address, mac: str) -> Iterator[bytes]:
    for sequence in range(plan.count):
        for marking in plan.markings:
            yield make_probe(
                Probe(
                    run=plan.run,
                    way=way,
                    dscp=marking.dscp,
                    ecn=marking.ecn,
                    sequence=sequence,
                    source=mine.address,
                    target=target,
                    source_mac=mine.mac,
                    target_mac=mac,
                    size=plan.size,
                    port=plan.port,
                )
            )
