"""The conversation of the two ends of ``prove``: who sends when, and what each of them counted.

The conversation is JSON, one line per message, over one TCP connection; it runs over the rail itself or, where the rail
may be deaf in one direction, over any other network. Each end runs one exchange and then stops listening.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from host.errors import HostError
from host.ethtool import Ethtool
from tuner.counters import counters
from tuner.nic import Counters
from tuner.prove import BACK, OUT, Plan, Tally, plan_from_json, tally_from_json, tally_to_json
from tuner.prove_frames import Catch, Nic, next_hop, send
from tuner.record import decode, encode

__all__ = ["CONTROL_PORT", "Exchange", "listen", "prove"]

CONTROL_PORT = 4792
_HELLO = 5.0  # seconds; a sender says what it wants at once
_LONGEST = 1 << 20  # bytes of a message
_ANSWER = 60.0  # seconds; an end sends for at most this long before it says so

_log = logging.getLogger(__name__)


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

    def hear(self, seconds: float = _ANSWER) -> dict[str, Any]:
        """The next message. HostError when there is none, or it tells of an error at the other end."""
        self._connection.settimeout(seconds)
        try:
            line = self._file.readline(_LONGEST)
            message = json.loads(line) if line.endswith(b"\n") else None
        except TimeoutError:
            raise HostError("talk to", self.peer, detail=f"no answer within {seconds:.0f} s") from None
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
    send(mine.name, plan, OUT, mine, their_address, next_hop(mine, their_address, their_mac))
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
def _server(address: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, port), family=family, backlog=1)
    except OSError as error:
        raise HostError("listen on", f"{address} port {port}", error.errno or 0) from None
    try:
        yield server
    finally:
        server.close()


class _Stranger(Exception):  # noqa: N818 - it says who came
    """Somebody connected who does not speak as a sender does."""


def listen(interface: Nic, control: tuple[str, int], seconds: float) -> tuple[str, Plan]:
    """Wait for one sender and do one exchange with it; its address and what it wanted. HostError where nobody comes.

    Whoever connects and is no sender (a port scan, a health check) is told so and forgotten.
    """
    end = time.monotonic() + seconds
    with _server(*control) as server:
        while (left := end - time.monotonic()) > 0:
            server.settimeout(left)
            try:
                connection, peer = server.accept()
            except TimeoutError:
                break
            try:
                return str(peer[0]), _serve(_Talk(connection, str(peer[0])), interface)
            except _Stranger as stranger:
                _log.warning("%s; still listening", stranger)
    raise HostError("listen on", control[0], detail=f"nobody came within {seconds:g} s")


def _serve(talk: _Talk, mine: Nic) -> Plan:
    """One exchange; the other end hears of a mistake, too."""
    try:
        return _answer(talk, mine)
    except (HostError, _Stranger) as error:
        with contextlib.suppress(HostError):
            talk.say(error=str(error))
        raise
    finally:
        talk.close()


def _answer(talk: _Talk, mine: Nic) -> Plan:
    try:
        wanted = talk.hear(_HELLO)
    except HostError as error:
        raise _Stranger(str(error)) from None
    try:
        plan = plan_from_json(wanted.get("plan"))
    except ValueError as error:
        raise HostError("prove for", talk.peer, detail=f"its plan has a mistake: {error}") from None
    their_address, their_mac = _end(wanted, talk)
    hop = next_hop(mine, their_address, their_mac)
    with Catch(mine.name) as catch:
        talk.say(address=str(mine.address), mac=mine.mac, counters=encode(_counted(mine.name)))
        talk.hear()  # they have sent
        counts = catch.done(plan.run, OUT)
        talk.say(tally=tally_to_json(counts), missed=catch.missed)
    send(mine.name, plan, BACK, mine, their_address, hop)
    talk.say(sent=True)
    talk.hear()  # they have counted
    talk.say(counters=encode(_counted(mine.name)))
    return plan
