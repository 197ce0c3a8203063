"""``cni``: how pods are attached. Every field has a default; the plugin's netconf is rendered from this."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from conf.base import Block, Whole
from conf.names import Form, Name

__all__ = ["Cni", "Nccl", "Policy", "Routing"]

AbsolutePath = Annotated[str, Field(max_length=107), Form(r"^/\S*$", "an absolute path without white space")]
Verdict = Literal["refuse", "warn", "ignore"]


def _false_or(value: Any) -> str:
    return "<false>" if isinstance(value, bool) else "<given>"


class Routing(Block):
    """One routing table per rail, so that a reply leaves by the rail that the request came in on."""

    table_base: Whole = Field(default=1000, ge=256, le=1 << 31)
    """Rail i uses table tableBase + i. From 256: below are the kernel's own tables."""


class Policy(Block):
    """What happens to a pod whose GPUs and rails do not belong together: refuse it, warn and start it, or say nothing.

    Applies where it is known which GPUs the pod was given (attach: auto).
    """

    missing: Verdict = "refuse"
    """A GPU of the pod has no rail on this node, or the pod does not take it."""
    foreign: Verdict = "warn"
    """The pod takes a rail that belongs to a GPU which it does not have."""
    far: Verdict = "warn"
    """A rail's NIC is farther from its GPU than `farthest`, or than another NIC of the node."""
    farthest: Literal["PIX", "PXB", "PHB", "NODE", "SYS"] = "NODE"
    """The longest way between a GPU and its NIC that is not `far`, in NCCL's terms."""
    unknown: Literal["refuse", "ignore"] = "refuse"
    """The kubelet cannot be asked which GPUs the pod was given. refuse: the pod is started when it can (the kubelet
    tries again); ignore: it starts without rails."""


class Nccl(Block):
    """What nccl.conf says in a pod that asks for the resource roceway.io/rail, beside what follows from its rails."""

    cross_nic: Literal[0, 1, 2] = 0
    """NCCL_CROSS_NIC. 0: a ring stays on one rail, as rail-optimised fabrics want; 1: it may change; 2: NCCL tries."""
    socket_interface: Annotated[str, Form(r"^[\^=]?\S{1,255}$", "an interface's name")] = "eth0"
    """NCCL_SOCKET_IFNAME: where NCCL finds its peers; the pod's primary interface."""


class Cni(Block):
    """What roceway-cni does for a pod."""

    attach: Literal["auto", "always"] = "auto"
    """auto: only pods that were given GPUs or rails; always: every pod."""
    policy: Policy = Policy()
    """What happens to a pod whose GPUs and rails do not belong together."""
    routing: Annotated[
        Annotated[Literal[False], Tag("<false>")] | Annotated[Routing, Tag("<given>")], Discriminator(_false_or)
    ] = Routing()
    """Per-rail routing tables; false switches them off."""
    result_ips: Literal["all", "none"] = Field(default="all", alias="resultIPs")
    """none: rail addresses are left out of the CNI result (CRI-O would make each a pod IP)."""
    nccl: Nccl = Nccl()
    """Settings for the nccl.conf in a pod's run directory."""
    state_dir: AbsolutePath = "/var/lib/roceway"
    """Where attachments are recorded on the node."""
    run_dir: AbsolutePath = "/run/roceway/pods"
    """Where the run directories of pods are on the node."""
    kubelet_dir: AbsolutePath = "/var/lib/kubelet"
    """The kubelet's directory (its --root-dir), where it is asked which GPUs a pod was given."""
    agent: Annotated[
        Annotated[Literal[False], Tag("<false>")] | Annotated[AbsolutePath, Tag("<given>")], Discriminator(_false_or)
    ] = "/run/roceway/agent.sock"
    """The agent's socket; false: never ask an agent."""
    network: Name | None = None
    """Name of the primary CNI network to chain after; found on the node if left out."""
