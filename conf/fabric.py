"""``fabric.yaml``: the one description of a cluster's parameter plane that every tool reads.

``parse`` takes text and gives a ``Fabric``, or one ConfigError with every mistake in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from conf.base import Block
from conf.checks import check
from conf.cniblock import Cni, Routing
from conf.draft import draft
from conf.errors import ConfigError, Finding
from conf.findings import translate
from conf.lint import Lint, Suppression
from conf.names import Name
from conf.nodes import NodeGroup, NodeType, RailNic
from conf.probe import Budget, Probe
from conf.qos import Cnp, Ecn, Lossless, Qos
from conf.rails import NodeBlock, Rail
from conf.switches import Attachment, Link, Port, Source, Switch
from conf.yamltext import MAX_BYTES, read

__all__ = [
    "Attachment",
    "Budget",
    "Cni",
    "Cnp",
    "Ecn",
    "Fabric",
    "Link",
    "Lint",
    "Lossless",
    "Metadata",
    "NodeBlock",
    "NodeGroup",
    "NodeType",
    "Port",
    "Probe",
    "Qos",
    "Rail",
    "RailNic",
    "Routing",
    "Source",
    "Suppression",
    "Switch",
    "load",
    "parse",
]


MAX_FINDINGS = 1000
"""A person reads these; what has more is not a fabric.yaml."""


class Metadata(Block):
    """What the fabric is called."""

    name: Name
    """The cluster's name; also the CNI network's."""


class Fabric(Block):
    """A cluster's parameter plane: rails, QoS class, nodes, switches, cabling and probe policy."""

    api_version: Literal["roceway/v1"]
    """The version of this format."""
    kind: Literal["Fabric"]
    """The kind of document."""
    metadata: Metadata
    """What the fabric is called."""
    rails: tuple[Rail, ...] = Field(min_length=1, max_length=64)
    """The parallel networks, in the order of a node's NICs."""
    qos: Qos = Field(default_factory=lambda: Qos.model_validate({}))
    """The QoS class; the profile lossless-dscp if left out."""
    node_types: Mapping[Name, NodeType] = Field(min_length=1)
    """Kinds of machines, by a name that nodes refer to."""
    nodes: tuple[NodeGroup, ...] = Field(min_length=1)
    """Which hosts there are, and of which type."""
    switches: tuple[Switch, ...] = ()
    """The switches and what is plugged into them."""
    links: tuple[Link, ...] = ()
    """Cables between switches."""
    probe: Probe = Probe()
    """The all-reduce probe's policy."""
    cni: Cni = Cni()
    """How pods are attached."""
    lint: Lint = Lint()
    """Settings of the linter."""


def parse(text: str, source: str = "fabric.yaml") -> Fabric:
    """The fabric that ``text`` describes. ConfigError with every finding: bad YAML, bad fields, and contradictions."""
    document, duplicates = read(text, source)
    fabric, invalid = _validate(document)
    findings = tuple(dict.fromkeys(islice(chain(duplicates, invalid, check(draft(document))), MAX_FINDINGS + 1)))
    if len(findings) > MAX_FINDINGS:
        findings = (
            *findings[:MAX_FINDINGS],
            Finding("", f"there is more; the first {MAX_FINDINGS} findings are shown"),
        )
    if fabric is None or findings:
        raise ConfigError(source, findings)
    return fabric


def load(path: Path) -> Fabric:
    """The fabric in a file. ConfigError as ``parse``, and where the file cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ConfigError(str(path), [Finding("", f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [Finding("", f"is not UTF-8 text (byte {error.start})")]) from None
    return parse(text, str(path))


def _only_seems_short(error: ErrorDetails) -> bool:
    """pydantic counts the readable items of a list; what is wrong with the others is told already."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def _validate(document: object) -> tuple[Fabric | None, Iterable[Finding]]:
    """The fabric, or what is wrong with single fields."""
    if document is None:
        return None, (Finding("", "the file is empty"),)
    try:
        return Fabric.model_validate(document), ()
    except ValidationError as invalid:
        errors = [error for error in invalid.errors(include_url=False) if not _only_seems_short(error)]
        return None, (translate(error, document, Fabric) for error in errors)
