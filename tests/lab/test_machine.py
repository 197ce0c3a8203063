"""machine.yaml and what is made of it, where no virtual machine is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.lab.vm import initramfs, machine

MACHINE = machine.load()


def test_every_device_has_its_own_address() -> None:
    addresses = [seat.address for seat in machine.seats(MACHINE)]
    assert len(addresses) == len(set(addresses)) == 20


def test_addresses_are_numbered_depth_first() -> None:
    shown = [f"{seat.kind} {seat.address} below {seat.switch}" for seat in machine.seats(MACHINE)[:6]]
    assert shown == [
        "igb 0000:23:00.0 below 0000:21:00.0",
        "roce 0000:24:00.0 below 0000:21:00.0",
        "roce 0000:25:00.0 below 0000:21:00.0",
        "gpu 0000:26:00.0 below 0000:21:00.0",
        "gpu 0000:27:00.0 below 0000:21:00.0",
        "igb 0000:2a:00.0 below 0000:28:00.0",
    ]


def test_every_simulated_card_has_one_neighbour_of_its_kind() -> None:
    cards = [(seat.wire, seat.like) for seat in machine.seats(MACHINE) if seat.kind == "roce"]
    assert all(cards.count(card) == 2 for card in cards)
    assert machine.module_parameters(MACHINE).startswith("cards=0000:24:00.0/mlx5/a,0000:25:00.0/bnxt/b,")


def test_root_complexes_cannot_overlap() -> None:
    buses = [int(seat.address[5:7], 16) for seat in machine.seats(MACHINE)]
    assert max(bus for bus in buses if bus < 0x60) < 0x60 <= min(bus for bus in buses if bus >= 0x60)
    assert max(buses) < 0x100


def test_a_misspelt_key_is_named() -> None:
    with pytest.raises(ValidationError, match="memori"):
        machine.Machine.model_validate({**MACHINE.model_dump(), "memori": 1})


def members(archive: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Read a newc archive: name, mode, data."""
    at = 0
    while at < len(archive):
        assert archive[at : at + 6] == b"070701"
        field = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name = archive[at + 110 : at + 110 + field[11] - 1].decode()
        start = (at + 110 + field[11] + 3) & ~3
        yield name, field[1], archive[start : start + field[6]]
        at = (start + field[6] + 3) & ~3


def test_the_archive_is_what_a_reader_of_newc_expects(tmp_path: Path) -> None:
    module = tmp_path / "x.ko"
    module.write_bytes(b"123")
    read = {name: (mode, data) for name, mode, data in members(initramfs.build(module, [module], Path("/i"), ["/a b"]))}
    assert read["bin/busybox"] == read["modules/x.ko"] == (0o100755, b"123")
    assert read["bin/sh"] == (0o120777, b"busybox")
    assert read["rw"] == (0o040755, b"")
    assert b"for module in x;" in read["init"][1]
    assert b"/i '/a b'\n" in read["init"][1]
    assert list(read)[-1] == "TRAILER!!!"


@pytest.mark.parametrize("script", ["init.sh"])
def test_shell_scripts_parse(script: str) -> None:
    path = Path(__file__).parent / "guest" / script
    subprocess.run(["sh", "-n", path], check=True)
