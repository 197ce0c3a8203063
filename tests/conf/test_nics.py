"""``nics``: settings of the rails' NICs, a node type's over the fabric's, and what contradicts the machines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conf.nics import PARAMETERS, Nics, overlaid
from tests.conf.documents import document, fabric, findings


def kind(**fields: Any) -> dict[str, Any]:
    """The node type, bent."""
    return {"nodeTypes": {"gpu": document()["nodeTypes"]["gpu"] | fields}}


def test_nothing_is_asked_for_unless_it_is_written() -> None:
    found = fabric()
    assert found.qos.nics == Nics()
    assert found.node_types["gpu"].nics is None
    assert json.loads(found.qos.nics.model_dump_json()) == {}


def test_a_node_type_s_settings_stand_over_the_fabric_s_one_by_one() -> None:
    both = fabric(
        qos={"nics": {"maxRates": {"lossless": "50G", "cnp": "1G"}, "dcqcn": {"rp_ai_rate": 5, "rp_gd": 11}}},
        **kind(nics={"maxRates": {"lossless": "80G"}, "dcqcn": {"rp_ai_rate": 10}}),
    )
    found = overlaid(both.qos.nics, both.node_types["gpu"].nics)
    assert found.max_rates is not None
    assert (found.max_rates.lossless, found.max_rates.cnp, found.max_rates.rest) == (80_000, 1000, None)
    assert found.dcqcn == {"rp_ai_rate": 10, "rp_gd": 11}
    assert found.buffers is None


@pytest.mark.parametrize(("base", "own"), [("auto", {"lossless": "128KiB", "rest": "64KiB"})])
def test_a_layout_and_the_word_auto_replace_each_other_whole(base: str, own: dict[str, str]) -> None:
    one, other = Nics.model_validate({"buffers": base}), Nics.model_validate({"buffers": own})
    assert overlaid(one, other).buffers == other.buffers
    assert overlaid(other, one).buffers == "auto"


def test_a_document_that_is_written_back_is_the_same() -> None:
    nics = {"buffers": "auto", "maxRates": {"rest": "10G"}, "dcqcn": {"rp_gd": 11}, "sysctls": {"rp_filter": 2}}
    assert json.loads(fabric(**kind(nics=nics, cable="3m")).node_types["gpu"].nics.model_dump_json()) == nics  # type: ignore[union-attr]  # it is written


OFF = {"qos": {"lossless": {"pfc": False}, "nics": {"buffers": "auto"}}}
CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"qos": {"nics": {"bufers": "auto"}}}, "qos.nics.bufers", "unknown field; did you mean buffers?"),
    ({"qos": {"nics": {"buffers": "big"}}}, "qos.nics.buffers", "big is not auto"),
    ({"qos": {"nics": {"buffers": {"lossless": "1MiB"}}}}, "qos.nics.buffers.rest", "is missing"),
    (
        {"qos": {"nics": {"buffers": {"lossless": "0B", "rest": "1MiB"}}}},
        "qos.nics.buffers.lossless",
        "0 is too small; the least is 1024",
    ),
    ({"qos": {"nics": {"maxRates": {"rest": "0G"}}}}, "qos.nics.maxRates.rest", "0G is too small; the least is 1"),
    (
        {"qos": {"nics": {"maxRates": {"rest": 5}}}},
        "qos.nics.maxRates.rest",
        "a speed needs its unit; write 5M or 5G or 5T",
    ),
    (
        {"qos": {"nics": {"dcqcn": {"rp_ai_rat": 5}}}},
        "qos.nics.dcqcn.rp_ai_rat",
        "rp_ai_rat is no DCQCN parameter; did you mean rp_ai_rate?",
    ),
    (
        {"qos": {"nics": {"dcqcn": {"rp_gd": -1}}}},
        "qos.nics.dcqcn.rp_gd",
        "-1 is too small; the least is 0",
    ),
    ({"qos": {"nics": {"sysctls": {"rp_filter": 3}}}}, "qos.nics.sysctls.rp_filter", "3 is too large; the most is 2"),
    (
        {"qos": {"nics": {"sysctls": {"ip_forward": 1}}}},
        "qos.nics.sysctls.ip_forward",
        "unknown field; there is arp_ignore, arp_announce, rp_filter",
    ),
    (OFF, "qos.nics.buffers", "no priority is lossless (qos.lossless.pfc is false): leave it out"),
    (
        {"qos": {"nics": {"buffers": "auto"}}},
        "nodeTypes.gpu.cable",
        "is missing, and qos.nics.buffers reckons with it",
    ),
    (
        kind(nics={"buffers": "auto"}),
        "nodeTypes.gpu.cable",
        "is missing, and nodeTypes.gpu.nics.buffers reckons with it",
    ),
    (
        {"qos": {"nics": {"maxRates": {"lossless": "200G"}}}},
        "qos.nics.maxRates.lossless",
        "200G is above 100G, the speed of nodeTypes.gpu; leave it out for no limit",
    ),
    (
        kind(nics={"maxRates": {"cnp": "101G"}}),
        "nodeTypes.gpu.nics.maxRates.cnp",
        "101G is above 100G, the speed of these NICs; leave it out for no limit",
    ),
    (
        kind(driver="bnxt_en", nics={"dcqcn": {"rp_gd": 11}}),
        "nodeTypes.gpu.nics.dcqcn.rp_gd",
        "is no parameter of bnxt_en",
    ),
]


@pytest.mark.parametrize(("changes", "path", "message"), CASES)
def test_a_mistake_is_told_at_its_place(changes: dict[str, Any], path: str, message: str) -> None:
    assert findings(**changes)[path] == message


def test_sizes_that_are_given_need_no_cable() -> None:
    fabric(**kind(nics={"buffers": {"lossless": "128KiB", "rest": "64KiB"}}), qos={"nics": {"buffers": "auto"}})


def test_parameters_of_a_driver_that_is_not_known_are_not_judged() -> None:
    fabric(**kind(driver="ionic", nics={"dcqcn": {"rp_gd": 11}}))


def test_cnp_s_dscp_and_priority_have_one_place() -> None:
    assert not any("cnp_dscp" in name or "cnp_prio" in name for names in PARAMETERS.values() for name in names)
