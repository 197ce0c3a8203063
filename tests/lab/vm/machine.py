"""machine.yaml as values: the PCI tree, its addresses as the firmware will give them, and QEMU's arguments for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

FILE = Path(__file__).resolve().parent.parent / "machine.yaml"
VFS = 7
"""Of every NIC: what the emulated igb has."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Igb(_Part):
    """An SR-IOV NIC for the kernel's igb driver."""

    mac: str
    wire: str


class Roce(_Part):
    """An SR-IOV NIC for the simulation."""

    like: Literal["mlx5", "bnxt", "lenient", "liar"]
    wire: str


class Switch(_Part):
    """A PCIe switch with what is plugged into it, in the order of these fields."""

    igb: tuple[Igb, ...]
    roce: tuple[Roce, ...]
    gpus: int


class RootComplex(_Part):
    """A PCIe expander bridge."""

    numa: int
    bus: int
    switches: tuple[Switch, ...]


class Kernel(_Part):
    """Which kernel: a pinned one, else whatever the ``follow`` package of ``suite`` depends on."""

    pin: str
    suite: str
    follow: str


class Software(_Part):
    """Where packages come from."""

    mirror: str
    suites: tuple[str, ...]
    keyring: Path
    kernel: Kernel
    packages: tuple[dict[str, tuple[str, ...]], ...]


class Machine(_Part):
    """The whole file."""

    cpus: int
    memory: int
    rootComplexes: tuple[RootComplex, ...]  # noqa: N815 - the file's spelling, as in fabric.yaml
    modules: tuple[str, ...]
    software: Software


class Seat(_Part):
    """Where one device sits once the firmware has numbered the buses."""

    address: str
    """Such as 0000:23:00.0."""
    kind: Literal["igb", "roce", "gpu"]
    numa: int
    switch: str
    """The address of the switch's upstream port: equal for devices under one switch."""
    root_port: str
    mac: str = ""
    like: str = ""
    wire: str = ""


def load(path: Path = FILE) -> Machine:
    """Read and check the file."""
    return Machine.model_validate(yaml.safe_load(path.read_text()))


def seats(machine: Machine) -> tuple[Seat, ...]:
    """Every NIC and GPU with its address: buses are numbered depth first from each root complex's own."""
    return tuple(seat for complex_ in machine.rootComplexes for seat in _complex_seats(complex_))


def _complex_seats(complex_: RootComplex) -> Iterator[Seat]:
    bus = complex_.bus
    for slot, switch in enumerate(complex_.switches):
        upstream = bus + 1  # the root port's secondary bus; the switch's own buses follow
        bus = upstream + 1
        where = {
            "numa": complex_.numa,
            "switch": f"0000:{upstream:02x}:00.0",
            "root_port": f"0000:{complex_.bus:02x}:{slot:02x}.0",
        }
        for device in (*switch.igb, *switch.roce, *[None] * switch.gpus):
            bus += 1
            kind = "igb" if isinstance(device, Igb) else "roce" if device else "gpu"
            what = device.model_dump() if device else {}
            yield Seat(address=f"0000:{bus:02x}:00.0", kind=kind, **where, **what)


def module_parameters(machine: Machine) -> str:
    """The simulation's ``cards=``."""
    cards = (f"{seat.address}/{seat.like}/{seat.wire}" for seat in seats(machine) if seat.kind == "roce")
    return "cards=" + ",".join(cards)


def qemu_arguments(machine: Machine) -> list[str]:
    """CPUs, NUMA memory (shareable, as virtiofs needs it), the PCI tree and the wires."""
    nodes = sorted({complex_.numa for complex_ in machine.rootComplexes})
    words = ["-smp", f"{machine.cpus},sockets={len(nodes)}", "-m", str(machine.memory)]
    for node in nodes:
        cpus = ",".join(f"cpus={cpu}" for cpu in range(machine.cpus) if cpu % len(nodes) == node)
        words += ["-object", f"memory-backend-memfd,share=on,id=ram{node},size={machine.memory // len(nodes)}M"]
        words += ["-numa", f"node,nodeid={node},memdev=ram{node}" + (f",{cpus}" if cpus else "")]
    wires = sorted({nic.wire for rc in machine.rootComplexes for switch in rc.switches for nic in switch.igb})
    for number, complex_ in reversed(list(enumerate(machine.rootComplexes))):  # Linux finds the last one first
        words += _complex_arguments(number, complex_, wires)
    return words


def _complex_arguments(number: int, complex_: RootComplex, wires: list[str]) -> Iterator[str]:
    root = f"rc{number}"
    yield from _device(f"pxb-pcie,id={root},bus=pcie.0,bus_nr={complex_.bus},numa_node={complex_.numa}")
    for slot, switch in enumerate(complex_.switches):
        name = f"{root}s{slot}"
        chassis = 1 + 100 * number + 20 * slot
        yield from _device(f"pcie-root-port,id={name}rp,bus={root},addr={slot},chassis={chassis},slot=0")
        yield from _device(f"x3130-upstream,id={name}up,bus={name}rp")
        for port, device in enumerate((*switch.igb, *switch.roce, *[None] * switch.gpus)):
            below = f"{name}d{port}"
            yield from _device(
                f"xio3130-downstream,id={below},bus={name}up,addr={port},chassis={chassis + 1 + port},slot={port}"
            )
            if isinstance(device, Igb):
                yield from ("-netdev", f"hubport,id={below}n,hubid={wires.index(device.wire)}")
                yield from _device(f"igb,bus={below},netdev={below}n,mac={device.mac},romfile=")
            else:
                yield from _device(f"igb,bus={below},romfile=" if device else f"edu,bus={below}")


def _device(description: str) -> Iterator[str]:
    yield from ("-device", description)
