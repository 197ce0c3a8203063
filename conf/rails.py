"""``rails``: the parallel networks, and how each is cut into one block of addresses per node."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    WithJsonSchema,
    model_validator,
)

from conf.base import Block, Whole
from conf.names import Excluded, IPAddress, IPNetwork, Network, RailName, parse_address

__all__ = ["NodeBlock", "Rail"]


class NodeBlock(Block):
    """Prefix lengths of a node's blocks, by address family."""

    v4: Whole | None = Field(default=None, ge=1, le=32)
    """Prefix length of a node's IPv4 block."""
    v6: Whole | None = Field(default=None, ge=1, le=128)
    """Prefix length of a node's IPv6 block."""


def _parse_gateway(value: object) -> object:
    if value in ("none", "first"):
        return value
    try:
        return parse_address(value)
    except ValueError:
        raise ValueError(f"{value} is not a gateway; write none, first or an address") from None


Gateway = Annotated[
    Literal["none", "first"] | IPAddress,
    BeforeValidator(_parse_gateway),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^(none|first|[0-9a-fA-F.:]+)$"}),
]


class Rail(Block):
    """One parallel network: in every pod one interface, on every node one NIC."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["subnet"]}, {"required": ["subnets"]}]})

    name: RailName
    """Name of the rail and of its interface in the pod; at most 15 bytes."""
    subnet: Network | None = None
    """The rail's network, such as 10.200.0.0/16 or fd00:200::/48."""
    subnets: tuple[Network, ...] = Field(default=(), max_length=2)
    """Instead of subnet, for a dual-stack rail: one IPv4 and one IPv6 network."""
    node_block: Annotated[
        Annotated[Whole, Field(ge=1, le=128), Tag("<number>")] | Annotated[NodeBlock, Tag("<families>")],
        Discriminator(lambda value: "<families>" if isinstance(value, dict | NodeBlock) else "<number>"),
    ]
    """Prefix length of the block of addresses that each node gets; {v4: 27, v6: 64} for a dual-stack rail."""
    gateway: Gateway = "none"
    """none; first: the first usable address of the subnet (flat) or of each node's block (routed); or an address."""
    addressing: Literal["flat", "routed"] = "flat"
    """flat: a pod's address carries the subnet's prefix. routed: it carries the node block's, and the rest of the
    rail is reached through the block's first address."""
    exclude: tuple[Excluded, ...] = Field(default=(), max_length=256)
    """Addresses or networks that are never given to a pod."""

    @model_validator(mode="before")
    @classmethod
    def _routed_has_a_gateway(cls, data: Any) -> Any:
        """Without a gateway a routed block reaches nobody, so ``first`` is what routed means unless told otherwise."""
        if isinstance(data, dict) and data.get("addressing") == "routed" and "gateway" not in data:
            return data | {"gateway": "first"}
        return data

    @model_validator(mode="after")
    def _one_of_subnet_and_subnets(self) -> Rail:
        if (self.subnet is None) == (not self.subnets):
            raise ValueError("a rail has either subnet, or subnets with one network for each address family")
        return self

    @property
    def networks(self) -> tuple[IPNetwork, ...]:
        """The rail's networks, at most one per address family."""
        return self.subnets if self.subnet is None else (self.subnet,)

    def block_prefix(self, version: int) -> int | None:
        """The prefix length of a node's block in address family 4 or 6; None where the file does not give it."""
        if isinstance(self.node_block, NodeBlock):
            return self.node_block.v4 if version == 4 else self.node_block.v6
        return self.node_block if len(self.networks) == 1 else None
