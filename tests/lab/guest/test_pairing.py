"""Pairing on the machine's real PCI tree, and a fabric whose node type says `rails: auto`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cni import cli, inventory
from cni.topology import Distance, Gpu, distance, pair
from tests.lab.guest.kit import (
    IGB,
    MACHINE,
    PCI,
    ROCE,
    SEATS,
    namespace,
    netdev,
    sh,
    virtual_functions,
    wait_for_netdev,
)
from tests.lab.guest.pods import STATE, added, conf, deleted, pod, up

GPUS = [Gpu(seat.address) for seat in SEATS if seat.kind == "gpu"]
FABRIC = """\
apiVersion: roceway/v1
kind: Fabric
metadata: {{name: lab}}
rails: [{rails}]
nodeTypes: {{sim: {{speed: 400G, mode: host-device}}}}
nodes: [{{match: lab, type: sim}}]
"""


def test_each_gpu_gets_a_nic_under_its_own_switch() -> None:
    host = inventory.read()
    usable = [nic for nic in host.nics if not nic.reason]
    assert {nic.pci for nic in usable} == {seat.address for seat in ROCE}
    pairings = pair(GPUS, usable, host.tree)
    assert [each.distance for each in pairings] == [Distance.PIX] * len(GPUS)
    assert len({each.nic for each in pairings}) == len(GPUS)


def test_distances_follow_the_machine_as_described() -> None:
    tree = inventory.read().tree
    assert len(MACHINE.rootComplexes) == 2
    assert distance(GPUS[0].pci, ROCE[0].address, tree) == Distance.PIX
    assert distance(GPUS[0].pci, ROCE[-1].address, tree) == Distance.SYS
    assert distance(GPUS[0].pci, ROCE[2].address, tree) in (Distance.PHB, Distance.NODE)


def test_a_nic_without_rdma_is_no_rail() -> None:
    reasons = {nic.pci: nic.reason for nic in inventory.read().nics}
    assert {reasons[seat.address] for seat in IGB} == {"has no RDMA device"}


def test_rails_auto_are_rendered_from_the_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rails = ", ".join(f"{{name: rail{n}, subnet: 10.{200 + n}.0.0/24, nodeBlock: 27}}" for n in range(len(ROCE)))
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(FABRIC.format(rails=rails))
    words = ["render", "-f", str(fabric), "--node", "lab"]
    assert cli.run(words) == 0
    rendered = json.loads(capsys.readouterr().out)["rails"]
    assert [rail["pci"] for rail in rendered] == sorted(seat.address for seat in ROCE)
    fabric.write_text(FABRIC.format(rails=rails.rpartition(", {")[0]))
    assert cli.run(words) == 2
    assert "name the NICs" in capsys.readouterr().err


def test_explain_shows_the_gpu_of_each_rail_s_nic_whoever_has_the_nics(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine's stand-ins are of no vendor that makes GPUs, so they are put where the door would tell them."""
    read = inventory.read
    monkeypatch.setattr(inventory, "read", lambda **more: read(**more)._replace(gpus=tuple(GPUS)))
    up(netdev(ROCE[5].address))
    (function,) = virtual_functions(ROCE[5].address, 1)
    wait_for_netdev(function)
    wanted = conf({"pci": ROCE[0].address, "mode": "host-device"}, {"pci": function, "mode": "sriov"})
    other = conf({"pci": ROCE[1].address, "mode": "host-device"})
    with pod() as one, namespace("two") as two:
        added(wanted, one, "c1")
        added(other, two, "c2")
        assert cli.run(["explain", "c1", "--state-dir", STATE, "--json"]) == 0
        rails = json.loads(capsys.readouterr().out)["rails"]
        near = [[seat.address for seat in SEATS if (seat.kind, seat.switch) == ("gpu", ROCE[n].switch)] for n in (0, 5)]
        assert [(rail["gpu"], rail["distance"]) for rail in rails] == [(near[0][0], "PIX"), (near[1][1], "PIX")]
        assert cli.run(["explain", "c1", "--state-dir", STATE]) == 0
        text = capsys.readouterr().out
        assert "GPU: the one that this node pairs with the NIC" in text
        assert near[0][0] in text
        deleted(wanted, one, "c1")
        deleted(other, two, "c2")
    sh("ip", "link", "set", netdev(ROCE[5].address), "down")
    (PCI / ROCE[5].address / "sriov_numvfs").write_text("0")
