"""Answers of a switch's API, of several commands, put together into one switch. Pure.

EOS and NX-OS are read command by command. What a document holds is told by its content, not its label: a JSON object is
searched for the keys that only one command's answer has, whatever it is wrapped in (JSON-RPC, ``ins_api``, a list, an
object of command → answer).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.switch.model import Counters, Neighbour, Platform, Port, QosMap, Switch
from tuner.switch.text import Reading, UnreadableError, decode, parse_json, printable, shown
from tuner.switch.tree import Node, Visited
from tuner.switch.words import mac_or_name

__all__ = ["Bodies", "Draft", "gather"]

_DEEPEST = 12
_TEXTS = ("output", "msg", "body")  # where eAPI and NX-API put the answer of a command that was asked for as text


@dataclass(slots=True)
class Draft:
    """A switch in the making."""

    reading: Reading
    platform: Platform
    places: Mapping[str, str]
    ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    counters: dict[str, Counters] = field(default_factory=dict)
    maps: Mapping[str, Mapping[str, QosMap]] | None = None
    bindings_known: bool = False
    watchdog_poll: float | None = None
    watchdog_poll_place: str = ""
    hostname: str | None = None
    answers: int = 0
    """Documents, or parts of one, that were known."""

    def set(self, port: str, **fields: Any) -> None:
        """Fields of a port; None leaves what another answer said."""
        if printable(port) is None:
            self.reading.say("bad-value", "", f"{shown(port)} is not the name of a port", group="port name")
            return
        if not self.reading.room(self.ports, port):
            return
        told = {name: value for name, value in fields.items() if value is not None}
        self.ports.setdefault(port, {}).update(told)

    def count(self, port: str, **counters: Any) -> None:
        """Counters of a port, added to what other answers said."""
        self.set(port)
        if port in self.ports:
            self.counters[port] = self.counters.get(port, Counters()).merged(Counters(**counters))

    def neighbour(
        self,
        port: str,
        system: str | None,
        theirs: str | None,
        chassis: str | None,
        place: str,
        description: str | None = None,
    ) -> None:
        """What LLDP hears on a port."""
        self.set(port, neighbour=Neighbour(system, mac_or_name(theirs), mac_or_name(chassis), place, description))


Bodies = Mapping[str, Callable[[Node, Draft], None]]
"""Key that only one command's answer has → what reads the value below it."""


def gather(
    name: str, draft: Draft, documents: Mapping[str, bytes], bodies: Bodies, text: Callable[[str, Draft], None]
) -> Switch:
    """Read every document into the draft: JSON by ``bodies``, other text by ``text``, which counts what it knew."""
    broken = []
    for label, data in documents.items():
        before = draft.answers
        try:
            content = decode(data)
            if content.lstrip()[:1] in "{[":
                _json(parse_json(content, draft.reading), label, bodies, text, draft)
            else:
                text(content, draft)
        except UnreadableError as error:
            broken.append((label, str(error)))
            continue
        if draft.answers == before:
            broken.append((label, "has no answer in it to a command that is known here"))
    for label, why in broken:
        draft.reading.say("unreadable" if len(broken) == len(documents) else "partial", label, why)
    return _switch(name, ", ".join(documents), draft)


def _json(document: Any, label: str, bodies: Bodies, text: Callable[[str, Draft], None], draft: Draft) -> None:
    """Walk down to what is known; every known answer is read, and what it leaves unread is told."""
    visited = Visited()
    stack: list[tuple[Any, str, int]] = [(document, label, 0)]
    while stack:
        value, path, depth = stack.pop()
        if isinstance(value, dict):
            known = [key for key in bodies if value.get(key) is not None]
            node = Node(value, path, draft.reading, visited)
            for key in known:
                draft.answers += 1
                bodies[key](node.get(key), draft)
            for key in _TEXTS:
                if isinstance(value.get(key), str):
                    text(value[key], draft)
            children = [(f"{path}/{shown(key)}", child) for key, child in value.items() if key not in known]
        else:
            children = [(f"{path}[{at}]", child) for at, child in enumerate(value)] if isinstance(value, list) else []
        if depth < _DEEPEST:
            stack += [
                (child, where, depth + 1) for where, child in reversed(children) if isinstance(child, dict | list)
            ]
    visited.tell_ignored(draft.reading)


def _switch(name: str, source: str, draft: Draft) -> Switch:
    ports = {
        port: Port(name=port, counters=draft.counters.get(port), places=draft.places, **fields)
        for port, fields in draft.ports.items()
    }
    switch = Switch(
        name=name,
        platform=draft.platform,
        source=source,
        hostname=draft.hostname,
        ports=ports,
        maps=draft.maps,
        bindings_known=draft.bindings_known,
        watchdog_poll=None if draft.watchdog_poll is None else round(draft.watchdog_poll),
        watchdog_poll_place=draft.watchdog_poll_place,
        mtu_is_frame=False,
    )
    if draft.answers and not draft.bindings_known:
        draft.reading.say("partial", "", "has no running configuration in it: maps, trust and schedulers are unknown")
    return replace(switch, findings=draft.reading.findings())
