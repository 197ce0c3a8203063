"""LLDP neighbours as a switch hears them, against the cabling of fabric.yaml (L11)."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from tests.tuner.switch.fabrics import fabric
from tuner.lint.run import lint
from tuner.lint.world import Given
from tuner.switch.intended import intended
from tuner.switch.read import read
from tuner.switch.render import render


def found(neighbours: dict[str, dict[str, str]]) -> list[str]:
    """What L11 says of a SONiC leaf that hears these."""
    given = fabric("sonic")
    tables: dict[str, Any] = json.loads(render(intended(given, "leaf0")))
    tables |= {f"LLDP_ENTRY_TABLE:{port}": row for port, row in neighbours.items()}
    leaf = read("sonic", "leaf0", {"f": json.dumps(tables).encode()}, role="leaf")
    report = lint(Given(given, None, (), (leaf,)), date(2026, 11, 20))
    return [each.evidence for each in report.findings if each.rule == "L11"]


def host(number: int, nic: str = "eth2", by: str = "lldp_rem_port_id") -> dict[str, str]:
    """A host whose agent says its NIC by port ID, or as lldpd does by description, its chassis another NIC's MAC."""
    row = {"lldp_rem_sys_name": f"h{number}", "lldp_rem_chassis_id": "b8:ce:f6:00:00:01", by: nic}
    return {"lldp_rem_port_id": "b8:ce:f6:00:00:09"} | row


SPINE = {"lldp_rem_sys_name": "spine0", "lldp_rem_port_id": "Ethernet32"}
PORTS = ("Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12")
BY = pytest.mark.parametrize("by", ["lldp_rem_port_id", "lldp_rem_port_desc"])


@BY
def test_everything_in_its_place(by: str) -> None:
    assert found({port: host(number, by=by) for number, port in enumerate(PORTS)} | {"Ethernet32": SPINE}) == []


@BY
def test_a_rail_on_the_wrong_leaf(by: str) -> None:
    heard = {port: host(number, by=by) for number, port in enumerate(PORTS)} | {"Ethernet32": SPINE}
    assert found(heard | {"Ethernet4": host(1, "eth3", by)}) == [
        "the host's NIC of rail1 is plugged in where rail0 should be"
    ]


def test_two_hosts_swapped() -> None:
    heard = {port: host(number) for number, port in enumerate(PORTS)} | {"Ethernet32": SPINE}
    said = found(heard | {"Ethernet0": host(1), "Ethernet4": host(0)})
    assert len(said) == 2
    assert all("where h" in each for each in said)


def test_a_link_that_is_missing() -> None:
    heard = {port: host(number) for number, port in enumerate(PORTS[:3])} | {"Ethernet32": SPINE}
    assert found(heard) == ["no LLDP neighbour, while other ports of the switch have theirs"]
