"""The topology file, read by NCCL's rules, and against what NCCL would find by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from cni import rundir
from cni.topoxml import Cpu, topo_xml
from host import pci
from tests.cni.ncclreader import Element, RefusedError, read
from tests.fixtures.machines.archive import MACHINES, unpack
from tests.world import ROOT

HGX = ("0000:18:00.0", "0000:1b:00.0", "0000:40:00.0", "0000:43:00.0")
XEON = Cpu("x86_64", "GenuineIntel", 6, 143, {0: "00000000,0000ffff,ffffffff", 1: "ffff0000,00000000,00000000"})
GOLDEN = ROOT / "tests" / "golden" / "topo" / "hgx-h100.xml"


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {name: unpack(name, tmp_path_factory.mktemp(name)) for name in MACHINES}


def test_a_pod_of_two_pairs_is_as_recorded(roots: dict[str, str]) -> None:
    text = topo_xml(HGX, rundir.read_tree(HGX, roots["hgx-h100"]), XEON)
    assert text == GOLDEN.read_text()
    assert [cpu.attributes["numaid"] for cpu in read(text).children] == ["0"]


def nccl_parent(root: str, address: str) -> str:
    """The function above, as ncclTopoGetXmlFromSys walks up the path in /sys; empty for the CPU."""
    path = str((Path(root) / "sys/bus/pci/devices" / address).readlink()).split("/")
    for steps in (1, 2):
        path = path[:-1]
        if path[-2].count(":") != 2:  # what is above is no function: this one hangs on a CPU
            return "" if steps == 1 else path[-1] if path[-1].count(":") == 2 else ""
    return path[-1]


def walk(element: Element, above: str = "") -> list[tuple[str, str]]:
    """(function, function above) of every PCI tag."""
    own = element.attributes.get("busid", "")
    pairs = [(own, above)] if element.name == "pci" else []
    return pairs + [pair for child in element.children for pair in walk(child, own)]


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_gives_a_file_that_nccl_reads_with_the_tree_that_nccl_finds(
    name: str, roots: dict[str, str]
) -> None:
    root = roots[name]
    everything = [device.address for device in pci.devices(root) if device.code >> 16 in (0x02, 0x03, 0x12)]
    system = read(topo_xml(everything, rundir.read_tree(everything, root), XEON))
    pairs = walk(system)
    assert {address for address, _ in pairs} >= set(everything)
    assert pairs == [(address, nccl_parent(root, address)) for address, _ in pairs]


def test_masks_too_long_for_nccl_are_left_to_nccl(roots: dict[str, str]) -> None:
    long = XEON._replace(affinity={0: ",".join(["ffffffff"] * 64)})
    (cpu,) = read(topo_xml(HGX, rundir.read_tree(HGX, roots["hgx-h100"]), long)).children
    assert "affinity" not in cpu.attributes
    short = XEON._replace(affinity={0: ",".join(["00000000"] * 60 + ["0000ffff"])})
    (cpu,) = read(topo_xml(HGX, rundir.read_tree(HGX, roots["hgx-h100"]), short)).children
    assert cpu.attributes["affinity"] == "0000ffff"


def test_this_machines_cpu_is_one_that_nccl_knows() -> None:
    found = rundir.cpu()
    assert found.arch in ("x86_64", "arm64", "ppc64")
    assert found.vendor == "" or (found.family > 0 and found.affinity)


@pytest.mark.parametrize(
    "text",
    [
        '<?xml version="1.0"?>\n<system version="1">\n</system>\n',
        '<system version="1">\n\t<cpu numaid="0"/>\n</system>\n',
        '<system version="1"\n name="x">\n</system>\n',
        f'<system version="1">\n<cpu numaid="0" affinity="{"f" * 255}"/>\n</system>\n',
        '<system version="1">\n<cpu numaid="0">\n</system>\n',
    ],
)
def test_the_reader_refuses_what_nccl_refuses(text: str) -> None:
    """Else the tests above would prove nothing."""
    with pytest.raises((RefusedError, ValueError)):
        read(text)
