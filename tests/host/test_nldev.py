"""NETLINK_RDMA by bytes: messages as the header says, answers built by hand; a live kernel where it has RDMA."""

from __future__ import annotations

import errno
import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host import nldev, rdma
from host.errors import HostError
from host.netlink import Request

HEADER = Path("/usr/include/rdma/rdma_netlink.h")


def attr(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", len(payload) + 4, kind) + payload + b"\0" * (-len(payload) % 4)


def u8(kind: int, value: int) -> bytes:
    return attr(kind, bytes([value]))


def u32(kind: int, value: int) -> bytes:
    return attr(kind, struct.pack("=I", value))


def u64(kind: int, value: int) -> bytes:
    return attr(kind, struct.pack("=Q", value))


def text(kind: int, value: str) -> bytes:
    return attr(kind, value.encode() + b"\0")


DEVICE = b"".join(
    [
        u32(1, 7),
        text(2, "mlx5_0"),
        u32(3, 1),
        u64(4, 0x1234),
        text(5, "28.39.1002"),
        u64(6, 0xA088C20300461A2E),
        u64(7, 0xA088C20300461A20),
        u8(14, 1),
        text(67, "roce"),
    ]
)
PORT = b"".join([u32(1, 7), text(2, "mlx5_0"), u32(3, 1), u8(12, 4), u8(13, 5), u32(50, 3), text(51, "eth2")])
IB_PORT = b"".join([u32(1, 8), text(2, "mlx5_1"), u32(3, 1), u32(9, 0x13), u32(10, 1), u8(12, 2), u8(13, 2)])
UVERBS = b"".join([u64(72, 231 << 8 | 192), u64(71, 1), text(70, "uverbs0")])
COUNTERS = b"".join(
    [
        u32(1, 7),
        text(2, "mlx5_0"),
        u32(3, 1),
        attr(
            80, attr(81, text(82, "np_cnp_sent") + u64(83, 2**40)) + attr(81, text(82, "out_of_sequence") + u64(83, 3))
        ),
    ]
)


class Kernel(nldev.Rdma):
    """A connection whose other end is a table: (type, flags asked for, body) to payloads or an errno."""

    def __init__(self, answers: dict[tuple[int, bytes], list[bytes] | int]) -> None:
        self._sequence = 0
        self._socket: Any = self
        self.answers = answers
        self.queue: list[bytes] = []

    def send(self, message: bytes) -> None:
        _, kind, flags, sequence, _ = struct.unpack_from("=IHHII", message)
        answer = self.answers.get((kind, message[16:]), errno.EOPNOTSUPP)
        payloads = answer if isinstance(answer, list) else []
        code = 0 if isinstance(answer, list) else -answer
        frames = [(kind, payload) for payload in payloads]
        frames.append(
            (3, b"\0" * 4) if flags & 0x300 == 0x300 and not code else (2, struct.pack("=i", code) + message[:16])
        )
        stray = struct.pack("=IHHII", 20, 2, 0, sequence - 1, 0) + struct.pack("=i", -errno.EIO)
        self.queue.append(stray)  # an answer to what somebody asked before: not ours
        self.queue += [struct.pack("=IHHII", 16 + len(body), number, 0, sequence, 0) + body for number, body in frames]

    def recv(self, size: int) -> bytes:
        return self.queue.pop(0)


def test_numbers_are_the_headers() -> None:
    if not HEADER.exists():
        pytest.skip("needs linux-libc-dev")
    body = re.search(r"enum rdma_nldev_attr \{(.*?)\n\};", HEADER.read_text(), re.S)
    assert body
    plain = re.sub(r"/\*.*?\*/", "", body[1], flags=re.S)
    names = [name.strip() for name in plain.split(",") if name.strip() and "=" not in name]
    numbers = {name.removeprefix("RDMA_NLDEV_ATTR_"): number for number, name in enumerate(names)}
    ours = {
        "DEV_INDEX": nldev._DEV_INDEX,
        "DEV_NAME": nldev._DEV_NAME,
        "PORT_INDEX": nldev._PORT_INDEX,
        "FW_VERSION": nldev._FW_VERSION,
        "NODE_GUID": nldev._NODE_GUID,
        "SYS_IMAGE_GUID": nldev._SYS_IMAGE_GUID,
        "LID": nldev._LID,
        "PORT_STATE": nldev._PORT_STATE,
        "PORT_PHYS_STATE": nldev._PORT_PHYS_STATE,
        "NDEV_INDEX": nldev._NDEV_INDEX,
        "NDEV_NAME": nldev._NDEV_NAME,
        "RDMA_NLDEV_SYS_ATTR_NETNS_MODE": nldev._NETNS_MODE,
        "DEV_PROTOCOL": nldev._DEV_PROTOCOL,
        "RDMA_NLDEV_NET_NS_FD": nldev._NET_NS_FD,
        "CHARDEV_TYPE": nldev._CHARDEV_TYPE,
        "CHARDEV_NAME": nldev._CHARDEV_NAME,
        "CHARDEV_ABI": nldev._CHARDEV_ABI,
        "CHARDEV": nldev._CHARDEV,
        "STAT_HWCOUNTERS": nldev._HWCOUNTERS,
        "STAT_HWCOUNTER_ENTRY": nldev._HWCOUNTER,
        "STAT_HWCOUNTER_ENTRY_NAME": nldev._HWCOUNTER_NAME,
        "STAT_HWCOUNTER_ENTRY_VALUE": nldev._HWCOUNTER_VALUE,
    }
    assert {name: numbers[name] for name in ours} == ours


def test_parse_device() -> None:
    assert nldev.parse_device(DEVICE) == nldev.Device(
        7, "mlx5_0", 1, "a088:c203:0046:1a2e", "a088:c203:0046:1a20", "28.39.1002", "roce"
    )


def test_parse_ports_of_roce_and_infiniband() -> None:
    assert nldev.parse_port(PORT) == nldev.Port(7, "mlx5_0", 1, "ACTIVE", "LinkUp", 0, 3, "eth2")
    assert nldev.parse_port(IB_PORT) == nldev.Port(8, "mlx5_1", 1, "INIT", "Polling", 0x13, 0, "")


def test_an_unknown_state_is_its_number() -> None:
    assert nldev.parse_port(u32(1, 1) + text(2, "x") + u8(12, 77)).state == "77"


def test_parse_chardev() -> None:
    assert nldev.parse_chardev("uverbs", UVERBS) == nldev.CharDev("uverbs", "uverbs0", 231, 192, 1)


def test_a_minor_above_255_is_told_apart_from_its_major() -> None:
    high = (231 << 8) | (300 & 0xFF) | ((300 & ~0xFF) << 12)  # new_encode_dev, include/linux/kdev_t.h
    found = nldev.parse_chardev("uverbs", u64(72, high) + text(70, "uverbs108"))
    assert (found.major, found.minor) == (231, 300)


def test_a_chardev_name_cannot_leave_dev_infiniband() -> None:
    with pytest.raises(ValueError, match="no uverbs device"):
        nldev.parse_chardev("uverbs", u64(72, 1) + text(70, "../sda"))


def test_parse_counters() -> None:
    assert nldev.parse_counters(COUNTERS) == {"np_cnp_sent": 2**40, "out_of_sequence": 3}


@pytest.mark.parametrize(("mode", "exclusive"), [(0, True), (1, False)])
def test_namespace_mode(mode: int, exclusive: bool) -> None:
    assert nldev.parse_exclusive(u8(66, mode) + u8(92, 1)) is exclusive
    assert nldev.exclusive(Kernel({(0x1406, b""): [u8(66, mode)]})) is exclusive


def test_a_kernel_that_does_not_tell_the_mode_is_an_error() -> None:
    with pytest.raises(HostError, match="does not tell"):
        nldev.parse_exclusive(u8(92, 1))


def test_requests() -> None:
    assert nldev.move(7, 5, target="mlx5_0") == Request(0x1402, 0, u32(1, 7) + u32(68, 5), "move RDMA device", "mlx5_0")
    assert nldev.rename(7, "rdma_rail0") == Request(
        0x1402, 0, u32(1, 7) + text(2, "rdma_rail0"), "rename RDMA device to", "rdma_rail0"
    )
    assert nldev.set_exclusive(True).body == u8(66, 0)
    assert nldev.set_exclusive(False).body == u8(66, 1)


def test_lists_devices_and_ports() -> None:
    kernel = Kernel({(0x1401, b""): [u32(1, 8) + text(2, "mlx5_1"), DEVICE], (0x1405, u32(1, 7)): [PORT]})
    devices = nldev.devices(kernel)
    assert [device.name for device in devices] == ["mlx5_0", "mlx5_1"]
    assert nldev.ports(kernel, devices[0]) == (nldev.parse_port(PORT),)


def test_chardevs_leaves_out_what_the_kernel_does_not_have() -> None:
    device = nldev.parse_device(DEVICE)
    kernel = Kernel(
        {
            (0x140F, text(69, "uverbs") + u32(1, 7)): [UVERBS],
            (0x140F, text(69, "umad") + u32(1, 7) + u32(3, 1)): errno.ENOENT,
            (0x140F, text(69, "rdma_cm")): [u64(72, 10 << 8 | 124) + u64(71, 4) + text(70, "rdma_cm")],
        }
    )
    assert [each.name for each in nldev.chardevs(kernel, device)] == ["uverbs0", "rdma_cm"]


def test_chardevs_tells_a_real_refusal() -> None:
    kernel = Kernel({(0x140F, text(69, "uverbs") + u32(1, 7)): errno.EPERM})
    with pytest.raises(HostError, match="look up uverbs of mlx5_0: Operation not permitted"):
        nldev.chardevs(kernel, nldev.parse_device(DEVICE))


def test_counters_of_a_port() -> None:
    kernel = Kernel({(0x1411, u32(1, 7) + u32(3, 1)): [COUNTERS]})
    assert nldev.counters(kernel, nldev.parse_device(DEVICE))["out_of_sequence"] == 3


def test_a_refusal_names_operation_and_target() -> None:
    with pytest.raises(HostError, match=r"move RDMA device rxe0: .*\(E(NOT|OPNOT)SUPP?\)") as caught:
        Kernel({}).get(nldev.move(1, 5, target="rxe0"))
    assert caught.value.errno == errno.EOPNOTSUPP


PARSERS = (
    nldev.parse_device,
    nldev.parse_port,
    nldev.parse_counters,
    nldev.parse_exclusive,
    lambda data: nldev.parse_chardev("uverbs", data),
)


@pytest.mark.parametrize("whole", [DEVICE, PORT, IB_PORT, UVERBS, COUNTERS])
def test_every_truncation_parses_or_is_a_value_error(whole: bytes) -> None:
    for end in range(len(whole)):
        for parse in PARSERS:
            try:
                parse(whole[:end])
            except (ValueError, HostError):
                continue


@given(
    st.lists(st.tuples(st.integers(0, 100), st.binary(max_size=20)), max_size=12).map(
        lambda attrs: b"".join(attr(kind, payload) for kind, payload in attrs)
    )
    | st.binary(max_size=200)
)
def test_hostile_bytes_parse_or_are_a_value_error(data: bytes) -> None:
    for parse in PARSERS:
        try:
            parse(data)
        except (ValueError, HostError):
            continue


def test_live_kernel() -> None:
    try:
        connection = nldev.Rdma()
    except HostError as error:
        if error.errno != errno.EPROTONOSUPPORT:
            raise
        pytest.skip(str(error))
    with connection:
        assert nldev.exclusive(connection) in (True, False)
        seen = {device.name: device for device in nldev.devices(connection)}
        for device in rdma.devices():
            assert seen[device.name].node_guid == device.node_guid
            assert [port.state for port in nldev.ports(connection, seen[device.name])] == [
                port.state for port in device.ports
            ]
            for each in nldev.chardevs(connection, seen[device.name]):
                status = os.stat(f"/dev/infiniband/{each.name}")
                assert (os.major(status.st_rdev), os.minor(status.st_rdev)) == (each.major, each.minor)
