"""Counters: what a host tells, what moved, and what a lying host cannot do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nccltest import counters
from nccltest.counters import Reading
from nccltest.model import Delta
from tests.world import ROOT


def machine(root: Path) -> Path:
    """A sysfs with one mlx5 NIC."""
    pci = root / "devices/pci0000:18/0000:18:00.0"
    for name, value in {
        "statistics/rx_bytes": "100",
        "statistics/tx_bytes": "200",
        "statistics/rx_dropped": "0",
        "carrier_down_count": "3",
    }.items():
        path = pci / "net/eth2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    for name, value in {"counters/symbol_error": "7", "hw_counters/out_of_sequence": "9"}.items():
        path = pci / "infiniband/mlx5_0/ports/1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    for link, target in {
        "class/net/eth2": pci / "net/eth2",
        "class/infiniband/mlx5_0": pci / "infiniband/mlx5_0",
        "bus/pci/devices/0000:18:00.0": pci,
    }.items():
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(target)
    (pci / "net/eth2/device").symlink_to(pci)
    return root


def test_a_nic_is_read_by_name_and_by_pci_address(tmp_path: Path) -> None:
    sysfs = str(machine(tmp_path))
    by_name = counters.read("eth2", sysfs=sysfs)
    assert by_name is not None
    assert by_name == counters.read("0000:18:00.0", sysfs=sysfs)
    assert by_name.rdma == "mlx5_0"
    wanted = {"rx_bytes": 100, "tx_bytes": 200, "rx_dropped": 0, "carrier_down_count": 3}
    assert by_name.counters == {**wanted, "symbol_error": 7, "out_of_sequence": 9}
    assert counters.read("eth9", sysfs=sysfs) is None
    assert counters.read("0000:99:00.0", sysfs=sysfs) is None


def test_this_machines_loopback_is_read_as_a_host_would() -> None:
    done = subprocess.run([*counters.command(["lo", "none"])], capture_output=True, text=True, cwd=ROOT, timeout=30)
    readings = counters.parse("motd: welcome\n" + done.stdout)
    assert list(readings) == ["lo"]
    assert readings["lo"].counters["rx_bytes"] == readings["lo"].counters["tx_bytes"]
    assert done.args[0] == sys.executable


def test_only_what_moved_is_told_and_a_reset_is_negative() -> None:
    before = Reading("d", "f", "", {"a": 1, "b": 5, "c": 7})
    after = Reading("d", "f", "", {"a": 3, "b": 5, "c": 2, "new": 9})
    assert list(counters.deltas("n", "r", before, after)) == [Delta("n", "r", "a", 2), Delta("n", "r", "c", -5)]


VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(st.text() | VALUES.map(lambda value: json.dumps({"nics": value})))
def test_what_another_host_prints_is_not_trusted(text: str) -> None:
    for reading in counters.parse(text).values():
        assert all(isinstance(value, int) and 0 <= value < 1 << 64 for value in reading.counters.values())


def test_hostile_answers_are_bounded() -> None:
    big = json.dumps({"nics": {str(nic): {"counters": {str(name): name for name in range(9000)}} for nic in range(99)}})
    readings = counters.parse(big)
    assert len(readings) == 64
    assert max(len(reading.counters) for reading in readings.values()) == 4096
    assert counters.parse('{"nics": ' + "[" * 100_000) == {}
