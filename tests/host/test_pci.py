"""The PCI tree of whole machines, configuration space by bytes, and this machine's own."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host import pci
from host.errors import HostError
from tests.fixtures.machines.archive import MACHINES, unpack


@pytest.fixture(scope="module")
def hgx(tmp_path_factory: pytest.TempPathFactory) -> str:
    return unpack("hgx-h100", tmp_path_factory.mktemp("hgx"))


def test_a_physical_function(hgx: str) -> None:
    assert pci.read("0000:18:00.0", hgx) == pci.Device(
        address="0000:18:00.0",
        root="pci0000:15",
        chain=("0000:15:01.0", "0000:16:00.0", "0000:17:00.0", "0000:18:00.0"),
        code=0x020000,
        vendor=0x15B3,
        device=0x1021,
        driver="mlx5_core",
        numa_node=0,
        link=pci.Link(32.0, 16),
        max_link=pci.Link(32.0, 16),
        total_vfs=16,
        num_vfs=2,
        vfs=("0000:18:00.1", "0000:18:00.2"),
        pf="",
    )


def test_a_virtual_function_without_a_driver(hgx: str) -> None:
    device = pci.read("0000:18:00.2", hgx)
    assert (device.pf, device.driver, device.link) == ("0000:18:00.0", "", pci.Link(0.0, 0))
    assert pci.read("0000:18:00.0", hgx).vfs.index(device.address) == 1


def test_a_degraded_link_differs_from_its_best(hgx: str) -> None:
    device = pci.read("0000:61:00.0", hgx)
    assert (device.link, device.max_link) == (pci.Link(16.0, 16), pci.Link(32.0, 16))


def test_an_address_in_capitals_is_the_same(hgx: str) -> None:
    assert pci.read("0000:9A:00.0", hgx).address == "0000:9a:00.0"


def test_functions_come_in_numeric_order(hgx: str) -> None:
    found = pci.addresses(hgx)
    assert list(found) == sorted(found, key=pci.order)
    assert len(pci.devices(hgx)) == len(found) == 86


@pytest.mark.parametrize("name", MACHINES)
def test_every_chain_leads_to_its_function_through_known_bridges(name: str, tmp_path: Path) -> None:
    tree = {device.address: device for device in pci.devices(unpack(name, tmp_path))}
    for device in tree.values():
        assert device.chain[-1] == device.address
        assert device.root.startswith("pci")
        for above in device.chain[:-1]:
            assert tree[above].code >> 8 == 0x0604 or tree[above].vendor == 0x1A03
            assert tree[above].root == device.root


def test_below_the_vmbus_each_function_has_a_domain(tmp_path: Path) -> None:
    device = pci.read("0101:00:02.0", unpack("cloud-vm-hyperv", tmp_path))
    assert (device.root, device.chain, device.numa_node) == ("pci0101:00", ("0101:00:02.0",), 1)


def test_no_such_function(hgx: str) -> None:
    with pytest.raises(HostError, match="No such file"):
        pci.read("0000:ff:00.0", hgx)
    with pytest.raises(HostError, match="No such file"):
        pci.config("0000:ff:00.0", hgx)


@pytest.mark.parametrize("text", ["", "eth0", "18:00.0", "0000:18:00.8", "0000:18:20.0", "../0000:18:00.0"])
def test_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="no PCI address"):
        pci.read(text)


def test_a_machine_without_pci_has_no_functions(tmp_path: Path) -> None:
    assert pci.devices(str(tmp_path)) == ()


def test_what_a_vanishing_device_no_longer_tells_is_unknown(tmp_path: Path) -> None:
    folder = tmp_path / "sys/devices/pci0000:00/0000:00:05.0"
    folder.mkdir(parents=True)
    (folder / "class").write_text("garbage")
    links = tmp_path / "sys/bus/pci/devices"
    links.mkdir(parents=True)
    (links / "0000:00:05.0").symlink_to("../../../devices/pci0000:00/0000:00:05.0")
    (links / "0000:00:06.0").symlink_to("../../../devices/pci0000:00/0000:00:06.0")
    (links / "not-a-function").mkdir()
    with pytest.raises(HostError):
        pci.devices(str(tmp_path))  # a link that leads nowhere is no vanished device
    (links / "0000:00:06.0").unlink()
    (device,) = pci.devices(str(tmp_path))
    assert (device.code, device.numa_node, device.driver, device.vfs) == (0, -1, "", ())


@pytest.mark.parametrize(
    ("speed", "width", "link"),
    [
        ("32.0 GT/s PCIe", "16", pci.Link(32.0, 16)),
        ("8 GT/s", "8", pci.Link(8.0, 8)),
        ("2.5 GT/s PCIe", "1", pci.Link(2.5, 1)),
        ("Unknown", "0", pci.Link(0.0, 0)),
        ("Unknown speed", "63", pci.Link(0.0, 0)),
        ("", "", pci.Link(0.0, 0)),
        ("9.9.9 GT/s", "²", pci.Link(0.0, 0)),
    ],
)
def test_parse_link(speed: str, width: str, link: pci.Link) -> None:
    assert pci.parse_link(speed, width) == link


def test_vmd_counts_the_outer_host_bridge() -> None:
    place = "../../../devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0/10000:e1:00.0"
    assert pci.parse_path(place) == ("pci0000:00", ("0000:00:0e.0", "10000:e0:01.0", "10000:e1:00.0"))


def test_access_control_of_switches(hgx: str) -> None:
    off, on = pci.config("0000:17:00.0", hgx), pci.config("0000:3f:00.0", hgx)
    assert off.port_type == on.port_type == "downstream port"
    assert off.acs_capable == on.acs_capable == ("SV", "TB", "RR", "CR", "UF", "DT")
    assert (off.acs_enabled, on.acs_enabled) == ((), ("SV", "RR", "CR", "UF"))


def test_read_requests_and_relaxed_ordering(hgx: str) -> None:
    assert pci.config("0000:18:00.0", hgx) == pci.Config("endpoint", 512, 4096, True, (), ())
    assert pci.config("0000:40:00.0", hgx).relaxed_ordering is False
    assert pci.config("0000:15:01.0", hgx).port_type == "root port"
    assert pci.config("0000:16:00.0", hgx).port_type == "upstream port"


UNKNOWN = pci.Config("", 0, 0, None, (), ())


def test_configuration_space_of_the_unprivileged_or_absent_is_unknown(hgx: str) -> None:
    data = Path(hgx, "sys/bus/pci/devices/0000:18:00.0/config").read_bytes()
    assert pci.parse_config(data[:64]) == UNKNOWN
    assert pci.parse_config(b"\xff" * 4096) == UNKNOWN
    assert pci.parse_config(b"") == UNKNOWN
    assert pci.parse_config(data[:256]).max_read_request == 4096


def test_capability_lists_that_bite_their_tail_end() -> None:
    data = bytearray(4096)
    struct.pack_into("<H", data, 6, 0x10)
    data[0x34], data[0x40], data[0x41] = 0x40, 0x05, 0x40
    assert pci.parse_config(bytes(data)) == UNKNOWN
    data[0x40] = 0x10
    struct.pack_into("<I", data, 0x100, 0x0001 | 0x100 << 20)
    assert pci.parse_config(bytes(data)).acs_enabled == ()


@given(st.binary(max_size=600), st.integers(0, 255))
def test_any_configuration_space_parses(data: bytes, pointer: int) -> None:
    pci.parse_config(data)
    head = bytearray(data.ljust(64, b"\0"))
    head[6] |= 0x10
    head[0x34] = pointer
    pci.parse_config(bytes(head))


def test_this_machine() -> None:
    for device in pci.devices():
        assert device.chain[-1] == device.address
        assert device.vendor > 0
        pci.config(device.address)


def drivers(root: Path) -> Path:
    """A machine whose driver mlx5_core has the files that the kernel gives every driver."""
    folder = root / "sys/bus/pci/drivers/mlx5_core"
    folder.mkdir(parents=True)
    for name in ("bind", "unbind"):
        (folder / name).write_text("")
    return folder


def test_binding_writes_the_address_where_the_kernel_expects_it(tmp_path: Path) -> None:
    folder = drivers(tmp_path)
    pci.unbind("0000:18:00.1", "mlx5_core", str(tmp_path))
    pci.bind("0000:9A:00.1", "mlx5_core", str(tmp_path))
    assert (folder / "unbind").read_text() == "0000:18:00.1"
    assert (folder / "bind").read_text() == "0000:9a:00.1"


def test_a_driver_that_is_not_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"bind driver mlx5_core, PCI function 0000:18:00\.1: No such file"):
        pci.bind("0000:18:00.1", "mlx5_core", str(tmp_path))


@pytest.mark.parametrize("driver", ["", "../../../etc", ".", "a/b"])
def test_what_is_no_name_of_a_driver_is_never_a_path(tmp_path: Path, driver: str) -> None:
    with pytest.raises(ValueError, match="is no name of a driver"):
        pci.unbind("0000:18:00.1", driver, str(tmp_path))
    with pytest.raises(ValueError, match="is no PCI address"):
        pci.bind("../18:00.1", "mlx5_core", str(tmp_path))
