"""Names and addresses as text: interfaces, PCI functions, NICs, networks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

__all__ = [
    "Excluded",
    "Form",
    "IPAddress",
    "IPNetwork",
    "Name",
    "Network",
    "Nic",
    "RailName",
    "is_pci",
    "parse_address",
    "parse_network",
]

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NETWORK = re.compile(r"[0-9a-fA-F.:]+/[0-9]{1,3}")
# Names that a pod already has, or that mean something else under /proc/sys/net/ipv4/conf.
_TAKEN = {"lo", "eth0", "all", "default"}


def is_pci(nic: str) -> bool:
    """Whether a NIC is named by its PCI address (``0000:18:00.0``) rather than by its netdev name."""
    return _PCI.fullmatch(nic) is not None


def parse_network(value: object) -> IPNetwork:
    """``"10.200.0.0/16"`` as a network. ValueError for no prefix, host bits, or no network at all."""
    if not isinstance(value, str) or not _NETWORK.fullmatch(value):
        raise ValueError(f"{value} is not a subnet; write it with its prefix length, such as 10.200.0.0/16")
    network = _network(value)
    if ip_address(value.partition("/")[0]) != network.network_address:
        raise ValueError(f"{value} has host bits set; write {network}")
    if network.is_multicast or network.is_loopback or network.prefixlen == 0:
        raise ValueError(f"{value} cannot be a subnet of hosts")
    return network


def _network(text: str) -> IPNetwork:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text} is not a subnet; write it as 10.200.0.0/16 or fd00:200::/48") from None


def _parse_excluded(value: object) -> IPNetwork:
    """A network, or one address as a network of one."""
    if isinstance(value, str) and "/" not in value:
        return ip_network(parse_address(value))
    return parse_network(value)


def parse_address(value: object) -> IPAddress:
    """``"10.200.0.1"`` as an address. ValueError for anything else, a scope (``%eth0``) included."""
    try:
        return ip_address(value if isinstance(value, str) and "%" not in value else "")
    except ValueError:
        raise ValueError(f"{value} is not an IP address") from None


def _check_interface(name: str) -> str:
    """The kernel's rule (dev_valid_name), and '%', which it would replace by a number."""
    if len(name.encode()) > 15:
        raise ValueError(f"{name} is {len(name.encode())} bytes long; an interface name has at most 15")
    if name in {"", ".", ".."} or re.search(r"[/:%\s\x00-\x1f]", name):
        raise ValueError(f"{name!r} is not an interface name; '/', ':', '%' and white space are not allowed")
    return name


def _check_rail(name: str) -> str:
    _check_interface(name)
    if name in _TAKEN:
        raise ValueError(
            f"{name} cannot name a rail: the rail's name is its interface in the pod, and {name} is taken there"
        )
    if re.search(r"[\[\],]", name):
        raise ValueError(f"{name} cannot name a rail: '[', ']' and ',' are hostlist syntax")
    return name


def _check_nic(nic: str) -> str:
    if ":" not in nic:
        return _check_interface(nic)
    if not is_pci(nic.lower()):
        raise ValueError(f"{nic} is not a PCI address; write it as `lspci -D` does: 0000:18:00.0")
    return nic.lower()


@dataclass(frozen=True)
class Form:
    """Metadata of a text field: what it must look like, as a pattern and in words."""

    pattern: str
    wanted: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"pattern": self.pattern}

    def _check(self, text: str) -> str:
        if re.search(self.pattern, text) is None or text.endswith("\n"):
            raise ValueError(f"{text[:60]!r} is not {self.wanted}")
        return text


Name = Annotated[
    str,
    Field(max_length=63),
    Form(r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$", "a name: letters, digits, '_', '.' and '-', first a letter or digit"),
]
"""A name of the operator's choosing: also a CNI network name and a Kubernetes label value."""

RailName = Annotated[
    str,
    AfterValidator(_check_rail),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 15, "pattern": r"^[^/:%\s\[\],]+$"}),
]
Nic = Annotated[
    str,
    AfterValidator(_check_nic),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 16,
            "pattern": r"^([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]|[^/:%\s]{1,15})$",
        }
    ),
]
"""A NIC: PCI address, in lower case, or netdev name."""

_AS_TEXT = PlainSerializer(str, return_type=str)
Network = Annotated[
    IPNetwork,
    BeforeValidator(parse_network),
    _AS_TEXT,
    WithJsonSchema({"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$", "examples": ["10.200.0.0/16"]}),
]
Excluded = Annotated[
    IPNetwork,
    BeforeValidator(_parse_excluded),
    _AS_TEXT,
    WithJsonSchema({"type": "string", "pattern": "^[0-9a-fA-F.:]+(/[0-9]{1,3})?$", "examples": ["10.200.0.1"]}),
]
"""A network or a single address, held as a network."""
