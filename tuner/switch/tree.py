"""A JSON tree of unknown origin, read strictly: a wrong shape is a finding, and so is what nobody read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.switch.text import AMBIGUOUS, Reading, number, printable, shown

__all__ = ["Node", "Visited"]

_DEEPEST = 64


class Visited:
    """Which objects of a document somebody looked into, and at which of their keys."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[Mapping[str, Any], str, set[str]]] = {}

    def enter(self, value: Mapping[str, Any], pattern: str) -> set[str]:
        """The keys of an object that were read so far."""
        return self._objects.setdefault(id(value), (value, pattern, set()))[2]

    def tell_ignored(self, reading: Reading) -> None:
        """A finding for every object or list that no reader asked for; one for all members of a list of such."""
        for value, pattern, read in self._objects.values():
            for key, child in value.items():
                if key not in read and isinstance(child, dict | list) and child:
                    where = f"{pattern}/{shown(key)}"
                    reading.say("ignored", where, "no rule reads this", group=where)


class Node:
    """A place in a document. What is not there is a node too, with ``value`` None: unknown."""

    __slots__ = ("pattern", "place", "reading", "value", "visited")

    def __init__(self, value: Any, place: str, reading: Reading, visited: Visited, pattern: str = "") -> None:
        self.value = None if value is AMBIGUOUS else value
        self.place = place
        self.pattern = pattern or place
        self.reading = reading
        self.visited = visited

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *keys: str) -> Node:
        """The first of the keys that is there, below this node."""
        mapping = self._mapping()
        read = self.visited.enter(mapping, self.pattern) if mapping else set()
        for key in keys:
            if mapping.get(key) is not None:
                read.add(key)
                return self._child(key, mapping[key], f"{self.pattern}/{key}")
        return self._child(keys[0], None, f"{self.pattern}/{keys[0]}")

    def find(self, name: str) -> Node:
        """The member of this name below this node, with or without the YANG module before it (``module:name``)."""
        mapping = self._mapping()
        if name not in mapping:
            name = next((key for key in mapping if key.rpartition(":")[2] == name), name)
        return self.get(name)

    def at(self, *path: str) -> Node:
        """The node at a path below this one."""
        node = self
        for key in path:
            node = node.get(key)
        return node

    def items(self) -> Iterator[tuple[str, Node]]:
        """The members of an object used as a table: key and node. Keys that are no names are findings."""
        mapping = self._mapping()
        if mapping:
            self.visited.enter(mapping, self.pattern).update(mapping)
        for key, value in mapping.items():
            if printable(key) is None:
                self.reading.say("bad-value", self.place, f"{shown(key)} is not a name", group=self.place)
            elif value is not None:
                yield key, self._child(key, value, f"{self.pattern}/*")

    def rows(self) -> Iterator[Node]:
        """The members of a list; a lone object stands for a list of one, as NX-OS writes it."""
        if isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield Node(value, f"{self.place}[{index}]", self.reading, self.visited, f"{self.pattern}[]")
        elif isinstance(self.value, dict):
            yield self
        elif self.value is not None:
            self.reading.bad(self.place, self.value, "a list")

    def number(self, low: int, high: int) -> int | None:
        """A whole number within bounds; a finding where there is something else."""
        if self.value is None:
            return None
        result = number(self.value, low, high)
        if result is None:
            self.reading.bad(self.place, self.value, f"a whole number from {low} to {high}")
        return result

    def text(self) -> str | None:
        """Text; a finding where there is something else."""
        if self.value is None:
            return None
        result = printable(self.value)
        if result is None and self.value != "":
            self.reading.bad(self.place, self.value, "text")
        return result

    def flag(self, *words: tuple[str, str]) -> bool | None:
        """true and false, or one of the pairs of words that a platform uses for them."""
        pairs = (*words, ("true", "false"), ("on", "off"), ("enable", "disable"), ("enabled", "disabled"))
        if self.value is None or isinstance(self.value, bool):
            return self.value
        word = self.value.lower() if isinstance(self.value, str) else None
        for yes, no in pairs:
            if word in (yes, no):
                return word == yes
        self.reading.bad(self.place, self.value, "on or off")
        return None

    def _mapping(self) -> dict[str, Any]:
        if isinstance(self.value, dict):
            return self.value
        if self.value is not None:
            self.reading.bad(self.place, self.value, "an object")
        return {}

    def _child(self, key: str, value: Any, pattern: str) -> Node:
        return Node(value, f"{self.place}/{key}", self.reading, self.visited, pattern)
