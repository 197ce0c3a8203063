"""``switches`` and ``links``: which switch port each NIC is plugged into, and how switches are joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from conf.base import Block
from conf.hostlist import HostList, expand
from conf.names import Form, Name
from conf.units import Length, Speed

__all__ = ["Attachment", "Link", "Platform", "Port", "Role", "Source", "Switch"]

Platform = Literal["sonic", "cumulus", "eos", "nxos", "dell-sonic"]
Role = Literal["leaf", "spine", "superspine"]

_REDIS = r"^(unix:/\S+|[^\s:@/]+(:[0-9]{1,5})?|\[[0-9a-fA-F:]+\](:[0-9]{1,5})?)$"
# Not beginning with '-': a host name is handed to ssh as an argument.
_SSH = r"^([^\s:@/-][^\s:@/]*@)?[^\s:@/-][^\s:@/]*(:[0-9]{1,5})?$"
_REST = r"^https?://[^\s/@]+(/\S*)?$"


SOURCES: Mapping[Platform, tuple[str, ...]] = {
    "sonic": ("file", "redis", "ssh"),
    "dell-sonic": ("file", "redis", "ssh", "rest"),
    **dict.fromkeys(("cumulus", "eos", "nxos"), ("file", "ssh", "rest")),
}
"""How each operating system can be read."""


class Port(NamedTuple):
    """One port of one switch."""

    switch: str
    port: str

    def __str__(self) -> str:
        return f"{self.switch}:{self.port}"


class Attachment(NamedTuple):
    """A cable between a switch port and a node's NIC."""

    port: str
    node: str
    rail: str


def _exactly_one(schema: JsonDict) -> None:
    schema.update(minProperties=1, maxProperties=1)


class Source(Block):
    """Where a switch's configuration is read from; exactly one. Credentials are not written here."""

    model_config = ConfigDict(json_schema_extra=_exactly_one)

    file: str | None = Field(default=None, min_length=1)
    """A saved configuration, or a folder of files that are one switch together; relative to fabric.yaml."""
    redis: Annotated[str, Form(_REDIS, "host, host:port or unix:/path")] | None = None
    """SONiC's database: host, host:port or unix:/path/of/redis.sock."""
    ssh: Annotated[str, Form(_SSH, "user@host, host or either with :port")] | None = None
    """user@host or host, with :port if it is not 22; the user's own keys are used."""
    rest: Annotated[str, Form(_REST, "an http or https address without user and password")] | None = None
    """NVUE, eAPI, NX-API or OpenConfig address, without user and password."""

    @model_validator(mode="after")
    def _one(self) -> Source:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("a source is exactly one of file, redis, ssh, rest")
        return self


class Switch(Block):
    """One switch of the fabric."""

    name: Name
    """The switch's name, as links and reports use it."""
    platform: Platform
    """Its operating system."""
    role: Role
    """Its place in the fabric."""
    asic: Literal["spectrum-2", "spectrum-3", "spectrum-4"] | None = None
    """Its switching chip, where headroom depends on the chip's cell size."""
    source: Source | None = None
    """Where its configuration is read from; without one it is only cabling."""
    ports: Mapping[HostList, HostList] = Field(default_factory=dict)
    """Ports to NICs, both in hostlist syntax and of one length: "Ethernet[0-252:4]": "gpu-[001-064]/rail0"."""

    @model_validator(mode="after")
    def _source_of_its_platform(self) -> Switch:
        kind = next(iter(self.source.model_dump(exclude_none=True)), "file") if self.source else "file"
        if kind not in SOURCES[self.platform]:
            raise ValueError(f"{self.platform} cannot be read by {kind}; it can by {', '.join(SOURCES[self.platform])}")
        return self

    def attachments(self) -> Iterator[Attachment]:
        """The cables to nodes, in the order written."""
        for ports, nics in self.ports.items():
            for port, nic in zip(expand(ports), expand(nics), strict=True):
                node, _, rail = nic.rpartition("/")
                yield Attachment(port, node, rail)


class Link(Block):
    """Cables between switches, one for each pair of names."""

    from_: HostList = Field(alias="from")
    """switch:port, in hostlist syntax: "leaf-r[0-7]:Ethernet256"."""
    to: HostList
    """The other ends, in the same order: "spine-0:Ethernet[0-28:4]"."""
    speed: Speed | None = None
    """Speed of each cable."""
    cable: Length | None = None
    """Length of each cable."""

    def ends(self) -> Iterator[tuple[Port, Port]]:
        """The two ends of each cable, in the order written."""
        for one, other in zip(expand(self.from_), expand(self.to), strict=True):
            yield split_port(one), split_port(other)


def split_port(text: str) -> Port:
    """``"leaf-r0:Ethernet0"`` as a port; an empty port name where there is no colon."""
    switch, _, port = text.partition(":")
    return Port(switch, port)
