"""Laws of any document: it is refused with findings, or every host of it can be rendered."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from conf.errors import ConfigError
from conf.fabric import Fabric, parse
from conf.node import node, node_names
from conf.schema import fabric_schema
from tests.conf.documents import document

SCHEMA = Draft202012Validator(fabric_schema())

RICH = document(
    rails=[
        {"name": "rail0", "subnet": "10.200.0.0/24", "nodeBlock": 27, "gateway": "first", "exclude": ["10.200.0.9"]},
        {"name": "rail1", "subnets": ["10.201.0.0/24", "fd00::/56"], "nodeBlock": {"v4": 27, "v6": 64}},
    ],
    qos={"lossless": {"dscp": 24}, "ecn": {"kmin": "400KB"}},
    cni={"routing": False, "network": "pods"},
    probe={"sizes": ["1GiB"], "budget": {"gpuSecondsPerDay": 9}},
    lint={"suppressions": [{"rule": "S06", "reason": "known", "expires": "2030-12-31"}]},
)

WORDS = [
    *("first", "none", "routed", "flat", "auto", "10.200.0.0/24", "10.200.0.0/31", "10.0.0.0/8", "fd00::/64", "fd00::"),
    *("10.200.0.1", "10.200.0.255", "h[0-3]", "h[0-300]", "h0/rail0", "leaf0:Ethernet0", "1GiB", "5%", "sriov", ""),
    *("0000:18:00.0", "rail0", "[", "10.200.0.32/27", "fd00::1/128"),
]
scalars = st.sampled_from(WORDS) | st.integers(-1, 130) | st.booleans() | st.none() | st.text(max_size=4)
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.sampled_from(WORDS), scalars, max_size=3)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place below ``value``, as keys and positions."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, part in inner for place in [(*path, key), *places(part, (*path, key))]]


@st.composite
def bent(draw: st.DrawFn) -> dict[str, Any]:
    """A correct document with up to three values replaced or removed and up to one key added."""
    whole: dict[str, Any] = json.loads(json.dumps(RICH))
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(places(whole)))
        parent: Any = whole
        for step in path:
            parent = parent[step]
        if draw(st.integers(0, 3)):
            parent[last] = draw(values)
        else:
            del parent[last]
        if not places(whole):
            break
    return whole


def attempt(whole: dict[str, Any]) -> Fabric | ConfigError:
    """The fabric, or its refusal. Anything else is a bug."""
    try:
        return parse(json.dumps(whole))
    except ConfigError as refused:
        return refused


@settings(max_examples=400, deadline=None)
@given(bent())
def test_a_document_is_refused_or_every_host_can_be_rendered(whole: dict[str, Any]) -> None:
    fabric = attempt(whole)
    if isinstance(fabric, ConfigError):
        assert fabric.findings
        assert "pydantic" not in str(fabric).lower()
        assert "<" not in "".join(finding.path for finding in fabric.findings)
        return
    for name in node_names(fabric):
        assert [rail.name for rail in node(fabric, name).rails] == [rail.name for rail in fabric.rails]
    for switch in fabric.switches:
        list(switch.attachments())
    for link in fabric.links:
        list(link.ends())
    assert SCHEMA.is_valid(whole) or None in _leaves(whole)


def _leaves(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if inner is None else [leaf for part in inner for leaf in _leaves(part)]


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner)))
def test_any_values_at_all_are_refused_with_findings(value: Any) -> None:
    with suppress(ConfigError):
        parse(json.dumps(value))
