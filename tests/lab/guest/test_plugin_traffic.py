"""Real traffic on rails that the plugin attached: RDMA over rxe on every rail, and ipvlan's first real run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.lab.guest.kit import ROCE, link, names, namespace, sh
from tests.lab.guest.pods import added, call, conf, deleted, pod, up
from tests.lab.guest.test_rxe import write_bandwidth

RESULTS = Path("/run/lab/traffic.json")
"""Comes back with the logs of the run: MB/s by rail."""


def wires() -> list[tuple[int, int]]:
    """Both ends of the first two wires of the machine."""
    first = {seat.wire: number for number, seat in reversed(list(enumerate(ROCE)))}
    return [
        (number, next(other for other, seat in enumerate(ROCE) if seat.wire == wire and other != number))
        for wire, number in sorted(first.items())
    ][:2]


def whole(numbers: list[int], first: int) -> dict[str, Any]:
    """A configuration with these NICs as rails; each pod's addresses begin at ``first``."""
    wanted = conf(*({"pci": ROCE[number].address, "mode": "host-device"} for number in numbers))
    for rail in wanted["rails"]:
        subnet = rail["ipam"]["ranges"][0]["subnet"]
        rail["ipam"]["ranges"][0]["rangeStart"] = subnet.replace("0/24", str(first))
    return wanted


def soft_rdma(space: str, verb: str, number: int, rail: str) -> None:
    sh(
        "ip",
        "netns",
        "exec",
        space,
        "rdma",
        "link",
        verb,
        f"rxe{number}",
        *(("type", "rxe", "netdev", rail) if verb == "add" else ()),
    )


def test_ib_write_bw_runs_between_two_pods_on_every_rail() -> None:
    sh("modprobe", "rdma_rxe")
    ends = wires()
    left, right = whole([one for one, _ in ends], 10), whole([other for _, other in ends], 20)
    measured = {}
    with pod() as here, namespace("peer") as there:
        added(left, here, "c1")
        peer = {ip["interface"]: ip["address"].partition("/")[0] for ip in added(right, there, "c2")["ips"]}
        for number in range(len(ends)):
            rail = f"rail{number}"
            soft_rdma(here, "add", 0, rail)
            soft_rdma(there, "add", 1, rail)
            measured[rail] = write_bandwidth(here, there, peer[number])
            soft_rdma(here, "delete", 0, rail)
            soft_rdma(there, "delete", 1, rail)
        deleted(left, here, "c1")
        deleted(right, there, "c2")
    RESULTS.write_text(json.dumps(measured))
    assert all(rate > 0 for rate in measured.values()), measured
    assert {f"sim{number}" for pair in ends for number in pair} <= names()


def test_ipvlan_rails_are_attached_checked_reached_and_removed() -> None:
    up("sim0", "sim1")
    nics = [{"pci": ROCE[number].address, "mode": "ipvlan"} for number in range(2)]
    wanted = conf(*nics)
    before = names()
    with pod() as one, namespace("two") as two:
        first = added(wanted, one, "c1")
        second = added(wanted, two, "c2")
        assert link("rail0", ns=one)["linkinfo"]["info_kind"] == "ipvlan"
        assert call("CHECK", {**wanted, "prevResult": first}, one, "c1") == (0, None)
        for ip in second["ips"]:
            address = ip["address"].partition("/")[0]
            sh("ip", "netns", "exec", one, "ping", "-c", "1", "-W", "5", address)
        deleted(wanted, one, "c1")
        deleted(wanted, two, "c2")
        assert names(one) == {"lo"}
    assert names() == before
    for device in ("sim0", "sim1"):
        sh("ip", "link", "set", device, "down")
