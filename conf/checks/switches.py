"""``switches`` and ``links``: every port is used once, and what is plugged in exists."""

from __future__ import annotations

from collections.abc import Iterator

from conf.checks.names import NamedNodes, expanded, some
from conf.draft import Draft, DraftCables, DraftSwitch
from conf.errors import Finding
from conf.findings import did_you_mean
from conf.paths import show
from conf.switches import Port, split_port

__all__ = ["check_switches"]


class _Used(dict[Port, str]):
    """Ports that are taken, with the path that took them."""

    def take(self, ports: list[Port], path: str) -> Iterator[Finding]:
        taken = [port for port in ports if port in self]
        self.update((port, path) for port in ports if port not in self)
        if taken:
            yield Finding(path, f"{some([str(port) for port in taken])}: already used by {self[taken[0]]}")


def check_switches(draft: Draft, nodes: NamedNodes) -> Iterator[Finding]:
    """Switches named twice, port lists of unequal length, unknown nodes, rails and switches, ports used twice."""
    first: dict[str, int] = {}
    for position, switch in enumerate(draft.switches):
        if switch.name and first.setdefault(switch.name, position) != position:
            path = f"switches[{position}].name"
            yield Finding(path, f"{switch.name} is also the name of switches[{first[switch.name]}]")
    used = _Used()
    known = {name for group in nodes.groups for name in group.names} if nodes.complete else None
    for position, switch in enumerate(draft.switches):
        for ports, nics in switch.ports.items():
            path = show(("switches", position, "ports", ports))
            yield from _ports(path, switch, ports, nics, used)
            yield from _nics(path, nics, known, draft.rail_names)
    complete = all(switch.name for switch in draft.switches)
    for position, link in enumerate(draft.links):
        yield from _link(f"links[{position}]", link, list(first) if complete else None, used)


def _ports(path: str, switch: DraftSwitch, ports: str, nics: str, used: _Used) -> Iterator[Finding]:
    names, finding = expanded(ports, path)
    if finding:
        yield finding
    others, _ = expanded(nics, path)
    if names and others and len(names) != len(others):
        yield Finding(path, f"{len(names)} ports, but {len(others)} NICs in {nics}")
    if switch.name:
        yield from used.take([Port(switch.name, port) for port in names], path)


def _nics(path: str, nics: str, nodes: set[str] | None, rails: frozenset[str] | None) -> Iterator[Finding]:
    names, finding = expanded(nics, path)
    if finding:
        yield finding
    pairs = [name.rpartition("/") for name in names]
    if any(not node or not rail for node, _, rail in pairs):
        yield Finding(path, f"{nics} is not node/rail, such as gpu-001/rail0")
        return
    strangers = [node for node, _, _ in pairs if nodes is not None and node not in nodes]
    if strangers:
        yield Finding(path, f"{some(strangers)}: not in nodes")
    for rail in dict.fromkeys(rail for _, _, rail in pairs):
        if rails is not None and rail not in rails:
            yield Finding(path, f"there is no rail {rail}" + did_you_mean(rail, sorted(rails)))


def _link(path: str, link: DraftCables, switches: list[str] | None, used: _Used) -> Iterator[Finding]:
    ends: list[int] = []
    for side, text in (("from", link.one), ("to", link.other)):
        names, finding = expanded(text, f"{path}.{side}")
        if finding:
            yield finding
        if names:
            ends.append(len(names))
            yield from _end(f"{path}.{side}", names, switches, used)
    if len(ends) == 2 and ends[0] != ends[1]:
        yield Finding(path, f"from names {ends[0]} ports and to names {ends[1]}; cables have two ends")


def _end(path: str, names: tuple[str, ...], switches: list[str] | None, used: _Used) -> Iterator[Finding]:
    ports = [split_port(name) for name in names]
    if not all(port.switch and port.port for port in ports):
        yield Finding(path, f"{some(names)}: not switch:port, such as leaf-r0:Ethernet0")
        return
    for name in dict.fromkeys(port.switch for port in ports):
        if switches is not None and name not in switches:
            yield Finding(path, f"there is no switch {name}" + did_you_mean(name, switches))
    yield from used.take(ports, path)
