"""Hosts from what their own tools printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.world import ROOT
from tuner.lint.gather import hosts
from tuner.nic import App, Buffer, Ets, HostQos, NicQos
from tuner.nic_text import read_host

DATA = ROOT / "../shared/data/switch"
data = pytest.mark.skipif(not DATA.is_dir(), reason="the files are not on this machine")
MLNX_QOS = """\
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
        prio:0 dscp:02,01,00,
        prio:3 dscp:26,
        prio:6 dscp:48,
Cable len: 5
PFC configuration:
        priority    0   1   2   3   4   5   6   7
        enabled     0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: ets, bw: 50%
         priority:  0
         priority:  1
tc: 3 ratelimit: unlimited, tsa: ets, bw: 50%
         priority:  3
tc: 6 ratelimit: unlimited, tsa: strict
         priority:  6
"""
DCB = """\
$ dcb pfc show dev eth2
pfc-cap 8 macsec-bypass off delay 7
prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off
$ dcb ets show dev eth2
willing on ets-cap 8 cbs off
tc-bw 0:50 3:50
tc-tsa 0:ets 3:ets 6:strict
prio-tc 0:0 3:3 6:6
$ dcb app show dev eth2
dscp-prio AF31:3 48:6
dgram-port-prio 4791:3
$ dcb buffer show dev eth2
prio-buffer 0:0 3:1
buffer-size 0:130944b 1:262144b
total-size 400000b
$ dcb dcbx show dev eth2
host ieee
$ dcb app show dev eth3
  rc=0
$ dcb app show dev lo
Attribute read: Operation not supported
"""


def only(text: str) -> NicQos:
    host = read_host(text, "gpu-001")
    assert host is not None
    return host.nics[0]


def test_mlnx_qos() -> None:
    nic = only(MLNX_QOS)
    assert (nic.name, nic.trust, nic.cable_m) == ("gpu-001", "dscp", 5.0)
    assert nic.dcbx is not None
    assert nic.pfc is not None
    assert (nic.dcbx.host, nic.dcbx.lld_managed, nic.pfc.enabled) == (True, False, (3,))
    assert [nic.priorities_of(dscp) for dscp in (26, 48, 1, 46)] == [(3,), (6,), (0,), ()]
    assert nic.ets == Ets(
        prio_tc=(0, 0, 0, 3, 0, 0, 6, 0),
        tsa=("ets", "strict", "strict", "ets", "strict", "strict", "strict", "strict"),
        tc_bw=(50, 0, 0, 50, 0, 0, 0, 0),
    )


def test_firmware_that_has_dcbx() -> None:
    nic = only(MLNX_QOS.replace("OS controlled", "Firmware Controlled"))
    assert nic.dcbx is not None
    assert (nic.dcbx.host, nic.dcbx.lld_managed) == (False, True)


def test_dcb_of_several_devices() -> None:
    host = read_host(DCB, "gpu-001")
    assert host is not None
    nic, empty = host.nics  # what has no DCB is not there
    assert (nic.name, empty.name, empty.apps, empty.pfc) == ("eth2", "eth3", (), None)
    assert nic.pfc is not None
    assert (nic.pfc.enabled, nic.pfc.delay, nic.pfc.cap) == ((3,), 7, 8)
    assert nic.apps == (
        App(selector="dgram", protocol=4791, priority=3),
        App(selector="dscp", protocol=26, priority=3),
        App(selector="dscp", protocol=48, priority=6),
    )
    assert nic.buffer == Buffer(prio_buffer=(0, 0, 0, 1, 0, 0, 0, 0), size=(130944, 262144, *[0] * 6), total=400000)
    assert nic.ets is not None
    assert (nic.ets.willing, nic.ets.prio_tc[6], nic.ets.tsa[6]) == (True, 6, "strict")


@data
def test_what_real_hosts_printed() -> None:
    broadcom = only((DATA / "bnxt_niccli_getqos.txt").read_text())
    assert broadcom.pfc is not None
    assert broadcom.ets is not None
    assert (broadcom.pfc.enabled, broadcom.ets.tc_bw[:3], broadcom.ets.prio_tc[7]) == ((3,), (50, 50, 0), 2)
    assert [broadcom.priorities_of(dscp) for dscp in (26, 48)] == [(3,), (7,)]
    listed = only((DATA / "bnxt_niccli_list_devices.txt").read_text())
    assert listed.pci is not None
    assert (listed.name, listed.mac, listed.pci.address) == ("abcd1p1", "81:82:83:84:85:88", "0000:22:00.0")
    mellanox = only((DATA / "host_mlnx_qos_os_controlled.txt").read_text())
    assert (mellanox.trust, mellanox.cable_m, mellanox.priorities_of(26)) == ("dscp", 7.0, (3,))
    before, after = (only((DATA / f"host_dcb_connectx3_{when}.txt").read_text()) for when in ("before", "after"))
    assert (before.apps, before.priorities_of(26), after.priorities_of(26)) == ((), (), (3,))
    ours = read_host((DATA / "own_dcb61_on_dcbsim_transcript.txt").read_text(), "lab")
    assert ours is not None
    assert [nic.name for nic in ours.nics] == ["dcb0", "dcb1", "dcb2", "dcb3"]


def test_the_linter_reads_them_as_recorded_hosts(tmp_path: Path) -> None:
    (tmp_path / "gpu-001.txt").write_text(MLNX_QOS)
    found, broken = hosts([tmp_path / "gpu-001.txt"])
    assert (broken, [(host.node, host.nics[0].trust) for host in found]) == ((), [("gpu-001", "dscp")])


def test_text_of_another_kind_is_left_alone() -> None:
    assert read_host("{}", "h") is None
    assert read_host("", "h") is None


@given(
    st.lists(
        st.one_of(st.sampled_from([*MLNX_QOS.splitlines(), *DCB.splitlines(), "IEEE 8021QAZ ETS Configuration TLV:",
                                   "APP#0:", " Sel: 5", "DSCP: 48", "PRIO_MAP: 0:9 x:1", "1)  Device Interface : a"]),
                  st.text(max_size=30)),
        max_size=40,
    )
)  # fmt: skip
def test_any_lines_are_a_host_or_none(lines: list[str]) -> None:
    host = read_host("\n".join(lines), "h")
    if host is not None:
        assert HostQos.from_json(host.to_json()) == host
