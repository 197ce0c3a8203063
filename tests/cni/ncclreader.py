"""Reads a topology file as NCCL 2.28 does, character by character: what its reader refuses, this one refuses.

After the rules of src/graph/xml.cc (xmlGetNode, xmlGetToken, xmlGetValue, xmlLoadSub) and src/graph/topo.cc
(what attributes a node must have), written anew.
"""

from __future__ import annotations

from typing import NamedTuple

_MAX_STR = 255
_CHILDREN = {
    "": ("system",),
    "system": ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic", "pcilink"),
    "gpu": ("nvlink", "c2c"),
    "nic": ("net",),
}
_BANDWIDTHS = ("2.5 GT/s", "5.0 GT/s", "8.0 GT/s", "16.0 GT/s", "32.0 GT/s", "64.0 GT/s")


class Element(NamedTuple):
    """One tag."""

    name: str
    attributes: dict[str, str]
    children: list[Element]


class RefusedError(Exception):
    """NCCL would end here."""


class _Text:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def char(self) -> str:
        if self.at >= len(self.text):
            raise RefusedError("Unexpected EOF")
        self.at += 1
        return self.text[self.at - 1]

    def token(self, *, value: bool) -> tuple[str, str, str]:
        """Name, value and the character that ended it."""
        name = ""
        while True:
            char = self.char()
            if char == "=":
                if not value:
                    raise RefusedError(f"Unexpected value with name {name}")
                return name, *self.value()
            if char in " >/\n\r":
                return name, "", char
            name += char
            if len(name) >= _MAX_STR:
                raise RefusedError(f"name {name} too long")

    def value(self) -> tuple[str, str]:
        quote = self.char()
        if quote not in "\"'":
            raise RefusedError("Expected (double) quote.")
        value = ""
        while (char := self.char()) != quote:
            value += char
            if len(value) >= _MAX_STR:
                raise RefusedError(f"value {value} too long")
        return value, self.char()

    def node(self) -> tuple[str, str, dict[str, str]] | None:
        """Kind (open, close, single), name and attributes; None at the end."""
        while self.at < len(self.text) and self.text[self.at] in " \n\r":
            self.at += 1
        if self.at >= len(self.text):
            return None
        if (char := self.char()) != "<":
            raise RefusedError(f"expecting '<', got {char!r}")
        name, _, last = self.token(value=False)
        if not name and last == "/":
            name, _, last = self.token(value=False)
            if last != ">":
                raise RefusedError(f"unexpected trailing {last!r} in closing tag {name}")
            return "close", name, {}
        attributes = {}
        while last == " ":
            key, value, last = self.token(value=True)
            attributes[key] = value
        kind = "open"
        if last == "/":
            kind = "single"
            _, _, last = self.token(value=False)
        if last != ">":
            raise RefusedError(f"expected >, got {last!r}")
        return kind, name, attributes


def read(text: str) -> Element:
    """The system element."""
    root = Element("", {}, [])
    _load(_Text(text), root, single=False)
    (system,) = root.children
    if int(system.attributes["version"]) != 1:
        raise RefusedError("wrong version")
    _check(system)
    return system


def _load(text: _Text, head: Element, *, single: bool) -> None:
    while not single:
        found = text.node()
        if found is None:
            if head.name:
                raise RefusedError(f"unterminated {head.name}")
            return
        kind, name, attributes = found
        if kind == "close":
            if name != head.name:
                raise RefusedError(f"Mismatch : {head.name} / {name}")
            return
        if name not in _CHILDREN.get(head.name, ()):
            raise RefusedError(f"{name} below {head.name or 'the top'} is ignored")
        element = Element(name, attributes, [])
        head.children.append(element)
        _load(text, element, single=kind == "single")


def _check(element: Element) -> None:
    """What topo.cc insists on, and what it would guess at for want of knowing the word."""
    attributes = element.attributes
    if element.name == "cpu":
        int(attributes["numaid"])
        if attributes["arch"] == "x86_64":
            assert attributes["vendor"] in ("GenuineIntel", "AuthenticAMD"), attributes
            int(attributes["familyid"])
            int(attributes["modelid"])
    if element.name == "pci":
        assert attributes["class"].startswith("0x"), attributes
        if "link_speed" in attributes:
            assert attributes["link_speed"].startswith(_BANDWIDTHS), attributes
            assert int(attributes["link_width"]) > 0, attributes
    for child in element.children:
        _check(child)
