"""Pairing on the machine's real PCI tree, and a fabric whose node type says `rails: auto`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cni import inventory
from cni.topology import Distance, Gpu, distance, pair
from tests.lab.guest.kit import IGB, MACHINE, ROCE, SEATS

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


def test_rails_auto_are_rendered_from_the_machine(tmp_path: Path) -> None:
    rails = ", ".join(f"{{name: rail{n}, subnet: 10.{200 + n}.0.0/24, nodeBlock: 27}}" for n in range(len(ROCE)))
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(FABRIC.format(rails=rails))
    words = [sys.executable, "-m", "cni", "render", "-f", str(fabric), "--node", "lab"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [rail["pci"] for rail in json.loads(done.stdout)["rails"]] == sorted(seat.address for seat in ROCE)
    fabric.write_text(FABRIC.format(rails=rails.rpartition(", {")[0]))
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "name the NICs" in done.stderr
