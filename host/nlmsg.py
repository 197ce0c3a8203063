"""pyroute2's sockets for the interfaces that are not on the plugin's path: dcbnl and ethtool.

The messages are our own (``host.dcbnl``, ``host.ethtool``); what pyroute2 gives is the socket, sequence numbers and the
kernel's error sentences. Refusals become HostError here, in one place.
Importing pyroute2 takes longer than the kernel needs for eight NICs, so only the tuner and the agent use this module.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from pyroute2.netlink import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST  # type: ignore[import-untyped]  # no stubs, no py.typed
from pyroute2.netlink.exceptions import NetlinkError  # type: ignore[import-untyped]
from pyroute2.netlink.generic import GenericNetlinkSocket  # type: ignore[import-untyped]
from pyroute2.netlink.nlsocket import NetlinkSocket  # type: ignore[import-untyped]

from host.errors import HostError

__all__ = ["Generic", "Route"]

_NETLINK_ROUTE = 0


class _Socket:
    """A socket of the network namespace that its maker was in; close it."""

    _socket: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the socket."""
        with suppress(OSError):
            self._socket.close()

    def ask(self, message: Any, kind: int, operation: str, target: str, *, dump: bool = False) -> list[Any]:
        """Send one request; the messages of the answer. HostError with the kernel's refusal."""
        flags = NLM_F_REQUEST | (NLM_F_DUMP if dump else NLM_F_ACK)
        answers: list[Any] = _translated(
            lambda: list(self._socket.nlm_request(message, kind, flags)), operation, target
        )
        return answers


class Route(_Socket):
    """A NETLINK_ROUTE socket that decodes answers of the given types with our message classes."""

    def __init__(self, classes: dict[int, Any]) -> None:
        self._socket = _translated(lambda: NetlinkSocket(family=_NETLINK_ROUTE, ext_ack=True), "open", "NETLINK_ROUTE")
        self._socket.bind()
        self._socket.register_policy(classes)


class Generic(_Socket):
    """A generic netlink socket of one family (``ethtool``). HostError where the kernel has no such family."""

    def __init__(self, family: str, message: Any) -> None:
        self._socket = GenericNetlinkSocket(ext_ack=True)
        try:
            _translated(lambda: self._socket.bind(family, message), "find generic netlink family", family)
        except HostError:
            self.close()
            raise

    def request(self, message: Any, operation: str, target: str, *, dump: bool = False) -> list[Any]:
        """Send one request of the family; the messages of the answer."""
        return self.ask(message, self._socket.prid, operation, target, dump=dump)


def _translated(action: Callable[[], Any], operation: str, target: str) -> Any:
    try:
        return action()
    except NetlinkError as error:
        told = str(error.args[1]) if len(error.args) > 1 else ""
        plain = HostError(operation, target, error.code)
        raise (plain if told in str(plain) else HostError(operation, target, error.code, told)) from None
    except OSError as error:
        raise HostError(operation, target, error.errno or 0) from error
