"""NIC counters around a measurement. ``python -m nccltest.counters NIC…`` prints this host's as JSON.

The host side reads the kernel: ``ethtool -S``, the RDMA device's port and hardware counters, and the netdev's own. The
probe's side starts it on every member before and after a round, and keeps what moved.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from nccltest.model import Delta

__all__ = ["Reading", "command", "deltas", "parse", "read"]

_PER_QUEUE = re.compile(r"^(?:(?:rx|tx|ch|txq|rxq|queue)_?\d+_|(?:rx|tx)_queue_\d+_)|\[\d+\]:")
_MOST_NAMES, _MOST_NICS = 4096, 64
_NET = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
_NET_RARE = ("rx_crc_errors", "rx_frame_errors", "rx_missed_errors", "tx_carrier_errors")


class Reading(NamedTuple):
    """One NIC at one moment."""

    driver: str
    firmware: str
    rdma: str
    """Its RDMA device; empty without one."""
    counters: Mapping[str, int]


def read(nic: str, *, sysfs: str = "/sys") -> Reading | None:
    """This host's NIC, by netdev name or PCI address; None where there is no such NIC."""
    netdev = nic if ":" not in nic else _netdev_at(nic, sysfs)
    folder = os.path.join(sysfs, "class/net", netdev)
    if not netdev or not os.path.isdir(folder):
        return None
    names = {f"statistics/{name}": name for name in (*_NET, *_NET_RARE)}
    names |= {name: name for name in ("carrier_down_count", "carrier_up_count")}
    found = {
        short: value for path, short in names.items() if (value := _number(os.path.join(folder, path))) is not None
    }
    rdma = _rdma_of(folder)
    driver, firmware, statistics = _ethtool(netdev)
    return Reading(driver, firmware, rdma, {**statistics, **_rdma(rdma, sysfs), **found})


def _netdev_at(pci: str, sysfs: str) -> str:
    try:
        return min(os.listdir(os.path.join(sysfs, "bus/pci/devices", pci, "net")), default="")
    except OSError:
        return ""


def _rdma_of(folder: str) -> str:
    try:
        return min(os.listdir(os.path.join(folder, "device/infiniband")), default="")
    except OSError:
        return ""


def _ethtool(netdev: str) -> tuple[str, str, dict[str, int]]:
    from host.errors import HostError
    from host.ethtool import Ethtool

    try:
        door = Ethtool()
    except (OSError, HostError):
        return "", "", {}
    try:
        driver = door.driver(netdev)
        statistics = {name: value for name, value in door.statistics(netdev).items() if not _PER_QUEUE.search(name)}
    except HostError:
        return "", "", {}
    finally:
        door.close()
    return (driver.name, driver.firmware, statistics) if driver else ("", "", statistics)


def _rdma(device: str, sysfs: str) -> dict[str, int]:
    if not device:
        return {}
    from host import rdma

    return {**rdma.counters(device, sysfs=sysfs), **rdma.hw_counters(device, sysfs=sysfs)}


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(64))
    except (OSError, ValueError):
        return None


def command(nics: Iterable[str]) -> tuple[str, ...]:
    """The words that read these NICs on a host with roceway."""
    return (sys.executable, "-m", "nccltest.counters", *nics)


def parse(text: str) -> dict[str, Reading]:
    """A host's answer by NIC; empty for anything else: what another host prints is not to be trusted."""
    line = next((line for line in text.splitlines() if line.startswith('{"nics"')), "")
    try:
        document = json.loads(line)["nics"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {str(nic): reading for nic, each in list(document.items())[:_MOST_NICS] if (reading := _reading(each))}


def _reading(each: Any) -> Reading | None:
    if not isinstance(each, dict) or not isinstance(each.get("counters"), dict):
        return None
    counters = {
        str(name)[:128]: value
        for name, value in list(each["counters"].items())[:_MOST_NAMES]
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64
    }
    driver, firmware, rdma = (str(each.get(name, ""))[:128] for name in ("driver", "firmware", "rdma"))
    return Reading(driver, firmware, rdma, counters)


def deltas(node: str, rail: str, before: Reading, after: Reading) -> Iterator[Delta]:
    """The counters that moved, by name."""
    from nccltest.model import Delta  # the host side starts on every member, twice a round, and needs no pydantic

    for name in sorted(after.counters):
        moved = after.counters[name] - before.counters.get(name, after.counters[name])
        if moved:
            yield Delta(node, rail, name, moved)


def main(nics: Sequence[str]) -> None:
    """Print this host's counters of ``nics``; one that is not there is left out."""
    readings = {nic: reading._asdict() for nic in nics if (reading := read(nic)) is not None}
    print(json.dumps({"nics": readings}))


if __name__ == "__main__":
    main(sys.argv[1:])
