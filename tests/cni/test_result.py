"""The result of ADD: what was there first and unchanged, then the rails, in each version's shape."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from cni.spec import SUPPORTED, Interface, Ip, chain

GOLDEN = Path(__file__).parent.parent / "golden" / "result"
SANDBOX = "/run/netns/x"
RAILS = (
    Interface("rail0", "02:00:00:00:00:01", SANDBOX, 9000, "0000:18:00.0"),
    Interface("rail1", "02:00:00:00:00:02", SANDBOX, 4200, ""),
)
IPS = (
    Ip("10.200.0.2/24", "10.200.0.1", 0),
    Ip("fd00:200::2/64", "", 0),
    Ip("10.201.0.2/24", "10.201.0.1", 1),
)


def primary(version: str) -> dict[str, Any]:
    """What a primary plugin leaves, with more than we know of."""
    family = {"version": "4"} if version < "1.0.0" else {}
    return {
        "cniVersion": version,
        "interfaces": [
            {"name": "cni0", "mac": "0a:00:00:00:00:01"},
            {"name": "eth0", "mac": "0a:00:00:00:00:02", "sandbox": SANDBOX, "theirs": True},
        ],
        "ips": [{**family, "address": "172.30.0.2/24", "gateway": "172.30.0.1", "interface": 1}],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.96.0.0/12", "gw": "172.30.0.9"}],
        "dns": {"nameservers": ["172.30.0.10"]},
    }


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_result_in_each_version(version: str) -> None:
    golden = json.loads((GOLDEN / f"{version}.json").read_text())
    assert chain(version, primary(version), RAILS, IPS) == golden


@pytest.mark.parametrize("version", SUPPORTED)
def test_what_came_before_is_first_and_unchanged(version: str) -> None:
    before = primary(version)
    kept = copy.deepcopy(before)
    result = chain(version, before, RAILS, IPS)
    assert before == kept, "the input is not touched"
    assert result["interfaces"][:2] == before["interfaces"]
    assert result["ips"][:1] == before["ips"]
    assert (result["routes"], result["dns"]) == (before["routes"], before["dns"])
    assert [result["interfaces"][ip["interface"]]["name"] for ip in result["ips"]] == [
        *("eth0", "rail0", "rail0", "rail1")
    ]


@pytest.mark.parametrize("previous", [None, {}, {"interfaces": None, "ips": None}, {"interfaces": [], "ips": []}])
def test_without_anything_before_the_rails_are_numbered_from_zero(previous: dict[str, Any] | None) -> None:
    result = chain("1.1.0", previous, RAILS, IPS)
    assert [each["name"] for each in result["interfaces"]] == ["rail0", "rail1"]
    assert [ip["interface"] for ip in result["ips"]] == [0, 0, 1]


def test_without_rails_the_previous_result_is_the_result() -> None:
    before = primary("1.0.0")
    assert chain("1.0.0", before, (), ()) == before
    assert chain("1.0.0", None, (), ()) == {"cniVersion": "1.0.0", "dns": {}}


def test_the_version_is_the_configurations_even_if_the_primary_spoke_another() -> None:
    assert chain("1.0.0", primary("0.4.0"), RAILS, ())["cniVersion"] == "1.0.0"
