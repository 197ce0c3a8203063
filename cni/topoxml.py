"""A topology file as NCCL reads it (NCCL_TOPO_FILE): which of a pod's GPUs and NICs are under which switch. Pure.

NCCL's reader (src/graph/xml.cc) is no XML reader: no declaration, one space between attributes, none before ``/>``,
values under 255 bytes. Its tree (``ncclTopoGetXmlFromSys``) has every other function of the way up: a device, the
upstream port of its switch, the next switch's, then the CPU; a link is as fast as the slower of its ends. What is left
out (GPU and network tags) NCCL fills in itself: those numbers are the container's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from host import pci

__all__ = ["Cpu", "topo_xml"]

_VERSION = 1
_VALUE_MAX = 254  # MAX_STR_LEN - 1


class Cpu(NamedTuple):
    """What NCCL wants to know of the machine's CPUs."""

    arch: str
    """``x86_64``, ``arm64``, ``ppc64``: NCCL's names."""
    vendor: str = ""
    """``GenuineIntel``, …; x86 only."""
    family: int = 0
    model: int = 0
    affinity: Mapping[int, str] = {}
    """NUMA node to its CPUs as ``/sys/devices/system/node/node<N>/cpumap`` has them."""


class _Node:
    """A function and what hangs below it."""

    def __init__(self, device: pci.Device, above: pci.Device | None) -> None:
        self.device = device
        self.above = above
        self.below: dict[str, _Node] = {}


def topo_xml(functions: Iterable[str], tree: Mapping[str, pci.Device], cpu: Cpu) -> str:
    """The file's text for these functions (PCI addresses). KeyError for one that ``tree`` lacks."""
    cpus: dict[int, dict[str, _Node]] = {}
    for address in sorted(functions, key=pci.order):
        way = tree[address].chain[::-2][::-1]  # from the top: every other function, the device itself last
        # A NUMA node is the CPU's whose host bridge the way begins at.
        below = cpus.setdefault(tree[tree[address].chain[0]].numa_node, {})
        for each in way:
            below = below.setdefault(each, _Node(tree[each], _port_above(tree[each], tree))).below
    lines = [f'<system version="{_VERSION}">']
    for node, below in sorted(cpus.items()):
        lines.append(f"  <cpu {_attributes(_cpu(node, cpu))}>")
        lines += _nodes(below, "    ")
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>"]) + "\n"


def _port_above(device: pci.Device, tree: Mapping[str, pci.Device]) -> pci.Device | None:
    return tree[device.chain[-2]] if len(device.chain) > 1 else None


def _cpu(node: int, cpu: Cpu) -> dict[str, str]:
    attributes = {"numaid": str(node), "affinity": _short_mask(cpu.affinity.get(node, "")), "arch": cpu.arch}
    if cpu.vendor:
        attributes |= {"vendor": cpu.vendor, "familyid": str(cpu.family), "modelid": str(cpu.model)}
    return attributes


def _short_mask(mask: str) -> str:
    """``00000000,0000ffff`` without leading zero words; one that NCCL could not hold is left to NCCL."""
    words = mask.split(",")
    while len(words) > 1 and not words[0].strip("0"):
        words = words[1:]
    text = ",".join(words)
    return text if len(text) <= _VALUE_MAX else ""


def _nodes(below: Mapping[str, _Node], indent: str) -> list[str]:
    lines = []
    for address, node in sorted(below.items(), key=lambda item: pci.order(item[0])):
        start = f"{indent}<pci {_attributes(_pci(address, node))}"
        if node.below:
            lines += [f"{start}>", *_nodes(node.below, indent + "  "), f"{indent}</pci>"]
        else:
            lines.append(f"{start}/>")
    return lines


def _pci(address: str, node: _Node) -> dict[str, str]:
    device, above = node.device, node.above
    attributes = {
        "busid": address,
        "class": f"0x{device.code:06x}",
        "vendor": f"0x{device.vendor:04x}",
        "device": f"0x{device.device:04x}",
    }
    ends = [end.max_link for end in (device, above) if end is not None and end.max_link.width]
    if ends:  # a virtual machine shows none: NCCL has its own guess then
        speed, width = min(end.speed for end in ends), min(end.width for end in ends)
        attributes |= {"link_speed": f"{speed:.1f} GT/s PCIe", "link_width": str(width)}
    return attributes


def _attributes(values: Mapping[str, str]) -> str:
    return " ".join(f'{key}="{value}"' for key, value in values.items() if value != "")
