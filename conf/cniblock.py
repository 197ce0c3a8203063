"""``cni``: how pods are attached. Every field has a default; the plugin's netconf is rendered from this."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from conf.base import Block, Whole
from conf.names import Form, Name

__all__ = ["Cni", "Routing"]

AbsolutePath = Annotated[str, Field(max_length=107), Form(r"^/\S*$", "an absolute path without white space")]


def _false_or(value: Any) -> str:
    return "<false>" if isinstance(value, bool) else "<given>"


class Routing(Block):
    """One routing table per rail, so that a reply leaves by the rail that the request came in on."""

    table_base: Whole = Field(default=1000, ge=256, le=1 << 31)
    """Rail i uses table tableBase + i. From 256: below are the kernel's own tables."""


class Cni(Block):
    """What roceway-cni does for a pod."""

    attach: Literal["auto", "always"] = "auto"
    """auto: only pods that were given GPUs or rails; always: every pod."""
    routing: Annotated[
        Annotated[Literal[False], Tag("<false>")] | Annotated[Routing, Tag("<given>")], Discriminator(_false_or)
    ] = Routing()
    """Per-rail routing tables; false switches them off."""
    result_ips: Literal["all", "none"] = Field(default="all", alias="resultIPs")
    """none: rail addresses are left out of the CNI result (CRI-O would make each a pod IP)."""
    state_dir: AbsolutePath = "/var/lib/roceway"
    """Where attachments are recorded on the node."""
    agent: Annotated[
        Annotated[Literal[False], Tag("<false>")] | Annotated[AbsolutePath, Tag("<given>")], Discriminator(_false_or)
    ] = "/run/roceway/agent.sock"
    """The agent's socket; false: never ask an agent."""
    network: Name | None = None
    """Name of the primary CNI network to chain after; found on the node if left out."""
