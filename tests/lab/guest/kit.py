"""What guest tests share: running tools, namespaces that go away, sysfs by PCI address, the simulation's knobs."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.lab.vm import machine

MACHINE = machine.load()
SEATS = machine.seats(MACHINE)
ROCE = [seat for seat in SEATS if seat.kind == "roce"]
IGB = [seat for seat in SEATS if seat.kind == "igb"]
PCI = Path("/sys/bus/pci/devices")
KNOBS = Path("/sys/kernel/debug/simroce")
HOST = "host"
"""The name under which guest/init.sh keeps the machine's own network namespace."""
_serial = itertools.count()


def attempt(*words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a tool, whatever comes of it."""
    return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=60, check=False)


def sh(*words: str, stdin: str | None = None) -> str:
    """Run a tool that must succeed; its stdout."""
    done = attempt(*words, stdin=stdin)
    assert done.returncode == 0, f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def read_json(*words: str) -> Any:
    """The decoded output of a tool that prints JSON."""
    return json.loads(sh(*words) or "[]")


def link(name: str, *, ns: str = "") -> dict[str, Any]:
    """``ip -d link show`` of one device."""
    where = ["-n", ns] if ns else []
    found: list[dict[str, Any]] = read_json("ip", "-j", "-d", *where, "link", "show", name)
    return found[0]


def links() -> dict[str, dict[str, Any]]:
    """``ip -d link show`` of every device of this namespace, by name; one process for what would be several."""
    return {device["ifname"]: device for device in read_json("ip", "-j", "-d", "link", "show")}


def names(ns: str = "") -> set[str]:
    """The network devices of a namespace."""
    return {device["ifname"] for device in read_json("ip", "-j", *(["-n", ns] if ns else []), "link", "show")}


def netdev(address: str) -> str:
    """The network device of a PCI function in this namespace; an error when it has none here."""
    (path,) = (PCI / address / "net").iterdir()
    return path.name


def wait_for_netdev(address: str) -> None:
    """Until the driver of a PCI function has made its network device."""
    wait_until(lambda: list((PCI / address).glob("net/*")))


def node_guid(address: str) -> str:
    """The node GUID of the only RDMA device of a PCI function, here."""
    (device,) = (PCI / address / "infiniband").iterdir()
    return (device / "node_guid").read_text().strip()


def rebind(address: str) -> None:
    """Take a PCI function from its driver and give it back."""
    driver = (PCI / address / "driver").resolve()
    (driver / "unbind").write_text(address)
    (driver / "bind").write_text(address)


def virtual_functions(pf: str, count: int) -> list[str]:
    """Switch a PF to ``count`` VFs; their PCI addresses."""
    knob = PCI / pf / "sriov_numvfs"
    if int(knob.read_text()) not in (0, count):
        knob.write_text("0")
    knob.write_text(str(count))
    return [(PCI / pf / f"virtfn{number}").resolve().name for number in range(count)]


def knob(device: str, name: str, value: object = None) -> int:
    """Read or set one of the simulation's debugfs files."""
    path = KNOBS / device / name
    if value is not None:
        path.write_text(f"{value}\n")
        return 0
    return int(path.read_text())


def statistics(device: str) -> dict[str, int]:
    """``ethtool -S``."""
    lines = (line.strip().rpartition(": ") for line in sh("ethtool", "-S", device).splitlines()[1:])
    return {name: int(value) for name, _, value in lines}


@contextlib.contextmanager
def namespace(stem: str = "pod") -> Iterator[str]:
    """A network namespace with loopback up; what is left in it returns to us when it dies."""
    name = f"{stem}{next(_serial)}"
    sh("ip", "netns", "add", name)
    sh("ip", "-n", name, "link", "set", "lo", "up")
    try:
        yield name
    finally:
        attempt("ip", "netns", "del", name)


def wait_until(true: Callable[[], object], seconds: float = 15) -> None:
    """The kernel does some things a little later, the emulated one later still."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.05)


def restore() -> None:
    """Give simulated NICs that a failed test left without driver or renamed both back: the next test must start."""
    bind = PCI.parent / "drivers/simroce/bind"
    for number, seat in enumerate(ROCE):
        if bind.exists() and not (PCI / seat.address / "driver").exists():
            bind.write_text(seat.address)
        for kind, name, rename in (
            ("net", f"sim{number}", ("ip", "link", "set", "{}", "down", "name")),
            ("infiniband", f"simib{number}", ("rdma", "dev", "set", "{}", "name")),
        ):
            for path in (PCI / seat.address / kind).glob("*"):
                if path.name != name and not path.name.startswith("rxe"):
                    attempt(*(word.format(path.name) for word in rename), name)
