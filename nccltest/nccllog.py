"""What NCCL logged against what was intended: HCA of each GPU, RoCE v2, traffic class, GPUDirect, no rail crossed, no
fall-back to sockets. A wrong path can be fast enough on an idle fabric: these are told whatever the bandwidth is. Pure.

Source of the lines: NCCL src/transport/net_ib.cc, net_socket.cc, net.cc and init.cc, 2.8 to 2.28, with NCCL_DEBUG=INFO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nccltest.model import Remark
from nccltest.redact import printable

__all__ = ["Intended", "check"]


class Intended(NamedTuple):
    """What fabric.yaml wants of a group."""

    rails: tuple[str, ...]
    """In the order of the GPUs that the job sees."""
    hcas: Mapping[str, str]
    """Rail -> RDMA device; empty: any, and sockets are no fall-back."""
    traffic_class: int
    """0: none is wanted."""


class _Line(NamedTuple):
    host: str
    text: str


class _End(NamedTuple):
    """One end of one channel."""

    host: str
    device: int
    """CUDA device of the rank at this end."""
    adapter: int
    """NCCL's number of the NIC."""
    direct: bool


_MOST_REMARKS = 64
_MOST_LINES = 200_000
_INFO = " NCCL INFO "
_HOST = re.compile(r"([A-Za-z0-9][\w.-]{0,252}):\d{1,10}:\d{1,10} \[\d{1,4}\]$")
_ADAPTERS = re.compile(r"\[(\d{1,3})\]([\w.-]{1,63}):\d{1,3}/(RoCE|IB|ROCE)")
_NETWORK = re.compile(r"Using network (\w{1,40})")
_CHANNEL = re.compile(
    r"Channel \d{1,4}(?:/\d{1,4})? : (\d{1,7})\[([0-9a-f]{1,8})\] -> (\d{1,7})\[([0-9a-f]{1,8})\] \[(send|receive)\] "
    r"via NET/(\w{1,24})/(\d{1,3})(\S{0,60})"
)
_CLASS = re.compile(r"NCCL_IB_TC set by environment to (\d{1,3})")
_GID = re.compile(r"NCCL_IB_GID_INDEX set by environment to (\d{1,3})")
_DISABLED = re.compile(r"GPU Direct RDMA Disabled for (.{1,120})")


def check(text: str, intended: Intended) -> list[Remark]:
    """What differs from the intention, each kind once for each place; nothing where NCCL logged nothing."""
    lines = list(_lines(text))
    adapters = _adapters(lines)
    ends = list(_ends(lines))
    remarks = [
        *_fallback(lines, ends, intended),
        *_link_layer(lines),
        *_wrong_adapters(ends, adapters, intended),
        *_crossed(ends, adapters, intended),
        *_indirect(lines, ends),
        *_traffic_class(lines, ends, intended),
        *_gid(lines),
    ]
    return list(dict.fromkeys(remarks))[:_MOST_REMARKS]


def _lines(text: str) -> Iterator[_Line]:
    """NCCL's lines with their host."""
    count = 0
    for line in text.split("\n"):
        head, found, rest = line[:4096].partition(_INFO)
        if found and (host := _HOST.search(head)):
            count += 1
            if count > _MOST_LINES:
                return
            yield _Line(host[1], printable(rest.strip()))


def _adapters(lines: Sequence[_Line]) -> dict[tuple[str, int], str]:
    """(host, number) -> RDMA device."""
    return {
        (line.host, int(number)): name
        for line in lines
        if "NET/IB" in line.text and "Using" in line.text
        for number, name, _ in _ADAPTERS.findall(line.text)
    }


def _ends(lines: Sequence[_Line]) -> Iterator[_End]:
    for line in lines:
        if (found := _CHANNEL.search(line.text)) and found[6] == "IB":
            device = found[2] if found[5] == "send" else found[4]
            # Before 2.10 the bracket holds a PCI bus id, which names no GPU's number.
            number = int(device) if device.isdecimal() and len(device) <= 2 else -1
            yield _End(line.host, number, int(found[7]), "GDRDMA" in found[8])


def _fallback(lines: Sequence[_Line], ends: Sequence[_End], intended: Intended) -> Iterator[Remark]:
    if not intended.hcas or ends:
        return
    for line in lines:
        network = _NETWORK.search(line.text)
        if (
            (network and network[1] == "Socket")
            or "via NET/Socket" in line.text
            or "NET/IB : No device found" in line.text
        ):
            yield Remark("socket-fallback", line.host, "NCCL uses sockets, not RDMA: 5 to 12 times slower")


def _link_layer(lines: Sequence[_Line]) -> Iterator[Remark]:
    for line in lines:
        if "NET/IB" in line.text and "Using" in line.text:
            for _, name, layer in _ADAPTERS.findall(line.text):
                if layer == "IB":
                    yield Remark("not-roce", f"{line.host} {name}", f"{name} has link layer InfiniBand, not Ethernet")


def _wrong_adapters(
    ends: Sequence[_End], adapters: Mapping[tuple[str, int], str], intended: Intended
) -> Iterator[Remark]:
    """An adapter that is no rail's, or another rail's than its GPU's."""
    wanted = {hca: rail for rail, hca in intended.hcas.items()}
    for end in ends:
        name = adapters.get((end.host, end.adapter))
        if name is None or not wanted:
            continue
        if name not in wanted:
            yield Remark("wrong-hca", f"{end.host} {name}", f"{name} carries traffic and is no rail's device")
        elif 0 <= end.device < len(intended.rails) and wanted[name] != intended.rails[end.device]:
            rail = intended.rails[end.device]
            yield Remark(
                "wrong-hca",
                f"{end.host} GPU {end.device}",
                f"GPU {end.device} belongs to {rail} but uses {name} ({wanted[name]})",
            )


def _crossed(ends: Sequence[_End], adapters: Mapping[tuple[str, int], str], intended: Intended) -> Iterator[Remark]:
    """A GPU that uses more than one rail's adapter: traffic between rails goes through the spine."""
    wanted = {hca: rail for rail, hca in intended.hcas.items()}
    used: dict[tuple[str, int], set[str]] = {}
    for end in ends:
        name = adapters.get((end.host, end.adapter))
        if end.device >= 0 and name in wanted:
            used.setdefault((end.host, end.device), set()).add(wanted[name])
    for (host, device), rails in used.items():
        if len(rails) > 1:
            yield Remark("cross-rail", f"{host} GPU {device}", f"one GPU uses {', '.join(sorted(rails))}")


def _indirect(lines: Sequence[_Line], ends: Sequence[_End]) -> Iterator[Remark]:
    for end in ends:
        if not end.direct:
            yield Remark(
                "no-gdr", f"{end.host} NIC {end.adapter}", "no GPUDirect RDMA: data is copied through the host"
            )
    for line in lines:
        if found := _DISABLED.search(line.text):
            yield Remark("no-gdr", line.host, f"GPUDirect RDMA is disabled for {found[1]}")


def _traffic_class(lines: Sequence[_Line], ends: Sequence[_End], intended: Intended) -> Iterator[Remark]:
    if not intended.traffic_class or not ends:
        return
    told = {line.host: int(found[1]) for line in lines if (found := _CLASS.search(line.text))}
    for host in dict.fromkeys(end.host for end in ends):
        used = told.get(host)
        # The two lowest bits are ECN's: 104 and 106 are one class.
        if used is None:
            yield Remark(
                "traffic-class", host, f"NCCL_IB_TC is not set; the lossless class is {intended.traffic_class}"
            )
        elif used >> 2 != intended.traffic_class >> 2:
            yield Remark("traffic-class", host, f"NCCL_IB_TC is {used}, the lossless class is {intended.traffic_class}")


def _gid(lines: Sequence[_Line]) -> Iterator[Remark]:
    """Every GID comes twice, first as RoCE v1: even indices."""
    for line in lines:
        if (found := _GID.search(line.text)) and int(found[1]) % 2 == 0:
            yield Remark("not-rocev2", line.host, f"NCCL_IB_GID_INDEX={found[1]} is a RoCE v1 address; leave it unset")
