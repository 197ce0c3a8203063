"""Which rails a pod gets."""

from __future__ import annotations

from typing import Any

import pytest

from cni.decision import decide
from cni.netconf import NetConf
from cni.selection import ANNOTATION, CAPABILITY
from conf.errors import ConfigError
from tests.cni.netconfs import good, parsed

NONE: list[str] = []
BOTH = ["rail0", "rail1"]


def select(conf: NetConf) -> tuple[Any, str]:
    """The decision for a container that no kubelet knows."""
    decision = decide(conf, (), dict)
    return decision.rails, decision.why


def chosen(attach: str, runtime: Any = None) -> list[str]:
    raw = good(attach=attach)
    if runtime is not None:
        raw["runtimeConfig"] = runtime
    rails, _ = select(parsed(raw))
    return [rail.name for rail in rails]


def asked(value: Any) -> dict[str, Any]:
    return {CAPABILITY: {ANNOTATION: value, "other": "x"}}


@pytest.mark.parametrize(("attach", "rails"), [("auto", NONE), ("always", BOTH)])
@pytest.mark.parametrize("runtime", [None, {}, {CAPABILITY: None}, {CAPABILITY: {}}, {CAPABILITY: "x"}, {"ips": []}])
def test_without_the_annotation_the_configuration_decides(attach: str, rails: list[str], runtime: Any) -> None:
    assert chosen(attach, runtime) == rails


@pytest.mark.parametrize("attach", ["auto", "always"])
@pytest.mark.parametrize(
    ("value", "rails"),
    [
        ("all", BOTH),
        ("none", NONE),
        ("rail1", ["rail1"]),
        ("rail1,rail0", BOTH),
        (" rail0 , rail1 ", BOTH),
        ("rail0,rail0", ["rail0"]),
    ],
)
def test_the_annotation_goes_before_it(attach: str, value: str, rails: list[str]) -> None:
    assert chosen(attach, asked(value)) == rails


@pytest.mark.parametrize("value", ["rail7", "rail0,rail7", "", ",", "ALL", "none,rail0", 5, ["rail0"], {}, True])
def test_a_rail_that_does_not_exist_is_named_with_those_that_do(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        chosen("auto", asked(value))
    (finding,) = caught.value.findings
    assert finding.path == ANNOTATION
    assert "this node has rail0, rail1" in finding.message


def test_the_reason_names_the_annotation_or_its_absence() -> None:
    why = "attach: auto, no GPU, says the runtime (no pod of Kubernetes, no annotation)"
    assert select(parsed(good()))[1] == why
    assert select(parsed(good(attach="always")))[1] == f"attach: always, no annotation {ANNOTATION}"
    assert select(parsed(good(runtimeConfig=asked("all"))))[1] == f"annotation {ANNOTATION}: all"
