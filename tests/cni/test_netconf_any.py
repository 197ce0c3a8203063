"""Whatever JSON is given: a configuration or its findings, never anything else."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cni import netconf, skel
from cni.errors import UnsupportedFieldError
from conf.errors import ConfigError
from tests.cni.netconfs import good

WORDS = st.sampled_from(
    [
        "10.0.0.0/24",
        "10.0.0.1",
        "fd00::/64",
        "::",
        "0.0.0.0/0",
        "rail0",
        "eth0",
        "0000:18:00.0",
        "macvlan",
        "all",
        "/",
        "",
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.text(max_size=20, alphabet=st.characters())
)
KEYS = st.one_of(
    st.sampled_from(["name", "rails", "ipam", "ranges", "subnet", "gateway", "exclude", "routes", "dst", "gw", "mac"]),
    st.sampled_from(["netdev", "pci", "mode", "mtu", "routing", "tableBase", "attach", "stateDir", "deviceID"]),
    st.text(max_size=5),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def full() -> dict[str, Any]:
    """A configuration that uses every key."""
    raw = good(attach="all", resultIPs="none", stateDir="/s", agent=False, routing={"tableBase": 2000})
    raw |= {"prevResult": {"interfaces": [{}], "ips": [{"address": "10.0.0.1/8"}]}, "runtimeConfig": {"mac": "x"}}
    raw["deviceID"] = "0000:18:00.0"
    for rail in raw["rails"]:
        rail |= {"mode": "macvlan", "mtu": 9000, "mac": "02:00:00:00:00:00"}
        rail["ipam"]["ranges"][0] |= {"rangeStart": "10.200.0.5", "rangeEnd": "10.200.0.9", "gateway": "10.200.0.1"}
        rail["ipam"]["ranges"][0]["exclude"] = ["10.200.0.6"]
        rail["ipam"]["routes"] = [{"dst": "10.201.0.0/16", "gw": "10.200.0.1"}]
    return raw


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A full configuration with one to three places replaced by anything."""
    raw: Any = full()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places(raw)[1:]))
        target = raw
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = draw(ANYTHING)
    return dict(raw)


def outcome(raw: dict[str, Any]) -> ConfigError | None:
    """What parsing finds wrong; None for a configuration."""
    try:
        netconf.parse(raw, "1.1.0")
    except ConfigError as error:
        return error
    return None


def judge(raw: dict[str, Any]) -> None:
    error = outcome(raw)
    if error is not None:
        assert error.findings
        assert all(finding.message for finding in error.findings)
        unknown = all(finding.message.startswith("unknown key") for finding in error.findings)
        assert isinstance(error, UnsupportedFieldError) == unknown


@given(st.dictionaries(KEYS, ANYTHING, max_size=6))
@settings(max_examples=300, deadline=None)
def test_any_object_is_parsed_or_found_wrong(raw: dict[str, Any]) -> None:
    judge(raw)


@given(mutated())
@settings(max_examples=600, deadline=None)
def test_a_configuration_gone_wrong_anywhere_is_parsed_or_found_wrong(raw: dict[str, Any]) -> None:
    judge(raw)


@given(mutated())
@settings(max_examples=200, deadline=None)
def test_no_stdin_is_a_bug_to_the_dispatcher(raw: dict[str, Any]) -> None:
    """ADD without a namespace: everything up to opening it runs."""
    env = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c", "CNI_NETNS": "/nowhere", "CNI_IFNAME": "e", "CNI_PATH": "/"}
    with contextlib.suppress(ValueError):
        code, out = skel.dispatch(env, json.dumps(raw))
        assert code == 0 or json.loads(out)["code"] in (1, 2, 6, 7, 8)


def test_findings_do_not_drag_a_whole_document_along() -> None:
    error = outcome(good(surprise="x" * 10_000))
    assert error is not None
    assert len(str(error)) < 500


def test_nesting_up_to_what_json_reads_is_no_bug() -> None:
    env = {"CNI_COMMAND": "STATUS", "CNI_PATH": "/"}
    for depth in (10, 500, 900, 960, 980, 990, 1000, 5000, 100_000):
        text = json.dumps(good()).replace('"eth2"', "[" * depth + "]" * depth)
        code, out = skel.dispatch(env, text)
        assert code == 1
        assert json.loads(out)["code"] in (6, 7), depth
