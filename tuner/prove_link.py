"""The door of ``prove``: sends and catches probes on an interface, and the conversation of the two ends about them.

The conversation is JSON, one line per message, over one TCP connection; it runs over the rail itself or, where the rail
may be deaf in one direction, over any other network. Each end runs one exchange and then stops listening.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Any

from pyroute2 import IPRoute, NetlinkError  # type: ignore[import-untyped]  # no stubs

from host import addr, link
from host.errors import HostError
from host.ethtool import Ethtool
from host.netlink import Route
from tuner.counters import counters
from tuner.nic import Counters
from tuner.prove import BACK, MAGIC, OUT, Plan, Probe, Tally, plan_from_json, tally, tally_from_json, tally_to_json
from tuner.record import decode, encode
from tuner.wire import BadFrame, make_probe, read_probe

__all__ = ["CONTROL_PORT", "Catch", "Exchange", "Nic", "listen", "nic", "prove"]

CONTROL_PORT = 4792
_LONGEST = 1 << 20  # bytes of a message
_ANSWER = 60.0  # seconds; an end sends for at most this long before it says so
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


def _next_hop(mine: Nic, target: IPv4Address | IPv6Address, theirs: str) -> str:
    """The MAC address that frames to ``target`` go to: the other NIC's, or a router's between two subnets."""
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
        while time.monotonic() < min(asked + _ANSWER, max(asked, self._last) + _QUIET):
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


def _send(interface: str, plan: Plan, way: int, mine: Nic, target: IPv4Address | IPv6Address, mac: str) -> None:
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


# --- conversation --------------------------------------------------------------------------------------------------


class _Talk:
    """Messages of one connection."""

    def __init__(self, connection: socket.socket, peer: str) -> None:
        connection.settimeout(_ANSWER)
        self._connection = connection
        self._file = connection.makefile("rb")
        self.peer = peer

    def say(self, **message: Any) -> None:
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise HostError("talk to", self.peer, error.errno or 0) from None

    def hear(self) -> dict[str, Any]:
        """The next message. HostError when there is none, or it tells of an error at the other end."""
        try:
            line = self._file.readline(_LONGEST)
            message = json.loads(line) if line.endswith(b"\n") else None
        except TimeoutError:
            raise HostError("talk to", self.peer, detail=f"no answer within {_ANSWER:.0f} s") from None
        except OSError as error:
            raise HostError("talk to", self.peer, error.errno or 0) from None
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise HostError("talk to", self.peer, detail="it hung up, or is no roceway-tune prove")
        if "error" in message:
            raise HostError("prove at", self.peer, detail=str(message["error"])[:500])
        return message

    def close(self) -> None:
        self._file.close()
        self._connection.close()


@dataclass(frozen=True, slots=True)
class Exchange:
    """What both ends found."""

    plan: Plan
    out: Tally
    back: Tally
    missed: tuple[int, int]
    """Frames that the listener and the sender were themselves too slow for."""
    before: tuple[Counters | None, Counters | None]
    """Counters of the sender's and the listener's NIC."""
    after: tuple[Counters | None, Counters | None]


def _counted(interface: str) -> Counters | None:
    """None where the driver has no statistics that are known here."""
    doors = Ethtool()
    try:
        return counters(doors.statistics(interface), {})
    except HostError:
        return None
    finally:
        doors.close()


def _from_json(value: Any) -> Counters | None:
    try:
        return None if value is None else decode(Counters, value, "counters")
    except ValueError:
        return None


def prove(interface: Nic, plan: Plan, control: tuple[str, int]) -> Exchange:
    """Exchange the plan's probes with the listener at ``control``, in both directions. HostError where that fails."""
    try:
        connection = socket.create_connection(control, timeout=10)
    except OSError as error:
        detail = "is `roceway-tune prove --listen` running there?"
        raise HostError("talk to", f"{control[0]} port {control[1]}", error.errno or 0, detail) from None
    talk = _Talk(connection, control[0])
    try:
        return _ask(talk, interface, plan)
    finally:
        talk.close()


def _ask(talk: _Talk, mine: Nic, plan: Plan) -> Exchange:
    talk.say(plan=plan.json(), address=str(mine.address), mac=mine.mac)
    ready = talk.hear()
    their_address, their_mac = _end(ready, talk)
    before = (_counted(mine.name), _from_json(ready.get("counters")))
    _send(mine.name, plan, OUT, mine, their_address, _next_hop(mine, their_address, their_mac))
    with Catch(mine.name) as catch:
        talk.say(sent=True)
        heard = talk.hear()  # their count; they have begun to send
        talk.hear()  # they have sent
        back = catch.done(plan.run, BACK)
        missed = catch.missed
    talk.say(counted=True)
    last = talk.hear()
    return Exchange(
        plan=plan,
        out=_tally(heard, talk),
        back=back,
        missed=(_number(heard.get("missed")), missed),
        before=before,
        after=(_counted(mine.name), _from_json(last.get("counters"))),
    )


def _end(message: dict[str, Any], talk: _Talk) -> tuple[IPv4Address | IPv6Address, str]:
    """Address and MAC that the other end told."""
    try:
        address, mac = ip_address(message["address"]), message["mac"]
        if not isinstance(mac, str) or len(bytes.fromhex(mac.replace(":", ""))) != 6:
            raise ValueError(mac)
    except (ValueError, KeyError, TypeError):
        raise HostError("talk to", talk.peer, detail="it does not say what its NIC is") from None
    return address, mac


def _tally(message: dict[str, Any], talk: _Talk) -> Tally:
    try:
        return tally_from_json(message.get("tally"))
    except ValueError as error:
        raise HostError("talk to", talk.peer, detail=f"its count {error}") from None


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 10**9 else 0


@contextmanager
def _server(address: str, port: int, seconds: float) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, port), family=family, backlog=1)
    except OSError as error:
        raise HostError("listen on", f"{address} port {port}", error.errno or 0) from None
    server.settimeout(seconds)
    try:
        yield server
    finally:
        server.close()


def listen(interface: Nic, control: tuple[str, int], seconds: float) -> tuple[str, Plan]:
    """Wait for one sender and do one exchange with it; its address and what it wanted. HostError where nobody comes."""
    with _server(*control, seconds) as server:
        try:
            connection, peer = server.accept()
        except TimeoutError:
            raise HostError("listen on", control[0], detail=f"nobody came within {seconds:g} s") from None
        talk = _Talk(connection, str(peer[0]))
        try:
            return str(peer[0]), _answer(talk, interface)
        except HostError as error:
            with contextlib.suppress(HostError):
                talk.say(error=str(error))
            raise
        finally:
            talk.close()


def _answer(talk: _Talk, mine: Nic) -> Plan:
    wanted = talk.hear()
    try:
        plan = plan_from_json(wanted.get("plan"))
    except ValueError as error:
        raise HostError("prove for", talk.peer, detail=f"its plan has a mistake: {error}") from None
    their_address, their_mac = _end(wanted, talk)
    hop = _next_hop(mine, their_address, their_mac)
    with Catch(mine.name) as catch:
        talk.say(address=str(mine.address), mac=mine.mac, counters=encode(_counted(mine.name)))
        talk.hear()  # they have sent
        counts = catch.done(plan.run, OUT)
        talk.say(tally=tally_to_json(counts), missed=catch.missed)
    _send(mine.name, plan, BACK, mine, their_address, hop)
    talk.say(sent=True)
    talk.hear()  # they have counted
    talk.say(counters=encode(_counted(mine.name)))
    return plan
