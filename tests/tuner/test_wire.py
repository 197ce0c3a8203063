"""Frames: what is made is read back, what tshark and lldpad say of them, and what damaged ones do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from host.errors import HostError
from tests.world import ROOT, Ns, World, sh
from tuner import wire
from tuner.lldp import App, Ets, Lldp, Pfc
from tuner.prove import Marking, Probe, Seen

octets = st.tuples(*[st.integers(0, 255)] * 8)
nibbles = st.tuples(*[st.integers(0, 15)] * 8)
shares = st.builds(Ets, nibbles, octets, octets)
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
frames = st.builds(
    Lldp,
    chassis=st.one_of(names, st.just("b8:ce:f6:00:00:01")),
    port=st.one_of(names, st.just("b8:ce:f6:00:00:02")),
    ttl=st.integers(0, 65535),
    system=st.one_of(st.none(), names),
    description=st.one_of(st.none(), names),
    ets=st.one_of(st.none(), st.builds(Ets, nibbles, octets, octets, st.booleans(), st.booleans(), st.integers(1, 8))),
    recommended=st.one_of(st.none(), shares),
    pfc=st.one_of(
        st.none(),
        st.builds(Pfc, st.frozensets(st.integers(0, 7)), st.booleans(), st.booleans(), st.integers(0, 15)),
    ),
    apps=st.one_of(
        st.none(),
        st.lists(st.builds(App, st.integers(0, 7), st.integers(0, 7), st.integers(0, 65535)), max_size=20).map(tuple),
    ),
    cee=st.booleans(),
    source=st.just("02:00:00:00:00:05"),
)
SWITCH = Lldp(
    chassis="b8:ce:f6:00:00:01",
    port="Ethernet0",
    ttl=120,
    system="leaf-r0",
    description="rail0",
    ets=Ets((0, 0, 0, 3, 0, 0, 6, 0), (50, 0, 0, 50, 0, 0, 0, 0), (2, 0, 0, 2, 0, 0, 0, 0), True, False, 8),
    recommended=Ets((0, 1, 2, 3, 4, 5, 6, 7), (10, 0, 0, 90, 0, 0, 0, 0), (2, 255, 0, 2, 0, 0, 0, 1)),
    pfc=Pfc(frozenset({3}), willing=True, macsec_bypass=False, capability=8),
    apps=(App(3, 3, 4791), App(3, 5, 26), App(6, 5, 48)),
    source="02:00:00:00:00:05",
)


@settings(max_examples=200, deadline=None)
@given(lldp=frames)
def test_what_is_made_is_read_back(lldp: Lldp) -> None:
    assert wire.read_lldp(wire.make_lldp(lldp)) == lldp


@settings(max_examples=200, deadline=None)
@given(lldp=frames, cut=st.integers(0, 200), noise=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255))))
def test_a_damaged_frame_is_a_frame_or_is_refused(lldp: Lldp, cut: int, noise: list[tuple[int, int]]) -> None:
    data = bytearray(wire.make_lldp(lldp))
    for at, value in noise:
        data[at % len(data)] = value
    try:
        read = wire.read_lldp(bytes(data[: len(data) - cut]))
    except wire.BadFrame:
        return
    for text in (read.chassis, read.port, read.system or "", read.description or ""):
        assert text.isprintable()


@given(data=st.binary(max_size=120))
def test_any_bytes_are_a_frame_or_are_refused(data: bytes) -> None:
    for read in (wire.read_lldp, wire.read_probe):
        try:
            read(data)
        except wire.BadFrame:
            continue


def test_the_layout_is_that_of_the_standard() -> None:
    """IEEE 802.1Q annex D.2.8 to D.2.11, byte by byte."""
    data = wire.make_lldp(SWITCH)
    ets = bytes.fromhex("fe19 0080c2 09 80 00030060 3200003200000000 0200000200000000")
    recommended = bytes.fromhex("fe19 0080c2 0a 00 01234567 0a00005a00000000 02ff000200000001")
    pfc = bytes.fromhex("fe06 0080c2 0b 88 08")
    apps = bytes.fromhex("fe0e 0080c2 0c 00 6312b7 65001a c50030")
    assert ets + recommended + pfc + apps in data


def test_cee_is_known_and_no_ieee() -> None:
    read = wire.read_lldp(wire.make_lldp(Lldp("switch", "1", 120, cee=True)))
    assert (read.cee, read.ieee) == (True, False)
    assert wire.read_lldp(wire.make_lldp(SWITCH)).ieee


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "frames.pcap"
    other = Probe(b"run-0001", 0, 26, 2, 7, ip_address("10.0.0.1"), ip_address("10.0.0.2"), "02:00:00:00:00:01",
                  "02:00:00:00:00:02")  # fmt: skip
    frames = [Ether(data) for data in (wire.make_lldp(SWITCH), wire.make_probe(other), b"\x00" * 60)]
    wrpcap(str(path), frames)
    return path


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_tshark_reads_in_our_frames_what_we_put_there(capture: Path) -> None:
    tree = [line.strip() for line in sh("tshark", "-r", str(capture), "-Y", "lldp", "-V").splitlines()]
    assert not [line for line in tree if "Malformed" in line]
    for line in (
        "Port Id: Ethernet0",
        "System Name: leaf-r0",
        "Seconds: 120",
        "1... .... = Willing: Yes",
        ".0.. .... = Credit-Based Shaper: Not supported",
        ".... .000 = Maximum Number of Traffic Classes: 8 (0x0)",
        ".... .... .... 0011 = PGID for Prio 3: 3",
        ".... .... 0110 .... = PGID for Prio 6: 6",
        "Bandwidth for PGID 3: 50",
        "TSA for Traffic Class 0: Enhanced Transmission Selection (2)",
        "TSA for Traffic Class 1: Vendor Specific Algorithm (255)",
        "Bandwidth for PGID 3: 90",
        ".... 1000 = Max PFC Enabled Traffic Classes: 8",
        ".... 1... = PFC for Priority 3: Enabled",
        "...0 .... = PFC for Priority 4: Disabled",
        "011. .... = Application Priority: 3",
        "Application Protocol Id: 0x12b7",
        "Application Protocol Id: 0x001a",
    ):
        assert line in tree, line


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_tshark_takes_a_probe_for_rocev2(capture: Path) -> None:
    fields = ("ip.dsfield.dscp", "ip.dsfield.ecn", "udp.dstport", "infiniband.bth.opcode", "infiniband.bth.destqp")
    words = [word for field in fields for word in ("-e", field)]
    line = sh("tshark", "-r", str(capture), "-Y", "infiniband", "-T", "fields", *words).strip()
    assert line.split("\t") == ["26", "2", "4791", "100", "0xfffffe"]
    assert "Malformed" not in sh("tshark", "-r", str(capture), "-Y", "infiniband", "-V")


def test_a_capture_gives_its_lldp_frames_and_passes_over_the_rest(capture: Path) -> None:
    assert [each.system for each in wire.read_capture(capture)] == ["leaf-r0"]


def test_a_file_that_is_no_capture_says_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no capture, but long enough to have a header of one")
    with pytest.raises(HostError, match="no capture file"):
        list(wire.read_capture(tmp_path / "text"))
    with pytest.raises(HostError, match="ENOENT"):
        list(wire.read_capture(tmp_path / "nothing"))


PROBE = Probe(
    run=b"run-0001",
    way=1,
    dscp=26,
    ecn=2,
    sequence=7,
    source=ip_address("10.200.0.1"),
    target=ip_address("10.200.0.2"),
    source_mac="02:00:00:00:00:01",
    target_mac="02:00:00:00:00:02",
)


@settings(max_examples=60, deadline=None)
@given(
    dscp=st.integers(0, 63),
    ecn=st.integers(0, 3),
    sequence=st.integers(0, 2**32 - 1),
    port=st.sampled_from((4791, 4790)),
)
@pytest.mark.parametrize("family", [4, 6])
def test_a_probe_is_read_back(family: int, dscp: int, ecn: int, sequence: int, port: int) -> None:
    names = ("10.0.0.1", "10.0.0.2") if family == 4 else ("fd00::1", "fd00::2")
    addresses: dict[str, Any] = {"source": ip_address(names[0]), "target": ip_address(names[1])}
    probe = replace(PROBE, dscp=dscp, ecn=ecn, sequence=sequence, port=port, **addresses)
    seen = wire.read_probe(wire.make_probe(probe))
    assert seen == Seen(b"run-0001", 1, Marking(dscp, ecn), sequence, Marking(dscp, ecn))


def test_a_probe_that_was_re_marked_says_what_it_was_and_what_it_is() -> None:
    data = bytearray(wire.make_probe(PROBE))
    data[15] = 8 << 2 | 3
    seen = wire.read_probe(bytes(data))
    assert (seen.sent, seen.arrived) == (Marking(26, 2), Marking(8, 3))


@pytest.fixture
def link() -> Iterator[tuple[Ns, Ns]]:
    """Two namespaces with a cable between them, ``nic0`` at either end."""
    with World(rails=0) as world:
        one, other = world.ns("one"), world.ns("other")
        one.ip("link", "add", "nic0", "type", "veth", "peer", "name", "nic0", "netns", other.name)
        for space in (one, other):
            space.ip("link", "set", "nic0", "up")
        yield one, other


def heard(space: Ns, seconds: float = 10) -> subprocess.Popen[str]:
    """A process in a namespace that prints the first LLDP frame on nic0."""
    script = f"from tuner.wire import listen_lldp\nfor each in listen_lldp('nic0', {seconds}): print(each); break"
    words = ["nsenter", f"--net={space.path}", "--", sys.executable, "-c", script]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.netns
def test_frames_are_heard_on_an_interface(link: tuple[Ns, Ns], tmp_path: Path) -> None:
    (tmp_path / "frame").write_bytes(wire.make_lldp(SWITCH))
    script = (
        "import socket\ns=socket.socket(socket.AF_PACKET,socket.SOCK_RAW)\ns.bind(('nic0',0))\n"
        f"s.send(open({str(tmp_path / 'frame')!r},'rb').read())"
    )
    listener = heard(link[0])
    for _ in range(40):
        link[1].run(sys.executable, "-c", script)
        time.sleep(0.2)
        if listener.poll() is not None:
            break
    assert listener.communicate(timeout=15)[0] == f"{SWITCH}\n"


@pytest.mark.netns
@pytest.mark.skipif(not shutil.which("lldpad"), reason="lldpad is not installed")
def test_a_real_agents_frames_are_read(link: tuple[Ns, Ns], tmp_path: Path) -> None:
    """lldpad has no DCBX for a NIC without DCB, so this is about the rest of the frame."""
    words = ["nsenter", f"--net={link[1].path}", "--", "lldpad", "-f", str(tmp_path / "lldpad.conf")]
    agent = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    listener = heard(link[0], 30)
    try:
        for _ in range(40):  # until it listens to its tool
            time.sleep(0.2)
            if "rxtx" in link[1].run("lldptool", "set-lldp", "-i", "nic0", "adminStatus=rxtx", check=False):
                break
        link[1].run("lldptool", "-T", "-i", "nic0", "-V", "portDesc", "enableTx=yes")
        text = listener.communicate(timeout=40)[0]
    finally:
        listener.kill()
        agent.terminate()
        agent.wait(10)
    mac = link[1].json("link", "show", "nic0")[0]["address"]
    assert f"source='{mac}'" in text
    assert re.search(r"chassis='(..:){5}..', port='(..:){5}..', ttl=120", text)
    assert "as nic0" in text


def test_an_interface_that_is_not_there_says_so() -> None:
    with pytest.raises(HostError, match="listen for LLDP on nowhere"):
        list(wire.listen_lldp("nowhere", 1))
