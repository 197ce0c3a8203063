"""``nodeTypes`` and ``nodes``: what the machines are, which NIC is on which rail, and which host is which node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, GetJsonSchemaHandler, Tag, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from conf.base import Block, Whole
from conf.hostlist import HostList
from conf.names import Form, Name, Nic, RailName
from conf.nics import Nics
from conf.qos import Mtu, Priority
from conf.units import Length, Speed

__all__ = ["Mode", "NodeGroup", "NodeType", "RailNic"]

Mode = Literal["macvlan", "ipvlan", "host-device", "sriov"]
Switchable = Literal["on", "off"]


class RailNic(Block):
    """The NIC of one rail: its name alone, or with settings of its virtual functions, named as sriov-cni names them."""

    nic: Nic
    """PCI address (0000:18:00.0) or netdev name."""
    vlan: Whole | None = Field(default=None, ge=0, le=4094)
    """VLAN of the virtual function; 0 for none."""
    vlan_qos: Priority | None = Field(default=None, alias="vlanQoS")
    """Priority in the VLAN tag."""
    vlan_proto: Literal["802.1q", "802.1ad"] | None = None
    """Protocol of the VLAN tag."""
    mac: Annotated[str, Form(r"^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$", "a MAC address")] | None = None
    """MAC address of the virtual function; only where one node has this type."""
    trust: Switchable | None = None
    """Whether the virtual function may change its MAC address and be promiscuous."""
    spoofchk: Switchable | None = None
    """Whether the NIC drops packets with another source MAC address."""
    link_state: Literal["auto", "enable", "disable"] | None = Field(default=None, alias="link_state")
    """Link state that the virtual function sees."""
    min_tx_rate: Whole | None = Field(default=None, alias="min_tx_rate", ge=0)
    """Guaranteed transmit rate, Mb/s."""
    max_tx_rate: Whole | None = Field(default=None, alias="max_tx_rate", ge=0)
    """Highest transmit rate, Mb/s; 0 for no limit."""

    node_guid: Literal["mac", "own-mac", "off"] | None = Field(default=None, alias="nodeGUID")
    """What the node GUID of the virtual function's RDMA device is made of; see docs/cni.md."""

    @model_validator(mode="before")
    @classmethod
    def _a_name_alone(cls, data: Any) -> Any:
        return data if isinstance(data, dict | RailNic) else {"nic": data}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core, handler)
        return {"anyOf": [schema["properties"]["nic"], dict(schema)]}

    @property
    def vf(self) -> dict[str, str | int]:
        """The settings that are given, under sriov-cni's names."""
        return self.model_dump(exclude={"nic"}, exclude_none=True)


class NodeType(Block):
    """One kind of machine."""

    driver: str | None = Field(default=None, min_length=1, max_length=63)
    """Kernel driver of the rails' NICs, such as mlx5_core; checked where given."""
    speed: Speed
    """Speed of the rails' NICs."""
    mode: Mode
    """How a pod gets the NIC: a macvlan or ipvlan on it, the NIC itself, or one of its virtual functions."""
    mtu: Mtu | None = None
    """MTU in bytes; qos.mtu if left out."""
    cable: Length | None = None
    """Length of the cables to the leaf switches: pause headroom depends on it."""
    nics: Nics | None = None
    """Further settings of the rails' NICs; over those of qos.nics, field by field."""
    rails: Annotated[
        Annotated[Literal["auto"], Tag("<word>")] | Annotated[Mapping[RailName, RailNic], Tag("<map>")],
        Discriminator(lambda value: "<word>" if isinstance(value, str) else "<map>"),
    ] = "auto"
    """The NIC of every rail; auto: paired on the node by PCI topology, in the order of rails."""


class NodeGroup(Block):
    """Hosts of one type, numbered without gaps: the nth gets the nth block of addresses of every rail."""

    match: HostList
    """The hosts' names."""
    type: Name
    """One of nodeTypes."""
    first_index: Whole = Field(default=0, ge=0, le=(1 << 32) - 1)
    """Index of the first host; the others follow in the order of match."""
