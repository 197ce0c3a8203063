"""``qos``: the lossless class, the same from NIC to switch; a profile, with any field overridden."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic.config import JsonDict

from conf.base import Block, Flag, Whole, merge
from conf.nics import Nics
from conf.units import Bytes, Percent, WholePercent
from conf.yamltext import read

__all__ = [
    "DEFAULT_PROFILE",
    "Cnp",
    "Dscp",
    "Ecn",
    "Further",
    "Lossless",
    "Mtu",
    "Priority",
    "Qos",
    "profile",
    "profile_names",
]

DEFAULT_PROFILE = "lossless-dscp"

Priority = Annotated[Whole, Field(ge=0, le=7)]
Dscp = Annotated[Whole, Field(ge=0, le=63)]
Mtu = Annotated[Whole, Field(ge=576, le=9216)]


def profile_names() -> tuple[str, ...]:
    """The profiles that are shipped, sorted."""
    found = (files("conf") / "profiles").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in found if entry.name.endswith(".yaml")))


@cache
def _profile_text(name: str) -> str:
    return (files("conf") / "profiles" / f"{name}.yaml").read_text(encoding="utf-8")


def profile(name: str) -> dict[str, Any]:
    """The qos block of a shipped profile, as written. ValueError, listing the profiles there are, for another name."""
    if name not in profile_names():
        raise ValueError(f"there is no profile {name}; there is {', '.join(profile_names())}")
    block, _ = read(_profile_text(name), f"{name}.yaml")
    return cast(dict[str, Any], block)


def _optional(schema: JsonDict) -> None:
    """In the file every field may be left out: the profile has it."""
    schema.pop("required", None)


class _Part(Block):
    model_config = ConfigDict(json_schema_extra=_optional)


class Lossless(_Part):
    """The class that RoCE uses and PFC protects."""

    priority: Priority
    """Priority (802.1p, traffic class, PFC bit), 0 to 7."""
    dscp: Dscp
    """DSCP of RoCE packets, 0 to 63."""
    bandwidth: WholePercent
    """The class's share of the link under contention (ETS)."""
    pfc: Flag
    """Whether PFC protects it; false: a lossy class that ECN alone keeps short."""


class Further(Block):
    """One more class that is treated as the lossless one; the two share its bandwidth."""

    priority: Priority
    """Priority, not one that another class has."""
    dscp: Dscp
    """DSCP of its packets, not one that another class has."""


class Cnp(_Part):
    """Congestion notification packets: never lossless, never late."""

    priority: Priority
    """Priority of CNPs; not the lossless one."""
    dscp: Dscp
    """DSCP of CNPs; not that of the lossless class."""
    scheduling: Literal["strict", "ets"]
    """strict: before everything else; ets: a share of the link."""


class Ecn(_Part):
    """Marking on the lossless queue of the switches, and DCQCN on the hosts."""

    enabled: Flag
    """false is a choice of its own (receiver-driven congestion control), not an omission."""
    kmin: Bytes
    """Queue length at which marking starts."""
    kmax: Bytes
    """Queue length from which every packet is marked."""
    pmax: Percent
    """Probability of a mark just below kmax."""

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> Ecn:
        if self.kmin > self.kmax:
            raise ValueError("kmin is above kmax; marking must start (kmin) before it is complete (kmax)")
        return self


class Qos(_Part):
    """The QoS class that hosts are given and switches are checked against: the profile, with the fields written
    here put in its place."""

    profile: str = DEFAULT_PROFILE
    """A file of conf/profiles/, without .yaml."""
    trust: Literal["dscp", "pcp"]
    """What ports classify by. RoCE traffic is untagged in most fabrics: dscp."""
    lossless: Lossless
    """The lossless class, RoCE's."""
    also: tuple[Further, ...] = Field(max_length=2)
    """Further classes with PFC, as SONiC's default has: priorities 3 and 4."""
    cnp: Cnp
    """Congestion notification packets."""
    ecn: Ecn
    """Explicit congestion notification."""
    mtu: Mtu
    """IP MTU of the rails, in bytes, where a node type does not say otherwise."""
    nics: Nics
    """What the rails' NICs are given besides; a node type's nics override it, field by field."""

    @model_validator(mode="before")
    @classmethod
    def _over_the_profile(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        name = data.get("profile", DEFAULT_PROFILE)
        # An unknown name is reported once, by the field; the default stands in so that it does not look as if
        # every other field were missing too.
        return merge(profile(name if name in profile_names() else DEFAULT_PROFILE), data)

    @model_validator(mode="after")
    def _classes_apart(self) -> Qos:
        taken = {self.lossless.priority: self.lossless.dscp, self.cnp.priority: self.cnp.dscp}
        for further in self.also:
            if further.priority in taken or further.dscp in taken.values():
                raise ValueError(f"also: priority {further.priority} with DSCP {further.dscp} is another class's")
            taken[further.priority] = further.dscp
        return self

    @field_validator("profile")
    @classmethod
    def _known(cls, name: str) -> str:
        profile(name)
        return name
